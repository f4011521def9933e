// SPDX-License-Identifier: Apache-2.0
// The supervisor's dealings with zygotes and keepers: starts that went wrong, what keepers say, stops, and what is left
// when a keeper is lost.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "engine/launcher.h"
#include "engine/process_list.h"
#include "engine/supervisor.h"
#include "engine/task_text.h"

namespace errand {
namespace {

constexpr std::int64_t kKeeperPatienceMs = 2500;
constexpr std::int64_t kStopAgainMs = 10;  // a stop could not be sent
constexpr std::int64_t kSweepPauseMs = 10;
constexpr int kMaxSweeps = 300;
constexpr std::int64_t kUnheardMs = 200;  // a start that takes longer may wait for somebody who is stopped
constexpr std::int64_t kGuardMs = 1000;
constexpr int kNewStarts = 3;  // of a task whose order nobody read

std::string step_text(keeper::StartStep step) {
  switch (step) {
    case keeper::StartStep::none:
      break;
    case keeper::StartStep::read_request:
      return "read request";
    case keeper::StartStep::setsid:
      return "setsid";
    case keeper::StartStep::rlimit:
      return "setrlimit";
    case keeper::StartStep::stdio:
      return "stdio";
    case keeper::StartStep::chdir:
      return "chdir";
    case keeper::StartStep::exec:
      return "exec";
    case keeper::StartStep::fork:
      return "fork";
  }
  return "start";
}

}  // namespace

// --- helpers that are kept ready, and woken ---

void Supervisor::refill_spare() {
  timers_.clear(0, TimerKind::spare);
  if (!zygotes_.has_spare()) zygotes_.refill();
  plan_guard();
}

void Supervisor::plan_guard() {
  std::erase_if(unheard_, [this](Serial serial) {
    const auto it = lives_.find(serial);
    if (it == lives_.end()) return true;
    latest_ = it->second->task.keeper.zygote;
    return it->second->heard || !it->second->task.keeper.channel;
  });
  const bool soon = !unheard_.empty();
  if (lives_.empty() || (timers_.is_set(0, TimerKind::guard) && (guard_soon_ || !soon))) return;
  guard_soon_ = soon;
  timers_.set(0, TimerKind::guard, monotonic_ms() + (soon ? kUnheardMs : kGuardMs));
}

void Supervisor::guard() {
  plan_guard();
  // A zygote sees to its keepers. It is seen to here, and so are the keepers whose zygote is dead.
  std::unordered_map<Zygote*, bool> lives;
  const auto look = [&lives](const std::shared_ptr<Zygote>& zygote) {
    const auto [it, first] = lives.try_emplace(zygote.get(), false);
    if (first) it->second = zygote->alive();
    if (first && it->second) zygote->rouse();
    return it->second;
  };
  if (latest_) look(latest_);
  for (const auto& [serial, live] : lives_) {
    if (!live->task.keeper.channel || look(live->task.keeper.zygote) || live->keeper_pid <= 0) continue;
    // The connection is open, so the pid is still the keeper's.
    if (is_stopped(live->keeper_pid)) ::kill(live->keeper_pid, SIGCONT);
  }
}

// --- what they say ---

void Supervisor::read_keeper(Live& live) {
  while (live.task.keeper.channel) {
    keeper::KeeperEvent event;
    iovec vector{&event, sizeof event};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(ucred))] = {};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    const ssize_t got = ::recvmsg(live.task.keeper.channel.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ECONNRESET) {
      // Tells once that the keeper left something unread; what it said before is still there.
      live.left_unread = true;
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS)) return;  // the loop comes round again
    if (got != static_cast<ssize_t>(sizeof event) || event.version != keeper::kProtocolVersion) {
      return on_keeper_closed(live);
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
      live.keeper_pid = sender.pid;
    }
    live.heard = true;
    if (std::exchange(live.ended_early, false)) close_pipe(live);
    on_keeper_event(live, event);
  }
}

void Supervisor::on_keeper_event(Live& live, const keeper::KeeperEvent& event) {
  const Serial serial = live.task.serial;
  table_.add_usage(serial, static_cast<double>(event.cpu_us) / 1e6, event.max_rss_bytes);
  switch (event.kind) {
    case keeper::KeeperEventKind::started:
      table_.keeper_started(serial, live.keeper_pid);
      live.task.spec = {};
      break;
    case keeper::KeeperEventKind::could_not_start: {
      std::string object;
      if (event.step == keeper::StartStep::chdir) object = live.task.spec.cwd;
      if (event.step == keeper::StartStep::exec) object = live.task.spec.shell;
      decide(live, TaskEvent::start_failed,
             outcome_of_failure(EndCause::could_not_start,
                                could_not_start_text(step_text(event.step), object, event.error)));
      break;
    }
    case keeper::KeeperEventKind::exited:
      live.none_left_at_exit = event.live == 0;
      // Who is told of the end must find the tree gone already, not only when `empty` has been read as well. A stop in
      // progress has its own answer coming, with the count.
      if (live.none_left_at_exit && live.stops_sent == live.stops_answered) tree_gone(live);
      decide(live, TaskEvent::shell_exited, outcome_of_wait_status(event.status));
      break;
    case keeper::KeeperEventKind::stopped: {
      ++live.stops_answered;
      timers_.clear(serial, TimerKind::stop_check);
      std::vector<LeftProcess> left;
      if (event.left > 0) left = left_processes(live.keeper_pid);
      table_.stop_done(serial, static_cast<int>(event.live), std::move(left));
      if (event.left == 0) tree_gone(live);
      if (live.timed_out) {
        live.drain_at = monotonic_ms() + config_.output_drain.count();
        try_publish(live);
      }
      break;
    }
    case keeper::KeeperEventKind::empty:
      live.empty = true;
      tree_gone(live);
      if (!live.decided && !live.published) no_status(live);
      try_publish(live);
      break;
  }
}

void Supervisor::on_keeper_closed(Live& live) {
  epoll_.remove(live.task.keeper.channel.get());
  live.task.keeper.channel.close();
  timers_.clear(live.task.serial, TimerKind::stop_check);
  if (!live.gone && !live.heard && live.left_unread && live.stops_sent == 0) {
    // The request to start was never read: the zygote died before it forked, or the spare did, and nothing was started.
    StartError error{"fork", "", ECONNRESET};
    if (live.new_starts < kNewStarts && !table_.stop_wanted(live.task.serial)) {
      auto failure = start_anew(live);
      if (!failure) return;
      error = std::move(*failure);
    }
    return decide(
        live, TaskEvent::start_failed,
        outcome_of_failure(EndCause::could_not_start, could_not_start_text(error.step, error.object, error.error)));
  }
  if (std::exchange(live.ended_early, false)) close_pipe(live);
  if (live.gone) {
    if (!live.decided && !live.published) no_status(live);
    return;
  }
  // Its zygote ends what it leaves, if that lives; whatever it misses is found by the token.
  const bool swept = live.task.keeper.zygote->alive();
  decide(live, TaskEvent::keeper_lost,
         outcome_of_failure(EndCause::keeper_lost, swept ? "keeper lost" : "keeper lost; processes may be left"));
  lost_.insert(live.task.serial);
  timers_.set(0, TimerKind::sweep, monotonic_ms());
}

std::optional<StartError> Supervisor::start_anew(Live& live) {
  ++live.new_starts;
  // A forked copy of the host may hold the first pipe open, so closing it would not take it out of the set.
  if (!live.ended_early) epoll_.remove(live.task.pipe.get());
  live.ended_early = true;
  SupervisedStart watch(*this, live.task.serial);
  auto started = start_process(zygotes_, live.task.spec, watch);
  if (auto* error = std::get_if<StartError>(&started)) return std::move(*error);
  auto& process = std::get<StartedProcess>(started);
  live.ended_early = live.left_unread = false;
  live.task.pipe = std::move(process.pipe);
  live.task.keeper = std::move(process.keeper);
  timers_.set(0, TimerKind::spare, monotonic_ms() + kSpareIdleMs);
  return std::nullopt;
}

// The keeper ended as it should, but the shell's status did not come through.
void Supervisor::no_status(Live& live) {
  decide(live, TaskEvent::keeper_lost, outcome_of_failure(EndCause::keeper_lost, "keeper lost"));
}

void Supervisor::sweep_lost() {
  std::vector<Serial> serials(lost_.begin(), lost_.end());
  std::vector<std::string> tokens;
  for (const Serial serial : serials) tokens.push_back(table_.token(serial));
  const std::vector<int> found = kill_by_token(tokens);
  for (std::size_t i = 0; i < serials.size(); ++i) {
    const auto it = lives_.find(serials[i]);
    if (it == lives_.end()) {
      lost_.erase(serials[i]);
      continue;
    }
    Live& live = *it->second;
    if (live.sweeps == 0) live.swept = std::max(live.swept, found[i]);  // later passes find the same ones dying
    live.clean_sweeps = found[i] == 0 ? live.clean_sweeps + 1 : 0;
    // Twice clean: a process that forked while the first pass went by is seen by the second.
    if (live.clean_sweeps < 2 && ++live.sweeps < kMaxSweeps) continue;
    lost_.erase(serials[i]);
    table_.stop_done(serials[i], live.swept, {});
    tree_gone(live);
    try_publish(live);
    finished(live);
  }
  // Twice at least, so that a group whose keeper was still on its way out is met, and what it leaves.
  zygotes_.sweep();
  if (!lost_.empty()) timers_.set(0, TimerKind::sweep, monotonic_ms() + kSweepPauseMs);
}

void Supervisor::tree_gone(Live& live) {
  if (std::exchange(live.gone, true)) return;
  const TaskSnapshot snapshot = table_.tree_gone(live.task.serial);
  if (live.timed_out) live.drain_at = std::min(live.drain_at, monotonic_ms() + config_.output_drain.count());
  if (snapshot && listener_ != nullptr) listener_->on_task_changed(snapshot);
}

// --- stops ---

void Supervisor::send_stop(Live& live) {
  if (!live.task.keeper.channel || live.stops_sent > live.stops_answered) return;
  keeper::StopRequest request;
  request.grace_ms = static_cast<std::uint32_t>(config_.stop_grace.count());
  // One that somebody stopped would answer nothing. The connection is open, so the pid is still the keeper's.
  if (live.keeper_pid > 0) ::kill(live.keeper_pid, SIGCONT);
  while (::send(live.task.keeper.channel.get(), &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    // A keeper that has gone meanwhile is known by its end of file. For the others there was no memory, or no room.
    if (errno != EPIPE && errno != ECONNRESET) {
      timers_.set(live.task.serial, TimerKind::stop_check, monotonic_ms() + kStopAgainMs);
    }
    return;
  }
  ++live.stops_sent;
  timers_.set(live.task.serial, TimerKind::stop_check, monotonic_ms() + config_.stop_grace.count() + kKeeperPatienceMs);
}

void Supervisor::check_stop(Live& live) {
  if (!live.task.keeper.channel) return;
  if (live.stops_sent == live.stops_answered) return send_stop(live);  // it could not be sent
  // The connection is open, so the pid is still the keeper's. One that was stopped is woken; one that hangs is killed,
  // and its zygote ends the tree.
  if (live.keeper_pid > 0) {
    // The zygote may be faster than our own look at what a killed one leaves.
    if (live.nudged) live.swept = std::max(live.swept, static_cast<int>(living_descendants(live.keeper_pid).size()));
    ::kill(live.keeper_pid, live.nudged ? SIGKILL : SIGCONT);
  }
  if (live.keeper_pid == 0) on_keeper_closed(live);
  live.nudged = true;
  timers_.set(live.task.serial, TimerKind::stop_check, monotonic_ms() + 1000);
}

}  // namespace errand
