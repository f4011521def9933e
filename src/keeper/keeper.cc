// SPDX-License-Identifier: Apache-2.0
#include "keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>

#include "group.h"
#include "spawn.h"

namespace errand::keeper {
namespace {

constexpr std::int64_t kGiveUpMs = 3000;
constexpr std::int64_t kRoundMs = 10;
constexpr std::int64_t kLeftRoundMs = 1000;
constexpr std::int64_t kLookMs = 100;
constexpr int kRoundsBeforeGroup = 3;
constexpr std::int64_t kFightMs = 30000;
constexpr std::int64_t kSendAgainMs = 10;  // after a report that could not be sent
constexpr int kSendTries = 100;            // of the last ones

// The strings of a StartRequest, mapped, with the two arrays that point into them.
class Strings {
 public:
  Strings() = default;
  ~Strings() {
    if (text_ != nullptr) ::munmap(text_, size_);
  }
  Strings(const Strings&) = delete;
  Strings& operator=(const Strings&) = delete;

  // False: errno tells.
  bool read(int file, const StartRequest& request) {
    struct stat info{};
    if (::fstat(file, &info) != 0) return false;
    errno = EINVAL;
    if (request.strings_size == 0 || info.st_size < static_cast<off_t>(request.strings_size)) return false;
    if (request.argc == 0 || request.argc > request.strings_size || request.envc > request.strings_size) return false;
    size_ = request.strings_size;
    void* pages = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (pages == MAP_FAILED) return false;
    text_ = static_cast<char*>(pages);
    errno = EINVAL;
    if (text_[size_ - 1] != '\0') return false;
    const char* end = text_ + size_;
    char* at = text_;
    const std::size_t wanted = 2 + static_cast<std::size_t>(request.argc) + request.envc;
    for (std::size_t i = 0; i < wanted; ++i) {
      if (at == end) return false;
      if (i == 0) cwd = at;
      if (i == 1) path = at;
      const bool first_of_environment = i == 2 + static_cast<std::size_t>(request.argc);
      if (first_of_environment && !pointers_.append(nullptr)) return false;
      if (i >= 2 && !pointers_.append(at)) return false;
      while (*at != '\0') ++at;
      ++at;
    }
    if (at != end) return false;
    if (request.envc == 0 && !pointers_.append(nullptr)) return false;
    if (!pointers_.append(nullptr)) return false;
    argv = pointers_.begin();
    envp = pointers_.begin() + request.argc + 1;
    return true;
  }

  const char* cwd = nullptr;
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  Array<char*> pointers_;
};

}  // namespace

Keeper::Keeper(UniqueFd channel, const KeeperWorld& world)
    : world_(world), channel_(static_cast<UniqueFd&&>(channel)), tree_(world.census) {}

int Keeper::run() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaddset(&wanted, signal);
  signals_.reset(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) {
    refuse_start(StartStep::fork, errno);
    return 1;
  }
  ask_for_sender(channel_.get());

  // Whoever had us forked for a start of now has sent it already.
  pollfd order{channel_.get(), POLLIN, 0};
  if (::poll(&order, 1, 0) == 0) rehearse_start();
  rehearsed_cpu_us_ = reaped_cpu_us();

  while (!done_) {
    pollfd waits[] = {
        {signals_.get(), POLLIN, 0}, {channel_.get(), POLLIN, 0}, {host_gone_ ? -1 : world_.host_pidfd, POLLIN, 0}};
    if (::poll(waits, 3, wait_ms()) < 0 && errno != EINTR) sleep_us(10000);
    // The host first: a keeper that starts a task after the host's death would only have to end it.
    if (waits[2].revents != 0) on_host_gone();
    if (waits[0].revents != 0) on_signals();
    if (!done_ && waits[1].revents != 0) on_channel();
    if (!done_ && started_ && childless_) {
      answer_stops(0);
      report(KeeperEventKind::empty);
      leave(0);
    }
    if (!done_) step();
    if (!unsent_.empty()) flush();
  }
  for (int i = 0; i < kSendTries && !flush(); ++i) sleep_us(kSendAgainMs * 1000);
  return exit_status_;
}

void Keeper::on_signals() {
  signalfd_siginfo info{};
  bool told_to_end = false;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) told_to_end = true;
  }
  reap();
  if (told_to_end) {
    if (!started_) return leave(0);
    if (!childless_) begin_ending(grace_ms_, now_ms(), false);
  }
}

void Keeper::reap() {
  if (!started_) return;
  bool shell_ended = false;
  int shell_status = 0;
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) {
      childless_ = pid < 0;
      break;
    }
    if (pid == shell_) {
      shell_ended = true;
      shell_status = status;
    }
  }
  if (!shell_ended) return;
  const pid_t pid = shell_;
  shell_ = -1;
  std::uint32_t live = 0;
  if (!childless_) {
    live = tree_.look().live;
    if (ending_ == Ending::none) tree_.rest();
  }
  report(KeeperEventKind::exited, pid, shell_status, live);
}

void Keeper::on_channel() {
  while (!done_ && channel_) {
    Packet packet;
    switch (receive(channel_.get(), packet)) {
      case Receive::nothing:
        return;
      case Receive::packet:
        on_packet(packet);
        break;
      case Receive::closed:
        return on_hang_up();
    }
  }
}

void Keeper::on_packet(Packet& packet) {
  // No stamp on the first packet: an engine that forgot open_channel() shall learn it, whoever else sent it loses a
  // spare keeper at most.
  if (packet.sender == 0 && !started_) return refuse_start(StartStep::read_request, EACCES);
  if (packet.sender != world_.host) return;

  StopRequest stop;
  StartRequest begin;
  if (packet.read(stop) && stop.version == kProtocolVersion && stop.command == KeeperCommand::stop) {
    if (!started_) {
      report(KeeperEventKind::stopped);
      return leave(0);
    }
    begin_ending(stop.grace_ms, now_ms(), true);
  } else if (!started_ && packet.read(begin) && begin.version == kProtocolVersion &&
             begin.command == KeeperCommand::start) {
    start(packet);
  } else {
    on_hang_up();  // nothing that we know
  }
}

void Keeper::on_hang_up() {
  channel_.reset();
  abandoned_ = true;
  if (!started_) return leave(0);
  if (ending_ != Ending::none || childless_) return;
  begin_ending(grace_ms_, now_ms(), false);
}

void Keeper::start(Packet& packet) {
  StartRequest request;
  packet.read(request);
  if (packet.fd_count != (request.has_stdin != 0 ? 3 : 2)) return refuse_start(StartStep::read_request, EBADF);
  Strings strings;
  if (!strings.read(packet.fds[0].get(), request)) return refuse_start(StartStep::read_request, errno);

  grace_ms_ = request.grace_ms;
  world_.shared->set_grace(world_.slot, grace_ms_);
  Shell shell;
  shell.cwd = strings.cwd;
  shell.path = strings.path;
  shell.argv = strings.argv;
  shell.envp = strings.envp;
  shell.output = packet.fds[1].get();
  shell.duplex = request.has_stdin != 0 ? packet.fds[2].get() : -1;
  shell.nofile_soft = request.nofile_soft;
  const Started started = start_shell(shell);
  // From here on the pipe's end of file depends on the task alone.
  for (UniqueFd& fd : packet.fds) fd.reset();
  if (started.pid < 0) return refuse_start(started.step, started.error);
  shell_ = started.pid;
  started_ = true;
  report(KeeperEventKind::started, shell_);
}

void Keeper::refuse_start(StartStep step, int error) {
  KeeperEvent event;
  event.kind = KeeperEventKind::could_not_start;
  event.step = step;
  event.error = error;
  report(event);
  leave(0);
}

void Keeper::on_host_gone() {
  host_gone_ = true;
  abandoned_ = true;
  const std::int64_t since = world_.shared->host_gone();
  wake_zygote();
  if (!started_) return leave(0);
  if (ending_ == Ending::left) return;  // the next round is the last one
  begin_ending(grace_ms_, since, false);
}

void Keeper::begin_ending(std::uint32_t grace_ms, std::int64_t since, bool answer) {
  const Count now = tree_.look();
  if (answer) stops_.append(now.live);
  if (!now.readable && shell_ > 0) ::kill(-shell_, grace_ms > 0 ? SIGTERM : SIGKILL);
  const std::int64_t grace_end = since + grace_ms;
  switch (ending_) {
    case Ending::killing:
      return;
    case Ending::grace:
      grace_end_ = std::min(grace_end_, grace_end);
      return;
    case Ending::none:
    case Ending::left:
      break;
  }
  live_at_begin_ = now.live;
  grace_end_ = grace_end;
  grew_ = false;
  rounds_ = 0;
  group_ended_ = group_killed_ = false;
  ending_ = Ending::grace;
  look_every_ = kLookMs;
  next_look_ = now_ms() + look_every_;
  if (grace_ms > 0) tree_.signal_all(SIGTERM, SIGCONT);
}

void Keeper::step() {
  const std::int64_t now = now_ms();
  switch (ending_) {
    case Ending::none:
      return;
    case Ending::grace:
      if (now < grace_end_) {
        if (now < next_look_) return;
        // A handler of SIGTERM may run a command to clean up, so growing once is no offence, unless it is a burst.
        const std::uint32_t live = tree_.look().live;
        const bool grew = live > live_at_begin_;
        const bool burst = live > 2 * live_at_begin_ + 16;
        look_every_ = std::max(kLookMs, (now_ms() - now) * 10);
        next_look_ = now + look_every_;
        if (!burst && !(grew && grew_)) {
          grew_ = grew;
          return;
        }
      }
      ending_ = Ending::killing;
      give_up_at_ = now + kGiveUpMs;
      return kill_round(now);
    case Ending::killing:
    case Ending::left:
      if (now >= next_look_) kill_round(now);
      return;
  }
}

void Keeper::kill_round(std::int64_t now) {
  const Count count = tree_.end_round();
  if (!count.readable && shell_ > 0) ::kill(-shell_, SIGKILL);
  next_look_ = now_ms() + (ending_ == Ending::left ? kLeftRoundMs : kRoundMs);
  const bool only_refused = count.live > 0 && count.refused == count.live;
  // Most trees are gone by now, and leaving the group takes a while.
  if ((only_refused || ++rounds_ >= kRoundsBeforeGroup) && end_group()) return;
  if (ending_ == Ending::killing && (!only_refused || group_killed_) && now < give_up_at_) return;

  answer_stops(count.readable ? count.live : std::max(count.live, 1U));
  // While new ones appear the fight goes on, but nobody waits for it any longer.
  if (count.fresh == 0) ending_ = Ending::left;
  if (!abandoned_) return;
  const bool tired = host_gone_ && now >= world_.shared->host_gone() + grace_ms_ + kFightMs;
  if (count.fresh == 0 || tired) leave(1);
}

// Has all that is left killed at once, by the kernel. False: it has been done, or there is no group.
bool Keeper::end_group() {
  if (world_.group < 0 || group_ended_) return false;
  group_ended_ = true;
  group_killed_ = leave_group(world_.group) && kill_group(world_.group);
  return group_killed_;
}

void Keeper::answer_stops(std::uint32_t left) {
  for (const std::uint32_t live : stops_) report(KeeperEventKind::stopped, 0, 0, live, left);
  stops_.clear();
}

void Keeper::wake_zygote() const {
  // Somebody may have stopped it, and it should not outlive us all that way.
  if (::getppid() == world_.zygote) ::kill(world_.zygote, SIGCONT);
}

void Keeper::leave(int status) {
  if (world_.group >= 0 && ::getppid() != world_.zygote) leave_and_remove_group(world_.group);
  wake_zygote();
  exit_status_ = status;
  done_ = true;
}

int Keeper::wait_ms() const {
  std::int64_t until = -1;
  const std::int64_t now = now_ms();
  switch (ending_) {
    case Ending::none:
      break;
    case Ending::grace:
      until = std::min(grace_end_, next_look_);
      break;
    case Ending::killing:
    case Ending::left:
      until = next_look_;
      break;
  }
  if (!unsent_.empty()) until = until < 0 ? now + kSendAgainMs : std::min(until, now + kSendAgainMs);
  return until < 0 ? -1 : static_cast<int>(std::max<std::int64_t>(0, until - now));
}

std::uint64_t Keeper::reaped_cpu_us(std::uint64_t* max_rss_bytes) {
  rusage usage{};
  if (::getrusage(RUSAGE_CHILDREN, &usage) != 0) return 0;
  if (max_rss_bytes != nullptr) *max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  const auto us = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000 + static_cast<std::uint64_t>(time.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

void Keeper::report(KeeperEventKind kind, pid_t pid, int status, std::uint32_t live, std::uint32_t left) {
  KeeperEvent event;
  event.kind = kind;
  event.pid = pid;
  event.status = status;
  event.live = live;
  event.left = left;
  if (started_) event.cpu_us = reaped_cpu_us(&event.max_rss_bytes) - rehearsed_cpu_us_;
  report(event);
}

// In order: what could not be sent goes before what comes later.
void Keeper::report(const KeeperEvent& event) {
  if (flush() && send(channel_.get(), event)) return;
  unsent_.append(event);
}

bool Keeper::flush() {
  std::size_t sent = 0;
  while (sent < unsent_.size() && (abandoned_ || send(channel_.get(), unsent_[sent]))) ++sent;
  unsent_.remove_front(sent);
  return unsent_.empty();
}

}  // namespace errand::keeper
