// SPDX-License-Identifier: Apache-2.0
#include "engine/supervisor.h"

#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "engine/signal_block.h"
#include "engine/task_text.h"

namespace errand {
namespace {

constexpr std::size_t kBurst = 4 * 1024;  // a round with less is no flood
constexpr long kFloodPauseNs = 300000;    // a flood is let print for so long before the next read

// As far as there is time at all: what is never meant to strike is often given as the longest duration.
std::int64_t monotonic_after(std::chrono::milliseconds wait) {
  constexpr std::chrono::milliseconds kLong = std::chrono::years(1000);
  return monotonic_ms() + std::min(wait, kLong).count();
}

}  // namespace

Supervisor::Supervisor(const EngineConfig& config, TaskTable& table, EngineListener* listener, std::string keeper_path)
    : config_(config),
      table_(table),
      listener_(listener),
      mailbox_(std::make_shared<Mailbox>()),
      zygotes_(std::move(keeper_path), [this](std::uint64_t generation, int control) {
        // Once: a dead zygote's socket stays readable.
        return epoll_.add(control, EPOLLIN | EPOLLRDHUP | EPOLLONESHOT, key_of(generation, Source::control));
      }) {}

Supervisor::~Supervisor() { shut_down(0); }

std::optional<StartError> Supervisor::start() {
  const MutexLock lock(start_mutex_);
  if (thread_.joinable()) return std::nullopt;
  if (const int error = mailbox_->open(); error != 0) return StartError{"eventfd", "", error};
  if (const int error = epoll_.open(); error != 0) return StartError{"epoll_create", "", error};
  if (const int error = epoll_.add(mailbox_->wake_fd(), EPOLLIN, key_of(0, Source::wake)); error < 0) {
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
  int error = epoll_.add(keeper, EPOLLIN | EPOLLRDHUP, key_of(serial, Source::keeper));
  if (error == 0) error = epoll_.add(pipe, EPOLLIN, key_of(serial, Source::pipe));
  if (error != 0) unwatch(keeper, pipe);
  return -error;
}

// Not left to their closing: a forked copy of the host may hold them open.
void Supervisor::unwatch(int keeper, int pipe) {
  epoll_.remove(keeper);
  epoll_.remove(pipe);
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
    const int count = epoll_.wait(events, timers_.wait_ms(monotonic_ms()));
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
  const auto [number, source] = source_of(key);
  if (source == Source::wake) return handle_messages();
  if (source == Source::control) return zygotes_.lost(number);
  const auto it = lives_.find(number);
  if (it == lives_.end()) return;
  Live& live = *it->second;
  if (source == Source::pipe) {
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

}  // namespace errand
