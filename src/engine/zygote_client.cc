// SPDX-License-Identifier: Apache-2.0
#include "engine/zygote_client.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "engine/hidden_child.h"
#include "keeper/protocol.h"

namespace errand {
namespace {

int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
int signal_pidfd(int fd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0));
}

// The descriptors of the child must not collide with their own targets (3, 4, 5).
UniqueFd above_targets(UniqueFd fd) {
  if (fd && fd.get() > 5) return fd;
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 6));
}

class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

struct Spawn {
  SpawnSetup setup;
  int result = 0;  // the program's exit status, or -errno
};

// In the hidden child. The program exits at once: what it forked runs on.
void spawn_and_wait(void* argument) {
  auto& spawn = *static_cast<Spawn*>(argument);
  char name[] = "errand-keeper", role[] = "zygote";
  char* const arguments[] = {name, role, nullptr};
  char* const environment[] = {nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, "/proc/self/fd/5", &spawn.setup.actions, &spawn.setup.attributes, arguments, environment);
  if (error != 0) {
    spawn.result = -error;
    return;
  }
  siginfo_t info{};
  int result = 0;
  do {
    result = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED);
  } while (result != 0 && errno == EINTR);
  // Nobody to wait for where the host ignores its children: whether the zygote lives will be seen at its socket.
  if (result != 0) return;
  spawn.result = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

// Starts `program` with control, host pidfd and itself as descriptors 3, 4 and 5 and nothing else; its exit status, or
// -errno. Hidden, since the host may be waiting for any child, in whatever thread.
int start_program(int program, int control, int host) {
  Spawn spawn;
  auto& actions = spawn.setup.actions;
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_adddup2(&actions, 0, 1);
  ::posix_spawn_file_actions_adddup2(&actions, 0, 2);
  ::posix_spawn_file_actions_adddup2(&actions, control, keeper::kControlFd);
  ::posix_spawn_file_actions_adddup2(&actions, host, keeper::kHostPidFd);
  ::posix_spawn_file_actions_adddup2(&actions, program, 5);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 6);
  // Not sigfillset(): it leaves out the two signals that glibc uses itself, and posix_spawn would then leave these
  // ignored in the zygote and in every task.
  sigset_t signals;
  std::memset(&signals, 0xFF, sizeof signals);
  ::posix_spawnattr_setsigdefault(&spawn.setup.attributes, &signals);
  ::sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&spawn.setup.attributes, &signals);
  ::posix_spawnattr_setflags(&spawn.setup.attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  const int error = run_in_hidden_child(spawn_and_wait, &spawn);
  return error != 0 ? -error : spawn.result;
}

// Takes the hello that waits on the control socket. A pid that names somebody else by now is told by the end of file:
// as long as that is not there, the zygote lives.
void meet(Zygote& zygote) {
  keeper::ZygoteHello hello;
  pollfd word{zygote.control.get(), POLLIN, 0};
  if (::poll(&word, 1, 2000) != 1) return;
  const ssize_t got = ::recv(zygote.control.get(), &hello, sizeof hello, MSG_DONTWAIT);
  if (got != static_cast<ssize_t>(sizeof hello) || hello.pid <= 0) return;
  UniqueFd process(open_pidfd(hello.pid));
  if (!process || !zygote.alive()) return;
  zygote.pid = hello.pid;
  zygote.process = std::move(process);
}

}  // namespace

void Channel::close() {
  if (fd_) ::shutdown(fd_.get(), SHUT_RDWR);
  fd_.reset();
}

bool Zygote::alive() const {
  pollfd poll_for{control.get(), POLLIN, 0};
  // The zygote never speaks, so anything readable is the end of file.
  return control && ::poll(&poll_for, 1, 0) == 0;
}

void Zygote::rouse() {
  if (!process) return;
  if (!is_stopped(pid)) {
    seen_stopped = 0;
    return;
  }
  signal_pidfd(process.get(), seen_stopped.fetch_add(1) == 0 ? SIGCONT : SIGKILL);
}

bool is_stopped(pid_t pid) {
  const UniqueFd fd(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char text[256];
  const ssize_t got = fd ? ::read(fd.get(), text, sizeof text) : -1;
  // "4711 (name) T ...": the name is at most 15 characters, and may hold parentheses.
  const std::string_view stat(text, got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t close = stat.rfind(')');
  if (close == std::string_view::npos || close + 2 >= stat.size()) return false;
  return stat[close + 2] == 'T' || stat[close + 2] == 't';
}

int send_packet(int fd, const void* data, std::size_t size, const int* fds, std::size_t fd_count,
                std::int64_t patience_ms) {
  iovec vector{const_cast<void*>(data), size};
  alignas(cmsghdr) char space[CMSG_SPACE(3 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
  }
  const std::int64_t deadline = monotonic_ms() + patience_ms;
  for (;;) {
    if (::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    const int error = errno;
    if (error == EINTR) continue;
    // ETOOMANYREFS: more descriptors are in flight than one process may have open; they land soon.
    if ((error != EAGAIN && error != ETOOMANYREFS) || monotonic_ms() >= deadline) return error;
    pollfd room{fd, POLLOUT, 0};
    ::poll(&room, error == EAGAIN ? 1 : 0, error == EAGAIN ? 50 : 1);
  }
}

ZygoteClient::ZygoteClient(std::string keeper_path, Started started)
    : keeper_path_(std::move(keeper_path)), started_(std::move(started)) {}

std::variant<std::shared_ptr<Zygote>, StartError> ZygoteClient::start() {
  if (!program_) {
    program_.reset(::open(keeper_path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (program_) program_ = above_targets(std::move(program_));
    if (!program_) return StartError{"open", keeper_path_, errno};
  }
  int ends[2];
  if (!keeper::open_channel(ends)) return StartError{"socketpair", "", errno};
  auto zygote = std::make_shared<Zygote>();
  zygote->control = Channel(ends[0]);
  UniqueFd theirs = above_targets(UniqueFd(ends[1]));
  if (!theirs) return StartError{"dup", "", errno};
  UniqueFd host(open_pidfd(::getpid()));
  if (host) host = above_targets(std::move(host));
  if (!host) return StartError{"pidfd_open", "", errno};
  const int status = start_program(program_.get(), theirs.get(), host.get());
  if (status < 0) return StartError{"exec", keeper_path_, -status};
  theirs.reset();
  if (status != 0) return StartError{"exec", keeper_path_, EAGAIN};
  meet(*zygote);
  zygote->generation = ++generation_;
  started_at_ms_ = monotonic_ms();
  const int watched = started_(zygote->generation, zygote->control.get());
  if (watched < 0) return StartError{"epoll_ctl", "", -watched};
  zygote_ = zygote;
  return zygote;
}

std::variant<std::shared_ptr<Zygote>, StartError> ZygoteClient::running_zygote() {
  if (closed_) return StartError{"fork", "", ESHUTDOWN};
  if (zygote_ && zygote_->alive()) return zygote_;
  spare_ = {};  // a dead zygote's spare would have nobody to sweep up after it
  zygote_ = nullptr;
  return start();
}

std::variant<KeeperChannel, StartError> ZygoteClient::fork_keeper() {
  StartError failure{"fork", "", EPIPE};
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto zygote = running_zygote();
    if (auto* error = std::get_if<StartError>(&zygote)) return *error;
    const auto& parent = std::get<std::shared_ptr<Zygote>>(zygote);
    int ends[2];
    if (!keeper::open_channel(ends)) return StartError{"socketpair", "", errno};
    KeeperChannel made{Channel(ends[0]), parent};
    const UniqueFd theirs(ends[1]);
    const keeper::ZygoteRequest request;
    const int fds[] = {theirs.get()};
    failure.error = send_packet(parent->control.get(), &request, sizeof request, fds, 1, 500);
    if (failure.error == 0) return made;
    if (failure.error == EAGAIN) {
      parent->rouse();  // it reads nothing
    } else if (failure.error != EPIPE && failure.error != ECONNRESET) {
      break;
    }
  }
  return failure;
}

// Neither a spare nor the zygote speaks unasked: it could not be forked, or one of the two has gone. What was lacking
// when the spare was made must not fail a start of now.
bool ZygoteClient::spare_waits() const {
  pollfd silent[] = {{spare_.channel.get(), POLLIN, 0}, {spare_.zygote->control.get(), POLLIN, 0}};
  return ::poll(silent, 2, 0) == 0;
}

std::variant<KeeperChannel, StartError> ZygoteClient::take() {
  const MutexLock lock(mutex_);
  if (spare_.channel) {
    if (spare_waits()) return std::exchange(spare_, {});
    spare_ = {};
  }
  return fork_keeper();
}

std::variant<KeeperChannel, StartError> ZygoteClient::fork_one() {
  const MutexLock lock(mutex_);
  return fork_keeper();
}

bool ZygoteClient::has_spare() {
  const MutexLock lock(mutex_);
  return static_cast<bool>(spare_.channel);
}

bool ZygoteClient::refill() {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  if (!spare_.channel) {
    auto made = fork_keeper();
    if (auto* keeper = std::get_if<KeeperChannel>(&made)) spare_ = std::move(*keeper);
  }
  return static_cast<bool>(spare_.channel);
}

void ZygoteClient::lost(std::uint64_t generation) {
  const MutexLock lock(mutex_);
  if (closed_ || !zygote_ || zygote_->generation != generation) return;
  spare_ = {};
  zygote_ = nullptr;
  // Something ends them on purpose, or they cannot live here: the next launch tries again, nobody spins.
  short_lives_ = monotonic_ms() - started_at_ms_ < 1000 ? short_lives_ + 1 : 0;
  if (short_lives_ <= 3) start();
}

void ZygoteClient::sweep() {
  const MutexLock lock(mutex_);
  if (!zygote_) return;  // the next one sweeps when it starts
  keeper::ZygoteRequest request;
  request.command = keeper::ZygoteCommand::sweep;
  send_packet(zygote_->control.get(), &request, sizeof request, nullptr, 0, 0);
}

void ZygoteClient::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  spare_ = {};
  if (zygote_) {
    zygote_->control.close();
    // Else one that somebody stopped would not see it.
    if (zygote_->process) signal_pidfd(zygote_->process.get(), SIGCONT);
  }
  zygote_ = nullptr;
}

}  // namespace errand
