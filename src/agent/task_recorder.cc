// SPDX-License-Identifier: Apache-2.0
#include "agent/task_recorder.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "conversation/limits.h"
#include "conversation/notice.h"

namespace errand {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kThrottle{100};

thread_local bool launching_by_hand = false;

}  // namespace

TaskRecorder::ByHand::ByHand() { launching_by_hand = true; }
TaskRecorder::ByHand::~ByHand() { launching_by_hand = false; }

TaskRecorder::TaskRecorder(Journal& journal, event::Queue& events, HandOver hand_over)
    : journal_(journal), events_(events), hand_over_(std::move(hand_over)) {}

TaskRecorder::~TaskRecorder() { finish(); }

void TaskRecorder::begin(Engine& engine) {
  engine_ = &engine;
  thread_ = std::thread([this] { run(); });
}

void TaskRecorder::finish() {
  {
    const MutexLock lock(mutex_);
    finished_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool TaskRecorder::has_open_tasks(bool by_hand_too) const {
  const MutexLock lock(mutex_);
  return std::any_of(open_.begin(), open_.end(), [&](const auto& task) { return by_hand_too || !task.second; });
}

void TaskRecorder::on_task_started(const TaskSnapshot& task) {
  const bool by_hand = launching_by_hand;
  {
    const MutexLock lock(mutex_);
    open_[task->id] = by_hand;
  }
  // A foreground command whose processes outlive it is announced when it has ended, by the supervisor's thread.
  if (task->status != TaskStatus::running) {
    post({task, true, 0});
    return;
  }
  journal_.task_start(*task, by_hand);
  events_.push(event::TasksChange{});
}

void TaskRecorder::on_task_ended(const TaskSnapshot& task) {
  ++ends_underway_;
  post({task, false, monotonic_ms()});
}

void TaskRecorder::post(Change change) {
  {
    const MutexLock lock(mutex_);
    changes_.push_back(std::move(change));
  }
  changed_.notify_all();
}

void TaskRecorder::on_task_changed(const TaskSnapshot&) {
  {
    const MutexLock lock(mutex_);
    list_changed_ = true;
  }
  changed_.notify_all();
}

std::optional<TaskRecorder::Change> TaskRecorder::next() {
  const MutexLock lock(mutex_);
  for (;;) {
    if (!changes_.empty()) {
      Change change = std::move(changes_.front());
      changes_.pop_front();
      return change;
    }
    if (finished_) return std::nullopt;
    if (!list_changed_) {
      changed_.wait(mutex_);
    } else if (Clock::now() < next_list_change_) {
      changed_.wait_until(mutex_, next_list_change_);
    } else {
      list_changed_ = false;
      next_list_change_ = Clock::now() + kThrottle;
      return Change{};
    }
  }
}

void TaskRecorder::run() {
  while (const auto change = next()) {
    if (!change->task) {
      events_.push(event::TasksChange{});
    } else if (change->started) {
      journal_.task_start(*change->task, false);
    } else {
      record_end(change->task, change->ended_ms);
    }
  }
}

void TaskRecorder::record_end(const TaskSnapshot& task, std::int64_t ended_ms) {
  bool by_hand = false;
  {
    const MutexLock lock(mutex_);
    if (const auto it = open_.find(task->id); it != open_.end()) by_hand = it->second;
  }
  std::string tail;
  if (task->status == TaskStatus::failed) {
    if (const auto output = engine_->tail(task->id, kNoticeTailLines)) tail = output->text;
  }
  auto notice = make_notice(*task, tail);
  journal_.task_end(*task, notice);
  hand_over_(std::move(notice), by_hand, ended_ms);
  {
    const MutexLock lock(mutex_);
    open_.erase(task->id);
  }
  events_.push(event::TasksChange{});
}

}  // namespace errand
