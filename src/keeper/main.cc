// SPDX-License-Identifier: Apache-2.0
// errand-keeper zygote [--scan-all] [--groups=FOLDER]
//
// Started by the engine with two descriptors (protocol.h). Goes into the background twice, so that the zygote is
// nobody's child but init's, leaves everything of the host behind, and becomes the zygote. --scan-all does without
// /proc/PID/task/*/children, as on a kernel that has none. --groups divides that control group, not the host's own one.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "zygote.h"

namespace errand::keeper {
namespace {

constexpr int kCannot = 1;
constexpr int kWrongUse = 2;

void default_signals() {
  // Not sigaction(2): glibc keeps two signals from its callers and lets them ignored in what it spawns. All zero is the
  // default disposition on every architecture, whatever the order of the kernel's struct.
  const unsigned long all_default[8] = {};
  for (int signal = 1; signal < NSIG; ++signal) ::syscall(SYS_rt_sigaction, signal, all_default, nullptr, 8UL);
  // From here on signals are read, not delivered.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

bool standard_descriptors_on_null() {
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const bool done = in >= 0 && out >= 0 && ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(out, 2) >= 0;
  if (in > 2) ::close(in);
  if (out > 2) ::close(out);
  return done;
}

void close_from(unsigned first) {
  if (::syscall(SYS_close_range, first, ~0U, 0U) == 0) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (unsigned fd = first; fd < limit.rlim_cur && fd < 1048576U; ++fd) ::close(static_cast<int>(fd));
}

int become_zygote(int argc, char** argv) {
  bool scan_all = !Tree::has_children_files();
  const char* groups = nullptr;
  constexpr std::size_t kGroupsWord = 9;
  for (int i = 2; i < argc; ++i) {
    if (std::strncmp(argv[i], "--groups=", kGroupsWord) == 0) {
      groups = argv[i] + kGroupsWord;
    } else if (std::strcmp(argv[i], "--scan-all") == 0) {
      scan_all = true;
    } else {
      return kWrongUse;
    }
  }
  Shared* shared = Shared::make();
  if (shared == nullptr) return kCannot;
  Census census;
  if (scan_all) census.share();

  const pid_t pid = ::fork();
  if (pid != 0) {
    ZygoteHello hello;
    hello.pid = pid;
    if (pid > 0) ::send(kControlFd, &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
    return pid > 0 ? 0 : kCannot;
  }
  ::setsid();
  if (::chdir("/") != 0) return kCannot;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "errand-zygote");
  return Zygote(UniqueFd(kControlFd), UniqueFd(kHostPidFd), shared, scan_all ? &census : nullptr, argv[1], groups)
      .run();
}

int run(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "zygote") != 0) return kWrongUse;
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(kControlFd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) return kWrongUse;
  if (maker_of(kControlFd) <= 0) return kWrongUse;
  if (::fcntl(kHostPidFd, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(kControlFd, F_SETFD, FD_CLOEXEC) != 0) return kWrongUse;
  default_signals();
  close_from(kHostPidFd + 1);
  if (!standard_descriptors_on_null()) return kCannot;
  return become_zygote(argc, argv);
}

}  // namespace
}  // namespace errand::keeper

int main(int argc, char** argv) { ::_exit(errand::keeper::run(argc, argv)); }
