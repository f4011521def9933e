// SPDX-License-Identifier: Apache-2.0
#include "engine/hidden_child.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>

#include "engine/signal_block.h"

// glibc's clone by its other name: a sanitizer that takes `clone` for a fork would set its locks free twice.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);

namespace errand {
namespace {

constexpr std::size_t kStack = 256 * 1024;

struct Call {
  void (*work)(void*);
  void* argument;
};

int call(void* argument) {
  const Call& todo = *static_cast<const Call*>(argument);
  todo.work(todo.argument);
  return 0;
}

}  // namespace

int run_in_hidden_child(void (*work)(void*), void* argument) {
  void* const stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return errno;
  Call todo{work, argument};
  // A handler of the host's must not run in the child, within the host's memory.
  const SignalBlock blocked;
  // No exit signal, that is what hides it; CLONE_VFORK: the stack is its own until it has ended.
  const pid_t child = __clone(call, static_cast<char*>(stack) + kStack, CLONE_VM | CLONE_VFORK, &todo);
  const int error = child < 0 ? errno : 0;
  if (child > 0) {
    while (::waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
    }
  }
  ::munmap(stack, kStack);
  return error;
}

}  // namespace errand
