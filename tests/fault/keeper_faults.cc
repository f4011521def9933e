// SPDX-License-Identifier: Apache-2.0
// The wrappers for what the zygote and the keepers call. Linked into a keeper of its own, errand-keeper-faulty, which
// is built of the same sources. It maps the file "plan" that lies beside its program; without one nothing ever fails.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "plan.h"

#define WRAPPED(result, name, parameters, arguments)                  \
  result __real_##name parameters;                                    \
  result __wrap_##name parameters;                                    \
  result __wrap_##name parameters {                                   \
    if (strikes(errand::fault::Call::name##_call)) return result(-1); \
    return __real_##name arguments;                                   \
  }

extern "C" {
int __real_open(const char* path, int flags, mode_t mode);
int __real_close(int fd);
void* __real_mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset);
}

namespace {

errand::fault::Plan* map_plan() {
  char path[4096];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path - 8);
  if (size <= 0) return nullptr;
  path[size] = '\0';
  char* const slash = std::strrchr(path, '/');
  if (slash == nullptr) return nullptr;
  std::strcpy(slash, "/plan");
  const int file = __real_open(path, O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return nullptr;
  void* const pages = __real_mmap(nullptr, sizeof(errand::fault::Plan), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  __real_close(file);
  return pages == MAP_FAILED ? nullptr : static_cast<errand::fault::Plan*>(pages);
}

bool strikes(errand::fault::Call call) {
  static errand::fault::Plan* const plan = map_plan();
  const int before = errno;
  if (plan != nullptr && plan->strikes(call)) return true;
  errno = before;
  return false;
}

}  // namespace

using errand::fault::Call;

extern "C" {

WRAPPED(int, chdir, (const char* path), (path))
WRAPPED(int, dup2, (int from, int to), (from, to))
WRAPPED(int, execve, (const char* path, char* const* argv, char* const* envp), (path, argv, envp))
WRAPPED(int, fcntl, (int fd, int command, long argument), (fd, command, argument))
WRAPPED(pid_t, fork, (), ())
WRAPPED(int, fstat, (int fd, struct stat* out), (fd, out))
WRAPPED(int, ftruncate, (int fd, off_t size), (fd, size))
WRAPPED(ssize_t, getdents64, (int fd, void* to, size_t size), (fd, to, size))
WRAPPED(int, getrlimit, (__rlimit_resource_t resource, rlimit* out), (resource, out))
WRAPPED(int, getsockopt, (int fd, int level, int name, void* value, socklen_t* size), (fd, level, name, value, size))
WRAPPED(int, kill, (pid_t pid, int signal), (pid, signal))
WRAPPED(int, memfd_create, (const char* name, unsigned flags), (name, flags))
WRAPPED(int, open, (const char* path, int flags, mode_t mode), (path, flags, mode))
WRAPPED(int, poll, (pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAPPED(int, prctl, (int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d),
        (option, a, b, c, d))
WRAPPED(ssize_t, read, (int fd, void* to, size_t size), (fd, to, size))
WRAPPED(ssize_t, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags))
WRAPPED(ssize_t, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags))
WRAPPED(int, setrlimit, (__rlimit_resource_t resource, const rlimit* limit), (resource, limit))
WRAPPED(pid_t, setsid, (), ())
WRAPPED(int, setsockopt, (int fd, int level, int name, const void* value, socklen_t size),
        (fd, level, name, value, size))
WRAPPED(int, signalfd, (int fd, const sigset_t* mask, int flags), (fd, mask, flags))
WRAPPED(ssize_t, write, (int fd, const void* data, size_t size), (fd, data, size))
WRAPPED(pid_t, waitpid, (pid_t pid, int* status, int options), (pid, status, options))

int __wrap_close(int fd);
int __wrap_close(int fd) {
  const int result = __real_close(fd);
  return strikes(Call::close_call) ? -1 : result;
}

void* __wrap_mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset);
void* __wrap_mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return strikes(Call::mmap_call) ? MAP_FAILED : __real_mmap(at, size, protection, flags, fd, offset);
}

void* __real_mremap(void* at, size_t size, size_t wanted, int flags, void* to);
void* __wrap_mremap(void* at, size_t size, size_t wanted, int flags, void* to);
void* __wrap_mremap(void* at, size_t size, size_t wanted, int flags, void* to) {
  return strikes(Call::mremap_call) ? MAP_FAILED : __real_mremap(at, size, wanted, flags, to);
}

int __real_clone(int (*run)(void*), void* stack, int flags, void* argument);
int __wrap_clone(int (*run)(void*), void* stack, int flags, void* argument);
int __wrap_clone(int (*run)(void*), void* stack, int flags, void* argument) {
  return strikes(Call::clone_call) ? -1 : __real_clone(run, stack, flags, argument);
}

// Variable arguments are passed as fixed ones are, up to six of them.
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_pidfd_open && strikes(Call::pidfd_open_call)) return -1;
  if (number == SYS_pidfd_send_signal && strikes(Call::pidfd_send_signal_call)) return -1;
  return __real_syscall(number, a, b, c, d, e, f);
}

}  // extern "C"
