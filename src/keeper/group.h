// SPDX-License-Identifier: Apache-2.0
// A control group (cgroup v2) for each keeper and its task, where the group that the host runs in has been given to us
// to divide. It is there in addition: trees are found and ended without it. It ends what may not be signalled, what
// grows faster than it can be looked at, and, at the start of the next zygote, what is left when a host, its zygote and
// a keeper were all killed.
//
// To move a process into a group takes the kernel ten milliseconds and more, so none is moved at a start: the zygote
// forks a keeper into its group (clone3), where the shell and all else are born. Before it has the group killed, the
// keeper leaves it.
//
// A group is locked (flock on its folder) as long as its keeper lives, and only by that: whoever gets the lock may kill
// what is inside. The lock knows no pid, so groups of other pid namespaces are safe as well.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/fd.h"
#include "sys.h"

namespace errand::keeper {

// Kills everything in a group.
bool kill_group(int group);
// The caller goes to the group above.
bool leave_group(int group);
// For a keeper whose zygote is dead, at its end.
void leave_and_remove_group(int group);

class Groups {
 public:
  static constexpr std::uint32_t kNone = 0;

  // Divides `folder`; null: the caller's own group, if that is delegated to it.
  void open(const char* folder);
  // In a forked keeper.
  void close() { folder_.reset(); }
  // Kills and removes the groups whose keepers are dead.
  void sweep();

  // Forks, into a new group if there can be one, else as fork(2). In the child `group` is the descriptor that holds the
  // group's lock; in the caller `number` is its name.
  pid_t fork_into(std::uint32_t& number, UniqueFd& group);
  void kill(std::uint32_t number);
  // When its keeper is gone. What is dying still keeps it for a moment: then it is tried again with the next call,
  // which may be for none.
  void remove(std::uint32_t number = kNone);

 private:
  UniqueFd make(std::uint32_t number);

  UniqueFd folder_;
  std::uint32_t last_ = kNone;
  Array<std::uint32_t> busy_;  // to be removed
};

}  // namespace errand::keeper
