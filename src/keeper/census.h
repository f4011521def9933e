// SPDX-License-Identifier: Apache-2.0
// One look at all of /proc that serves every keeper of a zygote, for kernels without /proc/PID/task/TID/children.
//
// A thousand keepers that end their trees at the same moment would read all of /proc a thousand times each round, which
// is quadratic. So they share what was read: who needs a census takes one that somebody began after it asked, else it
// reads /proc itself and leaves the result to the others. However many ask, there is one reader at a time.
//
// The result lies in a memfd that the zygote made. Its lock is a record lock, which the kernel takes from a process
// that dies; one that is stopped while it reads costs the others a wait, and then each reads for itself.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "sys.h"

namespace errand::keeper {

struct Seen {
  pid_t pid;
  pid_t parent;
  char state;
  bool threads;  // more than one
};

class Census {
 public:
  // Before the first keeper is forked. False: there is no memory; the census then serves its caller alone.
  bool share();
  // Everybody that /proc shows, by parent, seen after this was called. False: /proc cannot be read.
  bool take(Array<Seen>& out);
  // How often /proc has been read for all.
  std::uint32_t readings() const { return page_ == nullptr ? 0 : page_->version.load() / 2; }

 private:
  // Pages that are not used do not exist. With more processes than these nothing is shared.
  static constexpr std::uint32_t kMost = 1U << 20;

  struct Page {
    std::atomic<std::uint32_t> version;  // odd while it is written
    std::atomic<std::int64_t> begun_ns;
    std::uint32_t count;
    Seen seen[kMost];
  };

  static bool read_proc(Array<Seen>& out);
  bool copy_if_begun_after(std::int64_t moment_ns, Array<Seen>& out);
  void publish(std::int64_t begun_ns, const Array<Seen>& seen);
  bool lock(bool on);

  UniqueFd file_;
  Page* page_ = nullptr;
};

}  // namespace errand::keeper
