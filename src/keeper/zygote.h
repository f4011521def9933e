// SPDX-License-Identifier: Apache-2.0
// The zygote forks keepers and supervises them: what a killed keeper leaves falls to it (it is a child subreaper as
// well) and is ended at once.
//
// A keeper that somebody stops is continued at once: the news of its task's end would else wait for that.
//
// When the host is gone it waits for the keepers, which end their trees by themselves. It wakes stopped ones, shoots
// those that are not through long after their grace, and ends what they leave. It exits when the host is gone, or the
// engine has closed the control socket, and no keeper is left.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "group.h"
#include "shared.h"
#include "sys.h"
#include "tree.h"
#include "wire.h"

namespace errand::keeper {

class Zygote {
 public:
  // `title` is the word of the command line that tells `ps` what a process is; six letters. `groups` is the control
  // group to divide, or null.
  Zygote(UniqueFd control, UniqueFd host, Shared* shared, Census* census, char* title, const char* groups);
  // Returns the exit status of this process, which is a keeper by then or still the zygote.
  int run();

 private:
  struct Ward {
    pid_t keeper = 0;
    std::uint32_t slot = Shared::kNoSlot;
    std::uint32_t group = Groups::kNone;
  };

  void on_control();
  void fork_keeper(UniqueFd channel);
  void reap();
  void begin_sweep();
  void sweep(std::int64_t now);
  void after_host(std::int64_t now);
  bool finished() const;
  int wait_ms(std::int64_t now) const;
  std::uint32_t take_slot();
  Ward* find(pid_t keeper);
  static Branch only_orphans(void* zygote, pid_t child);

  UniqueFd control_;
  UniqueFd host_fd_;
  UniqueFd signals_;
  Shared* shared_;
  Census* census_;
  char* title_;
  Groups groups_;
  pid_t host_;
  Tree tree_;
  Array<Ward> wards_;
  Array<std::uint32_t> free_slots_;
  std::uint32_t used_slots_ = 0;

  int keeper_status_ = -1;  // in a forked keeper: its exit status
  std::int64_t host_gone_ = 0;
  std::int64_t next_wake_ = 0;
  bool sweeping_ = false;
  bool hopeless_ = false;  // what is left cannot be ended by us
  std::int64_t sweep_since_ = 0;
  std::int64_t next_sweep_ = 0;
};

}  // namespace errand::keeper
