// SPDX-License-Identifier: Apache-2.0
#include "engine/supervisor.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "engine/launcher.h"
#include "engine/process_list.h"
#include "engine/signal_block.h"
#include "engine/task_text.h"

namespace errand {
namespace {

constexpr std::size_t kChunk = 64 * 1024;  // a read
// A task that prints much gets a wider pipe and is let print for a moment before the next read. Woken at every write of
// it the loop would take the processor from the very writer, for a few bytes each time.
constexpr std::uint64_t kMuch = 256 * 1024;  // bytes, after which the pipe is made wider
constexpr int kWidePipe = 256 * 1024;
constexpr int kWideReads = 4;             // in one round of the loop
constexpr std::size_t kBurst = 4 * 1024;  // a round with less is no flood
constexpr long kFloodPauseNs = 100000;
constexpr std::int64_t kSpareIdleMs =
    20;  // after a start, for what can wait: the spare keeper, the file of what prints nothing
constexpr std::int64_t kSettleMs = 20;  // for what is dying when the output has ended
constexpr std::int64_t kFlushMs = 100;  // an end waits so long for its file; a disk that hangs delays it no longer
constexpr std::int64_t kKeeperPatienceMs = 2500;
constexpr std::int64_t kStopAgainMs = 10;  // a stop could not be sent
constexpr std::int64_t kSweepPauseMs = 10;
constexpr int kMaxSweeps = 300;
constexpr std::int64_t kUnheardMs = 200;  // a start that takes longer may wait for somebody who is stopped
constexpr std::int64_t kGuardMs = 1000;
constexpr int kNewStarts = 3;  // of a task whose order nobody read

// What an epoll event is about stands in the low bits of its key; above them the serial, or the zygote's generation.
constexpr std::uint64_t kWakeKey = 0;
constexpr std::uint64_t kPipe = 1;
constexpr std::uint64_t kKeeper = 2;
constexpr std::uint64_t kControl = 3;
std::uint64_t key_of(std::uint64_t number, std::uint64_t what) { return number << 2 | what; }

int epoll_add(int epoll, int fd, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

// As far as there is time at all: what is never meant to strike is often given as the longest duration.
std::int64_t monotonic_after(std::chrono::milliseconds wait) {
  constexpr std::chrono::milliseconds kLong = std::chrono::years(1000);
  return monotonic_ms() + std::min(wait, kLong).count();
}

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

Supervisor::Supervisor(const EngineConfig& config, TaskTable& table, EngineListener* listener, std::string keeper_path)
    : config_(config),
      table_(table),
      listener_(listener),
      mailbox_(std::make_shared<Mailbox>()),
      zygotes_(std::move(keeper_path), [this](std::uint64_t generation, int control) {
        // Once: a dead zygote's socket stays readable.
        return epoll_add(epoll_.get(), control, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, key_of(generation, kControl));
      }) {}

Supervisor::~Supervisor() { shut_down(0); }

std::optional<StartError> Supervisor::start() {
  const MutexLock lock(start_mutex_);
  if (thread_.joinable()) return std::nullopt;
  if (const int error = mailbox_->open(); error != 0) return StartError{"eventfd", "", error};
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return StartError{"epoll_create", "", errno};
  if (const int error = epoll_add(epoll_.get(), mailbox_->wake_fd(), EPOLLIN, kWakeKey); error < 0) {
    return StartError{"epoll_ctl", "", -error};
  }
  writer_ = std::make_unique<FileWriter>(
      [mailbox = mailbox_](Serial serial) { mailbox->post({MailboxMessage::Kind::writer_progress, serial, nullptr}); });
  chunk_.resize(kChunk);
  try {
    const SignalBlock blocked;
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return StartError{"thread", "", error.code().value()};
  }
  return std::nullopt;
}

bool Supervisor::running() {
  const MutexLock lock(start_mutex_);
  return thread_.joinable();
}

int Supervisor::watch(Serial serial, int keeper, int pipe) {
  // Watched first, handed over then: from the hand-over on the loop may close the descriptors at any time. What happens
  // between is of an unknown serial; the loop passes over it and finds it again, since it is level-triggered.
  int error = epoll_add(epoll_.get(), keeper, EPOLLIN | EPOLLRDHUP, key_of(serial, kKeeper));
  if (error == 0) error = epoll_add(epoll_.get(), pipe, EPOLLIN, key_of(serial, kPipe));
  if (error != 0) unwatch(keeper, pipe);
  return -error;
}

// Not left to their closing: a forked copy of the host may hold them open.
void Supervisor::unwatch(int keeper, int pipe) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, keeper, nullptr);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, pipe, nullptr);
}

void Supervisor::shut_down(std::int64_t files_ms) {
  std::thread thread;
  {
    const MutexLock lock(start_mutex_);
    thread = std::move(thread_);
  }
  if (!thread.joinable()) return;
  mailbox_->post({MailboxMessage::Kind::quit, 0, nullptr});
  thread.join();
  lives_.clear();
  zygotes_.close();
  writer_->stop(files_ms);
}

// --- the loop ---

void Supervisor::run() {
  thread_id_ = std::this_thread::get_id();
  ::pthread_setname_np(::pthread_self(), "errand-engine");
  epoll_event events[64];
  while (!quit_) {
    const int count = ::epoll_wait(epoll_.get(), events, 64, timers_.wait_ms(monotonic_ms()));
    take_started();
    flooded_ = 0;
    quiet_events_ = false;
    for (int i = 0; i < count; ++i) handle_event(events[i].data.u64);
    const std::int64_t now = monotonic_ms();
    while (const auto due = timers_.take_due(now)) handle_timer(*due);
    if (flooded_ >= kBurst && !quiet_events_) {
      const timespec pause{0, kFloodPauseNs};
      ::nanosleep(&pause, nullptr);
    }
  }
}

void Supervisor::handle_event(std::uint64_t key) {
  if (key == kWakeKey) return handle_messages();
  const std::uint64_t number = key >> 2;
  if ((key & 3) == kControl) return zygotes_.lost(number);
  const auto it = lives_.find(number);
  if (it == lives_.end()) return;
  Live& live = *it->second;
  if ((key & 3) == kPipe) {
    read_pipe(live);
  } else {
    quiet_events_ = true;
    read_keeper(live);
  }
  finished(live);
}

void Supervisor::take_started() {
  for (StartedTask& task : mailbox_->take_started()) {
    const Serial serial = task.serial;
    auto live = std::make_unique<Live>();
    live->task = std::move(task);
    if (live->task.timeout) timers_.set(serial, TimerKind::timeout, monotonic_after(*live->task.timeout));
    Live& added = *live;
    lives_[serial] = std::move(live);
    unheard_.insert(serial);
    timers_.set(0, TimerKind::spare, monotonic_ms() + kSpareIdleMs);
    plan_look();
    if (added.task.output->file() != nullptr) timers_.set(serial, TimerKind::file, monotonic_ms() + kSpareIdleMs);
    if (table_.stop_wanted(serial)) send_stop(added);
  }
}

void Supervisor::handle_messages() {
  const std::vector<MailboxMessage> messages = mailbox_->take_messages();
  take_started();  // what the messages are about has been added before them
  for (const MailboxMessage& message : messages) {
    const auto it = lives_.find(message.serial);
    Live* const live = it == lives_.end() ? nullptr : it->second.get();
    switch (message.kind) {
      case MailboxMessage::Kind::announce:
        announce_here(message.serial);
        break;
      case MailboxMessage::Kind::stop:
        // Between the shell's exit and the publication it waits for the latter.
        if (live != nullptr && table_.stop_wanted(message.serial)) send_stop(*live);
        break;
      case MailboxMessage::Kind::writer_progress:
        if (live == nullptr) break;
        if (!live->pipe_watched && live->task.pipe && live->task.output->file()->append({}, kChunk).room) {
          resume_pipe(*live);
        }
        try_publish(*live);
        break;
      case MailboxMessage::Kind::enqueue_file:
        look_after_writers(writer_->enqueue(message.serial, message.output));
        break;
      case MailboxMessage::Kind::look:
        timers_.set(0, TimerKind::look, monotonic_ms());
        break;
      case MailboxMessage::Kind::quit:
        quit_ = true;
        break;
    }
    if (live != nullptr) finished(*live);
  }
}

void Supervisor::handle_timer(Timers::Due due) {
  if (due.kind == TimerKind::spare) return refill_spare();
  if (due.kind == TimerKind::sweep) return sweep_lost();
  if (due.kind == TimerKind::guard) return guard();
  if (due.kind == TimerKind::look) return look();
  if (due.kind == TimerKind::writers) {
    if (const std::int64_t next = writer_->look_after(monotonic_ms())) timers_.set(0, TimerKind::writers, next);
    return;
  }
  const auto it = lives_.find(due.serial);
  if (it == lives_.end()) return;
  Live& live = *it->second;
  switch (due.kind) {
    case TimerKind::timeout:
      decide(live, TaskEvent::timed_out,
             outcome_of_failure(EndCause::timed_out,
                                timed_out_text(live.task.timeout.value_or(std::chrono::milliseconds(0)))));
      break;
    case TimerKind::file:
      // Not at the start: making a file may take longer than the start, and competes with it.
      queue_file(live);
      break;
    case TimerKind::settle:
      try_publish(live);
      break;
    case TimerKind::unblock: {
      // A slow disk slows its task. One that does not move at all does not: the task goes on with its tail only.
      OutputFile* const file = live.task.output->file();
      const std::int64_t since = writer_->progress_ms(*live.task.output);
      if (monotonic_ms() - since < FileWriter::kStuckMs) {
        timers_.set(due.serial, TimerKind::unblock, since + FileWriter::kStuckMs);
      } else {
        file->give_up_on_writer("write: no progress for 2 s");
        resume_pipe(live);
      }
      break;
    }
    case TimerKind::stop_check:
      check_stop(live);
      break;
    default:
      break;
  }
  finished(live);
}

bool Supervisor::finished(Live& live) {
  if (live.task.pipe || live.task.keeper.channel || !live.gone || (live.decided && !live.published)) return false;
  if (live.task.output->file() != nullptr) queue_file(live);  // closes it
  timers_.forget(live.task.serial);
  lives_.erase(live.task.serial);
  return true;
}

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

// --- output ---

void Supervisor::read_pipe(Live& live) {
  if (!live.task.pipe || !live.pipe_watched) return;
  if (!live.wide) {
    quiet_events_ = true;
    read_chunk(live);
    return;
  }
  live.batching = true;
  live.file_due = false;
  const std::uint64_t begin = live.read_bytes;
  for (int i = 0; i < kWideReads && live.task.pipe && live.pipe_watched; ++i) {
    const std::uint64_t before = live.read_bytes;
    if (!read_chunk(live) || live.read_bytes - before < kChunk) break;
  }
  live.batching = false;
  if (live.file_due) {
    quiet_events_ = true;
    queue_file(live);  // once a round: the writer is woken less often, and for more
  } else {
    flooded_ += live.read_bytes - begin;
  }
}

bool Supervisor::read_chunk(Live& live) {
  const ssize_t got = ::read(live.task.pipe.get(), chunk_.data(), kChunk);
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN || errno == ENOMEM) return false;  // the loop comes round to it again
    live.task.output->reading_failed(errno);
  }
  if (got <= 0) {
    if (live.heard || !live.task.keeper.channel) {
      close_pipe(live);
    } else {
      // A keeper that dies before it has read its order takes the pipe along, and the start may be made anew with
      // another one: what this end means, the keeper's next word or its own end says.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, live.task.pipe.get(), nullptr);
      live.ended_early = true;
    }
    return false;
  }
  live.read_bytes += static_cast<std::uint64_t>(got);
  if (live.read_bytes >= kMuch && !std::exchange(live.much, true)) {
    // Refused when the user's pipes take too much as it is.
    live.wide = ::fcntl(live.task.pipe.get(), F_SETPIPE_SZ, kWidePipe) >= 0;
  }
  const OutputFile::Appended appended =
      live.task.output->append({chunk_.data(), static_cast<std::size_t>(got)}, kChunk, live.counts_after_end);
  if (live.counts_after_end) ended_outputs_.keep(live.task.output);
  live.file_due = appended.work;
  if (appended.work && !live.batching) queue_file(live);
  if (!appended.room && live.pipe_watched) pause_pipe(live);
  // After the output is there for its readers: the zygote's fork competes with them for the processor.
  if (!std::exchange(live.printed, true) && timers_.is_set(0, TimerKind::spare)) refill_spare();
  return true;
}

void Supervisor::read_rest(Live& live) {
  constexpr int kFullPipe = 16;  // chunks: the largest pipe that the kernel gives
  for (int i = 0; i < kFullPipe && live.task.pipe; ++i) {
    // The end is not delayed for a disk: what its buffer cannot take goes to the tail only.
    if (!live.pipe_watched) live.task.output->file()->give_up_on_writer("write: slower than the task's end");
    if (!read_chunk(live)) break;
  }
}

void Supervisor::close_pipe(Live& live) {
  live.task.pipe.reset();
  timers_.clear(live.task.serial, TimerKind::unblock);
  live.task.output->finish();
  ended_outputs_.keep(live.task.output);
  // Closing a file that is complete is left for later: the pipe's end is most often just before the shell's.
  OutputFile* const file = live.task.output->file();
  if (file != nullptr && !file->settled()) queue_file(live);
  live.settle_at = monotonic_ms() + kSettleMs;
  table_.output_ended(live.task.serial);
  try_publish(live);
}

void Supervisor::pause_pipe(Live& live) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, live.task.pipe.get(), nullptr);
  live.pipe_watched = false;
  timers_.set(live.task.serial, TimerKind::unblock,
              live.task.output->file()->last_progress_ms() + FileWriter::kStuckMs);
}

void Supervisor::resume_pipe(Live& live) {
  timers_.clear(live.task.serial, TimerKind::unblock);
  if (!live.task.pipe || live.pipe_watched) return;
  if (epoll_add(epoll_.get(), live.task.pipe.get(), EPOLLIN, key_of(live.task.serial, kPipe)) == 0) {
    live.pipe_watched = true;
  } else {
    timers_.set(live.task.serial, TimerKind::unblock, monotonic_ms() + 100);  // no memory just now
  }
}

void Supervisor::queue_file(Live& live) { look_after_writers(writer_->enqueue(live.task.serial, live.task.output)); }

void Supervisor::look_after_writers(std::int64_t at_ms) {
  if (!timers_.is_set(0, TimerKind::writers)) timers_.set(0, TimerKind::writers, at_ms);
}

// --- keepers ---

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
      if (event.left > 0) {
        for (ProcessInfo& process : living_descendants(live.keeper_pid)) {
          std::string why = why_left(process.pid);
          left.push_back({std::move(process), std::move(why)});
        }
      }
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
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, live.task.keeper.channel.get(), nullptr);
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
  if (!live.ended_early) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, live.task.pipe.get(), nullptr);
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

// --- ends ---

void Supervisor::decide(Live& live, TaskEvent event, const Outcome& outcome) {
  const Serial serial = live.task.serial;
  const TaskTable::Applied applied = table_.apply(serial, event, outcome);
  const std::int64_t now = monotonic_ms();
  timers_.clear(serial, TimerKind::timeout);
  switch (applied.action) {
    case TaskAction::decide:
      live.decided = true;
      live.timed_out = event == TaskEvent::timed_out;
      live.drain_at = now + config_.output_drain.count();
      live.settle_at = now + kSettleMs;
      if (live.timed_out) {
        live.tree_at = now + config_.stop_grace.count() + 5000;
        live.drain_at = live.tree_at;
        send_stop(live);
      }
      break;
    case TaskAction::decide_publish:
      live.published = true;
      break;
    default:
      break;  // decided before, by somebody else
  }
  if (event == TaskEvent::start_failed) {
    tree_gone(live);
    if (live.task.pipe) read_rest(live);
    if (live.task.pipe) close_pipe(live);
  }
  if (applied.action == TaskAction::decide_publish) announce_here(serial);
  // Most often the rest is there already: an end need not wait for the loop to come round.
  if (event == TaskEvent::shell_exited && live.task.pipe && live.pipe_watched) {
    while (live.task.pipe && live.pipe_watched && read_chunk(live)) {
      if (monotonic_ms() > now + 2) break;
    }
  }
  try_publish(live);
}

std::vector<ProcessInfo> Supervisor::survivors_of(const Live& live) const {
  if (live.gone || live.empty || live.none_left_at_exit || !live.task.keeper.channel) return {};
  return living_descendants(live.keeper_pid);
}

bool Supervisor::adopt_survivors(Live& live) {
  const auto adoption = table_.adopt_at_end(live.task.serial);
  if (!adoption) return false;
  OutputFile* const file = adoption->output->file();
  if (file == nullptr) return false;
  file->rename(config_.output_folder + "/" + adoption->id + ".output");
  queue_file(live);
  return true;
}

void Supervisor::try_publish(Live& live) {
  if (!live.decided || live.published) return;
  const Serial serial = live.task.serial;
  const std::int64_t now = monotonic_ms();
  const auto wait_until = [&](std::int64_t at) { timers_.set(serial, TimerKind::settle, at); };

  if (live.timed_out && !live.gone && live.stops_answered == 0 && now < live.tree_at) return wait_until(live.tree_at);
  if (live.task.pipe && now < live.drain_at) return wait_until(live.drain_at);
  if (!live.task.pipe && !live.gone && !live.none_left_at_exit && now < std::min(live.settle_at, live.drain_at)) {
    return wait_until(std::min(live.settle_at, live.drain_at));
  }
  if (live.task.pipe) {
    read_rest(live);
    if (live.published) return;  // the end of file came with it, and this function with that
  }
  OutputFile* const file = live.task.output->file();
  if (file != nullptr && !file->settled()) {
    if (live.flush_at == 0) live.flush_at = now + kFlushMs;
    if (now < live.flush_at) return wait_until(live.flush_at);
  }
  std::vector<ProcessInfo> survivors = survivors_of(live);
  if (!survivors.empty() && live.task.foreground && adopt_survivors(live)) {
    live.flush_at = now + kFlushMs;
    return wait_until(live.flush_at);
  }
  live.published = true;
  live.counts_after_end = true;
  ended_outputs_.keep(live.task.output);
  timers_.clear(serial, TimerKind::settle);
  for (const ProcessInfo& process : survivors) live.survivors.push_back(process.pid);
  const TaskTable::Applied applied = table_.apply(serial, TaskEvent::output_settled, {}, std::move(survivors));
  announce_here(serial);
  if (applied.stop_wanted) send_stop(live);
}

void Supervisor::announce_here(Serial serial) {
  const auto announcement = table_.take_announcement(serial);
  if (!announcement) return;
  if (listener_ != nullptr) {
    if (announcement->started) listener_->on_task_started(announcement->snapshot);
    listener_->on_task_ended(announcement->snapshot);
  }
  table_.announced(serial);
}

}  // namespace errand
