// SPDX-License-Identifier: Apache-2.0
// What trees of processes use, by a look at /proc now and then. One look serves all tasks; it is taken in slices, so
// that whoever takes it has other things done between them. Passive: its owner says when, and from which thread.
//
// CPU is what the living have used and what their parents, and in the end the keeper, have reaped. A process that is
// reaped while the look is taken must not be counted twice, so every parent is read before its children, or else the
// child is looked up again afterwards. What ends unseen is missing: the figures are lower bounds.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/proc_files.h"

namespace errand {

// A task that is to be looked at.
struct SampleSubject {
  std::uint64_t serial = 0;
  pid_t keeper = 0;
};

struct Sample {
  std::uint64_t serial = 0;
  double cpu_seconds = 0;  // without the keeper's own
  std::uint64_t rss_bytes = 0;
  std::vector<pid_t> living;  // ascending; without the dead, and those that are past their exit
};

class Sampler {
 public:
  // How the trees are found: each on its own through children files, or all by one pass over /proc.
  enum class Way { children, scan };

  // Begins a look. The way is the cheaper one, unless it is given.
  void begin(std::vector<SampleSubject> subjects, std::optional<Way> way = std::nullopt);
  bool busy() const { return !subjects_.empty(); }
  // Goes on for about this time. True when the look is complete: take() has it.
  bool go_on(std::int64_t microseconds);
  // In the order of the subjects. Ends the look.
  std::vector<Sample> take();

  // A whole look at one tree.
  static Sample look_at(const SampleSubject& subject);

 private:
  struct Seen {
    pid_t pid = 0;
    pid_t parent = 0;
    std::uint64_t start_ticks = 0;
    std::uint64_t ticks = 0;
    std::uint64_t rss_bytes = 0;
    bool living = false;
    std::size_t subject = kNone;
    bool after_its_parents = true;  // false: read before one of them
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void read_keeper(std::size_t subject);
  void see(pid_t pid, std::size_t subject);
  // One process more; false when there is none left.
  bool walk_on();
  bool scan_on();
  // Whose it is, from the parents that the scan saw.
  void find_subject(std::size_t index);
  void count();

  std::vector<SampleSubject> subjects_;
  std::vector<Sample> samples_;
  std::vector<std::uint64_t> ticks_;
  Way way_ = Way::children;
  std::size_t keepers_read_ = 0;
  std::size_t walked_ = 0;  // of seen_: its children are known
  std::unique_ptr<DIR, int (*)(DIR*)> directory_{nullptr, ::closedir};
  std::vector<Seen> seen_;
  std::unordered_map<pid_t, std::size_t> by_pid_;     // index in seen_
  std::unordered_map<pid_t, std::size_t> by_keeper_;  // index in subjects_
};

}  // namespace errand
