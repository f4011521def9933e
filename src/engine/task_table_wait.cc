// SPDX-License-Identifier: Apache-2.0
// The table's waits: whoever stops a task, waits for its end or closes the engine stands here until it has changed.
#include <algorithm>
#include <utility>

#include "engine/task_table.h"

namespace errand {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

steady_clock::time_point deadline_after(milliseconds wait) {
  constexpr milliseconds kLong = std::chrono::hours(24 * 365);
  return steady_clock::now() + std::clamp(wait, milliseconds(0), kLong);
}

void TaskTable::changed(const Entry& entry) {
  changed_.notify_all();
  for (const std::shared_ptr<Wake>& wake : entry.subscribers) wake->set();
}

TaskTable::Look TaskTable::look(Serial serial) const {
  Look look;
  const MutexLock lock(mutex_);
  const Entry* const entry = find(serial);
  if (entry == nullptr) return look;
  look.task = snapshot(*entry);
  look.output = entry->output;
  look.ended = entry->phase == TaskPhase::ended;
  look.output_open = entry->output_open;
  look.tree_gone = look.ended && entry->tree != TreeState::alive;
  look.closed = closed_;
  look.keeper = entry->keeper;
  look.age_ms = std::max<std::int64_t>(0, clocks_.monotonic() - entry->started_ms);
  return look;
}

Serial TaskTable::subscribe(std::string_view id, std::shared_ptr<Wake> wake) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(id);
  if (entry == nullptr) return 0;
  entry->subscribers.push_back(std::move(wake));
  return entry->serial;
}

void TaskTable::unsubscribe(Serial serial, const Wake* wake) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr) return;
  auto& subscribers = entry->subscribers;
  const auto at =
      std::find_if(subscribers.begin(), subscribers.end(), [&](const auto& one) { return one.get() == wake; });
  if (at != subscribers.end()) subscribers.erase(at);
}

std::size_t TaskTable::subscriptions() const {
  const MutexLock lock(mutex_);
  std::size_t count = 0;
  for (const auto& [serial, entry] : entries_) count += entry->subscribers.size();
  return count;
}

TaskTable::Cancelled TaskTable::cancel(std::string_view id, bool may_wait) {
  Cancelled cancelled;
  bool notified = false;
  {
    const MutexLock lock(mutex_);
    Entry* const entry = find(id);
    if (entry == nullptr) return cancelled;
    cancelled.serial = entry->serial;
    TaskAction action = TaskAction::none;
    Outcome outcome;
    outcome.status = TaskStatus::cancelled;
    outcome.cause = EndCause::cancelled;
    const bool was_stopping = entry->stopping;
    notified = step(*entry, TaskEvent::cancel, outcome, {}, action);
    cancelled.moved = action == TaskAction::decide_publish;
    cancelled.post_stop = cancelled.moved || (entry->stopping && !was_stopping);
    if (may_wait && entry->phase == TaskPhase::decided) {
      const Serial serial = entry->serial;
      const auto deadline = deadline_after(config_.output_drain + config_.stop_grace + std::chrono::seconds(6));
      for (const Entry* one = entry; one != nullptr && one->phase == TaskPhase::decided; one = find(serial)) {
        if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
      }
    }
  }
  if (notified) notifications_.announce();
  return cancelled;
}

StopReport TaskTable::wait_stopped(Serial serial, const Cancelled& cancelled, milliseconds at_most) const {
  StopReport report;
  const auto deadline = deadline_after(at_most);
  std::optional<steady_clock::time_point> output_deadline;
  const MutexLock lock(mutex_);
  const Entry* entry = find(serial);
  const bool joined = cancelled.moved || cancelled.post_stop || (entry != nullptr && entry->stopping);
  while (entry != nullptr) {
    auto until = deadline;
    if (!entry->stopping) {
      // The tree is gone; its last words are in the pipe and will be read in a moment.
      if (!entry->output_open || !entry->left.empty()) break;
      if (!output_deadline) output_deadline = deadline_after(milliseconds(200));
      until = std::min(deadline, *output_deadline);
    }
    if (changed_.wait_until(mutex_, until) == std::cv_status::timeout) break;
    entry = find(serial);
  }
  if (entry == nullptr) return report;
  report.task = snapshot(*entry);
  report.left = entry->left;
  if (!joined) {
    report.outcome = StopReport::Outcome::already_finished;
    return report;
  }
  report.ended = std::max(0, entry->stop_live - static_cast<int>(entry->left.size()));
  if (entry->stop_moved) {
    report.outcome = StopReport::Outcome::stopped;
  } else if (report.ended > 0 || !report.left.empty()) {
    report.outcome = StopReport::Outcome::survivors_ended;
  } else {
    // It had only just ended, and nothing of it was there any more.
    report.outcome = StopReport::Outcome::already_finished;
  }
  return report;
}

TaskSnapshot TaskTable::wait_end(std::string_view id, milliseconds timeout, const std::stop_token& stop) const {
  const auto deadline = deadline_after(timeout);
  // A stop request must not slip in between the check and the wait: it takes the lock before it wakes.
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.notify_all();
  });
  const MutexLock lock(mutex_);
  const Entry* entry = find(id);
  if (entry == nullptr) return nullptr;
  const Serial serial = entry->serial;
  TaskSnapshot last;
  while (entry != nullptr) {
    if (entry->phase == TaskPhase::ended || stop.stop_requested()) return snapshot(*entry);
    last = snapshot(*entry);
    const bool timed_out = changed_.wait_until(mutex_, deadline) == std::cv_status::timeout;
    entry = find(serial);
    if (timed_out) break;
  }
  return entry != nullptr ? snapshot(*entry) : last;
}

std::vector<Serial> TaskTable::close() {
  std::vector<Serial> serials;
  bool notified = false;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    Outcome outcome;
    outcome.status = TaskStatus::cancelled;
    outcome.cause = EndCause::session_ended;
    for (const Serial serial : live_) {
      Entry* const entry = find(serial);
      TaskAction action = TaskAction::none;
      notified = step(*entry, TaskEvent::session_ended, outcome, {}, action) || notified;
      serials.push_back(serial);
      changed(*entry);
    }
  }
  if (notified) notifications_.announce();
  return serials;
}

std::vector<LeftProcess> TaskTable::wait_closed(milliseconds at_most) const {
  const auto deadline = deadline_after(at_most);
  const auto over = [](const Entry& entry) {
    const bool tree = entry.tree == TreeState::alive && (entry.stopping || entry.left.empty());
    return entry.phase == TaskPhase::ended && !tree && (!entry.has_id() || entry.announcement_done);
  };
  const MutexLock lock(mutex_);
  for (;;) {
    bool all = true;
    for (const Serial serial : live_) all = all && over(*find(serial));
    if (all || changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  std::vector<LeftProcess> left;
  for (const Serial serial : live_) {
    const Entry* const entry = find(serial);
    left.insert(left.end(), entry->left.begin(), entry->left.end());
  }
  return left;
}

}  // namespace errand
