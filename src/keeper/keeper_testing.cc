// SPDX-License-Identifier: Apache-2.0
#include "keeper/keeper_testing.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

namespace errand::keeper {
namespace {

const char* const kKeeper = ERRAND_BUILD_DIR "/errand-keeper";

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return pids;
  while (const dirent* entry = ::readdir(proc)) {
    if (std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) pids.push_back(std::atoi(entry->d_name));
  }
  ::closedir(proc);
  return pids;
}

bool readable(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
}

bool send_with_fds(int socket, const void* bytes, std::size_t size, const std::vector<int>& fds) {
  iovec part{const_cast<void*>(bytes), size};
  std::vector<char> control(fds.empty() ? 0 : CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

}  // namespace

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (condition()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::optional<ProcessLook> look_at(pid_t pid) {
  const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  ProcessLook look;
  look.name = stat.substr(open + 1, close - open - 1);
  std::istringstream rest(stat.substr(close + 1));
  rest >> look.state >> look.parent;
  return look;
}

pid_t parent_of(pid_t pid) {
  const auto look = look_at(pid);
  return look ? look->parent : 0;
}

bool is_alive(pid_t pid) {
  const auto look = look_at(pid);
  return look && look->state != 'Z' && look->state != 'X';
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const pid_t other : all_processes()) {
    if (parent_of(other) == pid) children.push_back(other);
  }
  return children;
}

Marker::Marker() {
  static std::atomic<int> count{0};
  std::random_device random;
  entry_ = "ERRAND_KEEPER_TEST=" + std::to_string(::getpid()) + "-" + std::to_string(++count) + "-" +
           std::to_string(random()) + "-end";
}

std::vector<pid_t> Marker::alive(const std::string& name) const {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    if (slurp("/proc/" + std::to_string(pid) + "/environ").find(entry_) == std::string::npos) continue;
    const auto look = look_at(pid);
    if (look && look->state != 'Z' && (name.empty() || look->name == name)) found.push_back(pid);
  }
  return found;
}

bool Marker::all_gone() const {
  return eventually([this] { return alive().empty(); });
}

void Marker::kill_all() const {
  eventually(
      [this] {
        const auto left = alive();
        for (const pid_t pid : left) ::kill(pid, SIGKILL);
        return left.empty();
      },
      std::chrono::seconds(5));
}

Command Command::shell(const std::string& line, const Marker& marker) {
  Command command;
  command.argv = {"bash", "-c", line};
  command.environment = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", marker.entry()};
  return command;
}

bool Task::send_start(StartRequest request, const std::string& strings, const std::vector<int>& fds) {
  UniqueFd memory(::memfd_create("start", MFD_CLOEXEC));
  if (!memory || ::write(memory.get(), strings.data(), strings.size()) != static_cast<ssize_t>(strings.size())) {
    return false;
  }
  std::vector<int> all{memory.get()};
  all.insert(all.end(), fds.begin(), fds.end());
  return send_with_fds(channel_.get(), &request, sizeof request, all);
}

bool Task::start(const Command& command) {
  std::string strings = command.cwd + '\0' + command.path + '\0';
  for (const auto& argument : command.argv) strings += argument + '\0';
  for (const auto& entry : command.environment) strings += entry + '\0';
  StartRequest request;
  request.strings_size = static_cast<std::uint32_t>(strings.size());
  request.argc = static_cast<std::uint32_t>(command.argv.size());
  request.envc = static_cast<std::uint32_t>(command.environment.size());
  request.grace_ms = command.grace_ms;
  request.nofile_soft = command.nofile_soft;
  request.has_stdin = command.duplex ? 1 : 0;

  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return false;
  output_.reset(pipe[0]);
  const UniqueFd write_end(pipe[1]);
  std::vector<int> fds{write_end.get()};
  UniqueFd childs_end;
  if (command.duplex) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return false;
    duplex_.reset(pair[0]);
    childs_end.reset(pair[1]);
    fds.push_back(childs_end.get());
  }
  return send_start(request, strings, fds);
}

bool Task::send_raw(const void* bytes, std::size_t size) { return send_with_fds(channel_.get(), bytes, size, {}); }

bool Task::stop(std::uint32_t grace_ms) {
  StopRequest request;
  request.grace_ms = grace_ms;
  return send_raw(&request, sizeof request);
}

std::optional<KeeperEvent> Task::next() {
  KeeperEvent event;
  const ssize_t size = receive(&event, sizeof event);
  if (size != static_cast<ssize_t>(sizeof event)) return std::nullopt;
  return event;
}

std::optional<KeeperEvent> Task::await(KeeperEventKind kind) {
  while (auto event = next()) {
    if (event->kind == kind) return event;
  }
  return std::nullopt;
}

bool Task::at_end() {
  char byte = 0;
  return receive(&byte, 1) == 0;
}

ssize_t Task::receive(void* bytes, std::size_t size) {
  ssize_t got = -1;
  do {
    if (!readable(channel_.get())) return -1;
    got = ::recv(channel_.get(), bytes, size, 0);
  } while (got < 0 && errno == ECONNRESET);
  return got;
}

std::string Task::read_output() {
  std::string text;
  char buffer[4096];
  while (readable(output_.get())) {
    const ssize_t size = ::read(output_.get(), buffer, sizeof buffer);
    if (size <= 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  return text;
}

std::string Task::read_line() {
  std::string line;
  char byte = 0;
  while (readable(output_.get()) && ::read(output_.get(), &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

void Task::hang_up() {
  ::shutdown(channel_.get(), SHUT_RDWR);
  channel_.reset();
}

bool ZygoteClient::start(bool scan_all, const std::string& groups) {
  int pair[2];
  if (!open_channel(pair)) return false;
  control_.reset(pair[0]);
  const UniqueFd zygotes_end(pair[1]);
  const UniqueFd host(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const UniqueFd program(::open(kKeeper, O_RDONLY | O_CLOEXEC));
  if (!host || !program) return false;

  const pid_t pid = ::fork();
  if (pid < 0) return false;
  if (pid == 0) {
    // High numbers first, so that no dup2 hits one that is still wanted.
    const int control = ::fcntl(zygotes_end.get(), F_DUPFD, 100);
    const int host_pidfd = ::fcntl(host.get(), F_DUPFD, 100);
    const int file = ::fcntl(program.get(), F_DUPFD_CLOEXEC, 100);
    ::dup2(control, kControlFd);
    ::dup2(host_pidfd, kHostPidFd);
    char name[] = "errand-keeper", word[] = "zygote", scan[] = "--scan-all";
    std::string divide = "--groups=" + groups;
    char* argv[] = {name, word, nullptr, nullptr, nullptr};
    int count = 2;
    if (scan_all) argv[count++] = scan;
    if (!groups.empty()) argv[count++] = divide.data();
    char* envp[] = {nullptr};
    // Whatever a host ignores or blocks must not reach a task. glibc hides two of the signals.
    for (const int signal : {SIGCHLD, SIGPIPE, SIGTERM, SIGHUP, SIGINT, 32, 33}) {
      const struct {
        void (*handler)(int);
        unsigned long rest[7];
      } ignore{SIG_IGN, {}};
      ::syscall(SYS_rt_sigaction, signal, &ignore, nullptr, 8UL);
    }
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::fexecve(file, argv, envp);
    ::_exit(127);
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && status == 0;
}

std::optional<Task> ZygoteClient::keeper() {
  int pair[2];
  if (!open_channel(pair)) return std::nullopt;
  UniqueFd ours(pair[0]);
  const UniqueFd keepers(pair[1]);
  if (!hand_over(keepers.get())) return std::nullopt;
  return Task(std::move(ours));
}

bool ZygoteClient::sweep() {
  ZygoteRequest request;
  request.command = ZygoteCommand::sweep;
  return send_with_fds(control_.get(), &request, sizeof request, {});
}

bool ZygoteClient::hand_over(int keepers_end) {
  const ZygoteRequest request;
  return send_with_fds(control_.get(), &request, sizeof request, {keepers_end});
}

std::optional<Task> ZygoteClient::launch(const Command& command) {
  auto task = keeper();
  if (!task || !task->start(command)) return std::nullopt;
  return task;
}

void ZygoteClient::hang_up() {
  ::shutdown(control_.get(), SHUT_RDWR);
  control_.reset();
}

void HostReport::from_shell(pid_t pid) {
  shell = pid;
  keeper = parent_of(shell);
  zygote = parent_of(keeper);
}

HostProcess::HostProcess(const std::function<bool(HostReport&)>& body, uid_t uid) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return;
  const UniqueFd read_end(pipe[0]);
  UniqueFd write_end(pipe[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    if (uid != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(1);
    HostReport report;
    if (!body(report) || ::write(write_end.get(), &report, sizeof report) != sizeof report) ::_exit(1);
    write_end.reset();
    for (;;) ::pause();
  }
  write_end.reset();
  unsigned char bytes[sizeof report_];
  ready_ = readable(read_end.get()) && ::read(read_end.get(), bytes, sizeof bytes) == sizeof bytes;
  if (ready_) std::memcpy(&report_, bytes, sizeof bytes);
}

HostProcess::~HostProcess() { kill(); }

void HostProcess::kill(int signal) {
  if (pid_ <= 0) return;
  ::kill(pid_, signal);
  if (signal == SIGKILL) {
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

}  // namespace errand::keeper
