// SPDX-License-Identifier: Apache-2.0
// The tree by itself: a process that has left it since the look gets no signal, though its pid is known.
#include "tree.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>

#include "proc.h"

namespace errand::keeper {
namespace {

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::usleep(2000);
  }
  return true;
}

pid_t parent_of(pid_t pid) {
  Stat stat;
  return read_stat(pid, stat) ? stat.parent : 0;
}

// Looks at its tree, a child and a grandchild; then the child dies and the grandchild goes to somebody else. What is
// signalled after that is none of it. The exit code is the step that went wrong.
int look_lose_signal(int pids, Census* census) {
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      for (;;) ::pause();
    }
    for (;;) ::pause();
  }
  Tree tree(census);
  pid_t grandchild = 0;
  const bool seen = eventually([&] { return tree.look().live == 2; });
  for (const Member& member : tree.members()) grandchild = member.pid == child ? grandchild : member.pid;
  const bool told = ::write(pids, &grandchild, sizeof grandchild) == static_cast<ssize_t>(sizeof grandchild);
  if (::kill(child, SIGKILL) != 0) return 1;  // not reaped: nobody else can have its pid
  if (!seen || !told) return 2;
  if (!eventually([&] { return parent_of(grandchild) == ::getppid(); })) return 3;
  tree.signal_all(SIGKILL);
  return 0;
}

TEST(TreeTest, WhatHasLeftTheTreeSinceTheLookIsNotSignalled) {
  for (const bool by_scan : {false, true}) {
    SCOPED_TRACE(by_scan);
    int pids[2];
    ASSERT_EQ(::pipe(pids), 0);
    // A process of its own is the subreaper to which the grandchild goes.
    const pid_t above = ::fork();
    if (above == 0) {
      ::prctl(PR_SET_CHILD_SUBREAPER, 1);
      const pid_t keeper = ::fork();
      if (keeper == 0) {
        Census census;
        ::_exit(look_lose_signal(pids[1], by_scan ? &census : nullptr));
      }
      int status = 0;
      pid_t grandchild = 0;
      if (::waitpid(keeper, &status, 0) != keeper || !WIFEXITED(status)) ::_exit(10);
      const int step = WEXITSTATUS(status);
      ::close(pids[1]);
      if (::read(pids[0], &grandchild, sizeof grandchild) != static_cast<ssize_t>(sizeof grandchild)) ::_exit(11);
      if (step != 0 && grandchild > 0) ::kill(grandchild, SIGKILL);
      if (step != 0) ::_exit(step);
      // A SIGKILL that it had got would be what it dies of.
      ::kill(grandchild, SIGTERM);
      if (::waitpid(grandchild, &status, 0) != grandchild || !WIFSIGNALED(status)) ::_exit(12);
      ::_exit(WTERMSIG(status) == SIGTERM ? 0 : 13);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(above, &status, 0), above);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "13: it was signalled; another: the step that went wrong";
    ::close(pids[0]);
    ::close(pids[1]);
  }
}

}  // namespace
}  // namespace errand::keeper
