// SPDX-License-Identifier: Apache-2.0
// The descendants of the calling process: finding them, counting them, signalling them, ending them.
//
// The caller is a child subreaper, so that whatever its descendants do (setsid, double fork) they stay below it. A look
// walks /proc/PID/task/*/children, which costs what the tree is big; on kernels without that file it reads all of
// /proc, once for all who look (census.h). A look is not a snapshot: processes come, go and move while it is taken. So
// nothing here is true for long, and whoever ends a tree repeats end_round() until wait4(2) says that no child is left.
//
// Danger: a pid that is no child of the caller may be another process a moment later. Direct children are signalled by
// pid, which is safe as long as the caller does not reap between look and signal; all others through a pidfd, after
// their parent was checked again.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "census.h"
#include "sys.h"

namespace errand::keeper {

struct Member {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t branch = 0;      // the caller's own child that it descends from
  char state = '?';      // as in /proc/PID/stat
  bool counted = false;  // alive and wanted; the others are only on the way
  bool threads = false;  // more than one: a leader that is a zombie may still be alive
  bool refused = false;  // the kernel does not let us signal it
};

// What a look does with a child of the caller and what is below it.
enum class Branch : std::uint8_t { take, skip };

struct Choice {
  Branch (*choose)(void* context, pid_t child) = nullptr;  // none: take all
  void* context = nullptr;
};

struct Count {
  std::uint32_t live = 0;
  std::uint32_t refused = 0;  // of these: not ours to signal
  std::uint32_t fresh = 0;    // of these: neither refused nor killed in the round before
  bool readable = true;       // false: /proc told nothing
};

class Tree {
 public:
  // Without a census it is found by children files.
  explicit Tree(Census* census) : census_(census) {}

  // Whether the kernel has /proc/PID/task/TID/children.
  static bool has_children_files();

  Count look(Choice choice = {});
  // What the last look found, with members among them that are not counted.
  const Array<Member>& members() const { return members_; }
  // To every member that the last look counted. `then` follows at once when it is not 0.
  void signal_all(int signal, int then = 0);
  // Stops the tree until a look finds nothing that moves, then kills it. What is killed needs a moment to be gone.
  Count end_round(Choice choice = {});
  // Gives the memory back.
  void rest();

 private:
  bool append_children(pid_t parent, pid_t branch, bool threads);
  bool append_children_of_thread(pid_t parent, pid_t thread, pid_t branch);
  bool append_from_census(pid_t parent, pid_t branch);
  bool fill(Member& member);
  bool is_doomed(pid_t pid) const;
  bool may_be_parent(const Member& member, pid_t parent) const;
  void signal_one(Member& member, int signal, int then);
  Count count() const;

  Census* census_;
  pid_t self_ = 0;
  Array<Member> members_;
  Array<Seen> seen_;     // the census
  Array<pid_t> doomed_;  // killed in the last round, in order
};

}  // namespace errand::keeper
