// SPDX-License-Identifier: Apache-2.0
// Which system call is to fail, and how often each was made: what the fault walk shares with the code that it breaks.
//
// The linker sends every call of the engine and of the keeper to a wrapper (--wrap), so neither knows of this. The walk
// counts the calls of a scenario first and then makes each of them fail, one a run. The host's plan is plain memory;
// the keepers map theirs from the file "plan" beside their program, so zygote and keepers count together.
#pragma once

#include <cerrno>

#include <atomic>
#include <cstdint>

namespace errand::fault {

// clang-format off: its layout of this is never stable.
#define ERRAND_FAULT_CALLS(X) \
  X(chdir) X(chmod) X(clone) X(close) X(dup2) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(eventfd) \
  X(execve) X(fcntl) X(fork) X(fstat) X(ftruncate) X(getcwd) X(getdents64) X(getrlimit) X(getsockopt) \
  X(kill) X(lstat) X(memfd_create) X(mkdir) X(mmap) X(mremap) X(open) X(opendir) X(openat) \
  X(pidfd_open) X(pidfd_send_signal) X(pipe2) X(poll) X(posix_spawn) X(prctl) X(pread) X(pwrite) \
  X(read) X(readlink) X(recv) X(recvmsg) X(rename) X(send) X(sendmsg) X(setrlimit) X(setsid) \
  X(setsockopt) X(signalfd) X(socketpair) X(stat) X(statvfs) X(thread) X(unlink) X(waitid) X(waitpid) \
  X(wake) X(write)
// clang-format on

enum class Call : std::uint32_t {
#define ERRAND_FAULT_ENUMERATOR(name) name##_call,
  ERRAND_FAULT_CALLS(ERRAND_FAULT_ENUMERATOR)
#undef ERRAND_FAULT_ENUMERATOR
      none
};
constexpr std::uint32_t kCalls = static_cast<std::uint32_t>(Call::none);

struct Plan {
  std::atomic<std::uint32_t> armed;   // calls are counted, and what is planned happens
  std::atomic<std::uint32_t> call;    // a Call
  std::atomic<std::uint32_t> from;    // the first of its calls that fails, from 0
  std::atomic<std::uint32_t> times;   // so many fail
  std::atomic<std::int32_t> error;    // with this
  std::atomic<std::uint32_t> failed;  // so many did
  std::atomic<std::uint32_t> counts[kCalls];

  // Counts a call; true when it is to fail, with errno set.
  bool strikes(Call which) {
    if (armed.load() == 0) return false;
    const std::uint32_t number = counts[static_cast<std::uint32_t>(which)].fetch_add(1);
    if (call.load() != static_cast<std::uint32_t>(which)) return false;
    const std::uint32_t first = from.load();
    if (number < first || number - first >= times.load()) return false;
    failed.fetch_add(1);
    errno = error.load();
    return true;
  }
};

}  // namespace errand::fault
