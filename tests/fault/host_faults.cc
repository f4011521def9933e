// SPDX-License-Identifier: Apache-2.0
// The wrappers for what the engine calls. A call that strikes is not made (close excepted: Linux frees the number
// whatever it answers).
#include "host_faults.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <memory>
#include <system_error>
#include <thread>

namespace errand::fault {
namespace {

Plan the_plan{};

bool strikes(Call call) { return the_plan.strikes(call); }

}  // namespace

Plan& host_plan() { return the_plan; }

}  // namespace errand::fault

using errand::fault::Call;
using errand::fault::strikes;

// What the linker makes of a call to name: __wrap_name, from which the real one is __real_name.
#define WRAPPED(result, name, parameters, arguments)                \
  result __real_##name parameters;                                  \
  result __wrap_##name parameters;                                  \
  result __wrap_##name parameters {                                 \
    if (strikes(Call::name##_call)) return static_cast<result>(-1); \
    return __real_##name arguments;                                 \
  }

extern "C" {

WRAPPED(int, chmod, (const char* path, mode_t mode), (path, mode))
WRAPPED(int, epoll_create1, (int flags), (flags))
WRAPPED(int, epoll_ctl, (int epoll, int op, int fd, epoll_event* event), (epoll, op, fd, event))
WRAPPED(int, epoll_wait, (int epoll, epoll_event* events, int most, int timeout), (epoll, events, most, timeout))
WRAPPED(int, eventfd, (unsigned count, int flags), (count, flags))
WRAPPED(int, fstat, (int fd, struct stat* out), (fd, out))
WRAPPED(int, kill, (pid_t pid, int signal), (pid, signal))
WRAPPED(int, lstat, (const char* path, struct stat* out), (path, out))
WRAPPED(int, memfd_create, (const char* name, unsigned flags), (name, flags))
WRAPPED(int, mkdir, (const char* path, mode_t mode), (path, mode))
WRAPPED(int, pipe2, (int* ends, int flags), (ends, flags))
WRAPPED(int, poll, (pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAPPED(ssize_t, pread, (int fd, void* to, size_t size, off_t at), (fd, to, size, at))
WRAPPED(ssize_t, pwrite, (int fd, const void* from, size_t size, off_t at), (fd, from, size, at))
WRAPPED(ssize_t, read, (int fd, void* to, size_t size), (fd, to, size))
WRAPPED(ssize_t, readlink, (const char* path, char* to, size_t size), (path, to, size))
WRAPPED(ssize_t, recv, (int fd, void* to, size_t size, int flags), (fd, to, size, flags))
WRAPPED(ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags))
WRAPPED(int, rename, (const char* from, const char* to), (from, to))
WRAPPED(ssize_t, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags))
WRAPPED(ssize_t, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags))
WRAPPED(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size),
        (fd, level, name, value, size))
WRAPPED(int, socketpair, (int domain, int type, int protocol, int* ends), (domain, type, protocol, ends))
WRAPPED(int, stat, (const char* path, struct stat* out), (path, out))
WRAPPED(int, statvfs, (const char* path, struct statvfs* out), (path, out))
WRAPPED(int, unlink, (const char* path), (path))
WRAPPED(pid_t, waitpid, (pid_t pid, int* status, int options), (pid, status, options))
WRAPPED(int, waitid, (idtype_t type, id_t id, siginfo_t* info, int options), (type, id, info, options))

// A counter's wake-up is apart: it cannot fail as a file can.
ssize_t __real_write(int fd, const void* data, size_t size);
ssize_t __wrap_write(int fd, const void* data, size_t size);
ssize_t __wrap_write(int fd, const void* data, size_t size) {
  if (strikes(size == sizeof(std::uint64_t) ? Call::wake_call : Call::write_call)) return -1;
  return __real_write(fd, data, size);
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
  const int result = __real_close(fd);
  return strikes(Call::close_call) ? -1 : result;
}

DIR* __real_opendir(const char* path);
DIR* __wrap_opendir(const char* path);
DIR* __wrap_opendir(const char* path) { return strikes(Call::opendir_call) ? nullptr : __real_opendir(path); }

char* __real_getcwd(char* to, size_t size);
char* __wrap_getcwd(char* to, size_t size);
char* __wrap_getcwd(char* to, size_t size) { return strikes(Call::getcwd_call) ? nullptr : __real_getcwd(to, size); }

int __real_open(const char* path, int flags, mode_t mode);
int __wrap_open(const char* path, int flags, mode_t mode);
int __wrap_open(const char* path, int flags, mode_t mode) {
  return strikes(Call::open_call) ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int folder, const char* path, int flags, mode_t mode);
int __wrap_openat(int folder, const char* path, int flags, mode_t mode);
int __wrap_openat(int folder, const char* path, int flags, mode_t mode) {
  return strikes(Call::openat_call) ? -1 : __real_openat(folder, path, flags, mode);
}

int __real_fcntl(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, long argument) {
  return strikes(Call::fcntl_call) ? -1 : __real_fcntl(fd, command, argument);
}

int __real_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const* argv, char* const* envp);
int __wrap_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const* argv, char* const* envp);
int __wrap_posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attributes, char* const* argv, char* const* envp) {
  if (strikes(Call::posix_spawn_call)) return errno;
  return __real_posix_spawn(pid, path, actions, attributes, argv, envp);
}

int __real___clone(int (*run)(void*), void* stack, int flags, void* argument);
int __wrap___clone(int (*run)(void*), void* stack, int flags, void* argument);
int __wrap___clone(int (*run)(void*), void* stack, int flags, void* argument) {
  return strikes(Call::clone_call) ? -1 : __real___clone(run, stack, flags, argument);
}

void* __real_mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset);
void* __wrap_mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset);
void* __wrap_mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return strikes(Call::mmap_call) ? MAP_FAILED : __real_mmap(at, size, protection, flags, fd, offset);
}

// Variable arguments are passed as fixed ones are, up to six of them.
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_pidfd_open && strikes(Call::pidfd_open_call)) return -1;
  if (number == SYS_pidfd_send_signal && strikes(Call::pidfd_send_signal_call)) return -1;
  return __real_syscall(number, a, b, c, d, e, f);
}

// std::thread's own start, which throws when the system gives no thread.
void __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<std::thread::_State> state, void (*depend)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<std::thread::_State> state, void (*depend)());
void __wrap__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(
    std::thread* self, std::unique_ptr<std::thread::_State> state, void (*depend)()) {
  if (strikes(Call::thread_call)) throw std::system_error(errno, std::generic_category(), "thread");
  __real__ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE(self, std::move(state),
                                                                                               depend);
}

}  // extern "C"
