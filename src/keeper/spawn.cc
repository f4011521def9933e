// SPDX-License-Identifier: Apache-2.0
// run_in_child() runs in the new process, on memory that is the caller's: it may only make system calls.
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace errand::keeper {
namespace {

struct Order {
  const Shell* shell;
  Started* result;
};

[[noreturn]] void fail(Started& result, StartStep step) {
  result.error = errno;
  result.step = step;
  ::_exit(127);
}

int run_in_child(void* argument) {
  const Shell& shell = *static_cast<Order*>(argument)->shell;
  Started& result = *static_cast<Order*>(argument)->result;

  if (::setsid() < 0) fail(result, StartStep::setsid);

  if (shell.nofile_soft != 0) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) fail(result, StartStep::rlimit);
    limit.rlim_cur = shell.nofile_soft < limit.rlim_max ? static_cast<rlim_t>(shell.nofile_soft) : limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) fail(result, StartStep::rlimit);
  }

  if (shell.duplex >= 0 && ::dup2(shell.duplex, 0) < 0) fail(result, StartStep::stdio);
  if (::dup2(shell.duplex >= 0 ? shell.duplex : shell.output, 1) < 0) fail(result, StartStep::stdio);
  if (::dup2(shell.output, 2) < 0) fail(result, StartStep::stdio);

  if (::chdir(shell.cwd) != 0) fail(result, StartStep::chdir);

  // Everything of ours is close-on-exec as well; this is for what we do not know of. (Before Linux 5.9 there is none.)
  ::syscall(SYS_close_range, 3U, ~0U, 0U);

  // No handler exists and every disposition is the default, so a signal that comes from here on just ends the child.
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  ::execve(shell.path, shell.argv, shell.envp);
  fail(result, StartStep::exec);
}

constexpr std::size_t kStackBytes = 64 * 1024;

// The child's; kept from the rehearsal to the start.
void* stack = MAP_FAILED;

}  // namespace

Started start_shell(const Shell& shell) {
  Started result;
  if (stack == MAP_FAILED) {
    stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  }
  if (stack == MAP_FAILED) return {-1, StartStep::fork, errno};

  Order order{&shell, &result};
  const pid_t pid =
      ::clone(run_in_child, static_cast<char*>(stack) + kStackBytes, CLONE_VM | CLONE_VFORK | SIGCHLD, &order);
  const int clone_error = errno;
  if (pid < 0) return {-1, StartStep::fork, clone_error};
  if (result.step != StartStep::none) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    result.pid = -1;
    return result;
  }
  result.pid = pid;
  ::munmap(stack, kStackBytes);
  stack = MAP_FAILED;
  return result;
}

void rehearse_start() {
  Shell nowhere;
  nowhere.cwd = "";
  nowhere.output = 0;
  start_shell(nowhere);
}

}  // namespace errand::keeper
