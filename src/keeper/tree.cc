// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <errno.h>
#include <signal.h>

#include <algorithm>

#include "proc.h"

namespace errand::keeper {
namespace {

// Nothing that moves by itself. A process in an uninterruptible wait stops before it gets back to its program.
bool stands_still(const Member& member) {
  switch (member.state) {
    case 'T':
    case 't':
    case 'D':
    case 'Z':
    case 'X':
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Tree::has_children_files() {
  const pid_t self = ::getpid();
  return read_children(self, self, [](pid_t) { return true; });
}

bool Tree::append_children_of_thread(pid_t parent, pid_t thread, pid_t branch) {
  return read_children(parent, thread, [&](pid_t child) {
    Member member;
    member.pid = child;
    member.parent = parent;
    member.branch = branch;
    return members_.append(member);
  });
}

bool Tree::append_children(pid_t parent, pid_t branch, bool threads) {
  if (census_ != nullptr) return append_from_census(parent, branch);
  if (!threads) return append_children_of_thread(parent, parent, branch);
  return each_thread(parent, [&](pid_t thread) { append_children_of_thread(parent, thread, branch); });
}

bool Tree::append_from_census(pid_t parent, pid_t branch) {
  const Seen* at = std::lower_bound(seen_.begin(), seen_.end(), parent,
                                    [](const Seen& seen, pid_t wanted) { return seen.parent < wanted; });
  for (; at != seen_.end() && at->parent == parent; ++at) {
    Member member;
    member.pid = at->pid;
    member.parent = parent;
    member.branch = branch;
    member.state = at->state;
    member.threads = at->threads;
    if (!members_.append(member)) return false;
  }
  return true;
}

// Looks at one that was found below its parent. False: it is gone, or it is another by now.
bool Tree::fill(Member& member) {
  if (census_ == nullptr) {
    Stat stat;
    if (!read_stat(member.pid, stat)) {
      // Hidden from us (hidepid) but there: somebody else's.
      if (::kill(member.pid, 0) == 0 || errno != EPERM) return false;
      member.refused = true;
      member.counted = true;
      return true;
    }
    // Its parent died meanwhile and it fell to us: then we may take it for a child.
    if (stat.parent == self_) member.parent = self_;
    if (stat.parent != member.parent) return false;
    member.state = stat.state;
    member.threads = stat.threads > 1;
  }
  const bool dead = member.state == 'X' || (member.state == 'Z' && !member.threads);
  member.counted = !dead;
  return !dead;
}

Count Tree::look(Choice choice) {
  self_ = ::getpid();
  members_.restart();
  bool readable = census_ == nullptr || census_->take(seen_);
  readable = append_children(self_, 0, false) && readable;

  const std::size_t children = members_.size();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    Branch branch = Branch::take;
    if (i < children) {
      member.branch = member.pid;
      if (choice.choose != nullptr) branch = choice.choose(choice.context, member.pid);
    }
    if (branch == Branch::skip || !fill(member)) continue;
    append_children(member.pid, member.branch, member.threads);  // `member` may have moved after this
  }
  Count result = count();
  result.readable = readable;
  return result;
}

Count Tree::count() const {
  Count result;
  for (const Member& member : members_) {
    if (!member.counted) continue;
    ++result.live;
    if (member.refused) {
      ++result.refused;
    } else if (!is_doomed(member.pid)) {
      ++result.fresh;
    }
  }
  return result;
}

bool Tree::is_doomed(pid_t pid) const { return std::binary_search(doomed_.begin(), doomed_.end(), pid); }

// A signal to its parent a moment ago may have moved it to the next subreaper: the caller, the caller's child that it
// is below, or one of the tree.
bool Tree::may_be_parent(const Member& member, pid_t parent) const {
  if (parent == member.parent || parent == member.branch || parent == self_) return true;
  return std::any_of(members_.begin(), members_.end(), [parent](const Member& other) { return other.pid == parent; });
}

void Tree::signal_one(Member& member, int signal, int then) {
  int result = 0;
  int error = 0;
  if (member.parent == self_) {
    result = ::kill(member.pid, signal);
    error = errno;
    if (result == 0 && then != 0) ::kill(member.pid, then);
  } else {
    const UniqueFd process(open_pidfd(member.pid));
    Stat stat;
    if (!read_stat(member.pid, stat) || !may_be_parent(member, stat.parent)) return;
    // Without a pidfd (no descriptor left in the system) the check a moment ago has to do.
    result = process ? signal_pidfd(process.get(), signal) : ::kill(member.pid, signal);
    error = errno;
    if (result == 0 && then != 0) {
      if (process) {
        signal_pidfd(process.get(), then);
      } else {
        ::kill(member.pid, then);
      }
    }
  }
  if (result != 0 && error == EPERM) member.refused = true;
}

void Tree::signal_all(int signal, int then) {
  for (Member& member : members_) {
    if (member.counted) signal_one(member, signal, then);
  }
}

Count Tree::end_round(Choice choice) {
  // A tree that grows faster than we look is killed as far as we see it; the next round gets the rest.
  const std::int64_t give_up = now_ms() + 200;
  bool readable = true;
  for (long pause_us = 100;; pause_us = std::min(pause_us * 2, 10000L)) {
    readable = look(choice).readable;
    bool moving = false;
    for (Member& member : members_) {
      if (!member.counted || stands_still(member) || is_doomed(member.pid)) continue;
      signal_one(member, SIGSTOP, 0);
      if (!member.refused) moving = true;
    }
    if (!moving || now_ms() >= give_up) break;
    sleep_us(pause_us);
  }
  signal_all(SIGKILL);
  Count result = count();
  result.readable = readable;

  doomed_.restart();
  for (const Member& member : members_) {
    if (member.counted && !member.refused) doomed_.append(member.pid);
  }
  std::sort(doomed_.begin(), doomed_.end());
  return result;
}

void Tree::rest() {
  members_.clear();
  seen_.clear();
  doomed_.clear();
}

}  // namespace errand::keeper
