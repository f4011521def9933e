// SPDX-License-Identifier: Apache-2.0
#include "engine/task_table.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/environment.h"

namespace errand {
namespace {

constexpr std::size_t kMaxNamedSurvivors = 10;

}  // namespace

Outcome outcome_of_wait_status(int status) {
  Outcome outcome;
  if (WIFSIGNALED(status)) {
    outcome.status = TaskStatus::failed;
    outcome.cause = EndCause::signalled;
    outcome.signal = WTERMSIG(status);
  } else {
    outcome.exit_code = WEXITSTATUS(status);
    outcome.status = *outcome.exit_code == 0 ? TaskStatus::completed : TaskStatus::failed;
    outcome.cause = EndCause::exited;
  }
  return outcome;
}

Outcome outcome_of_failure(EndCause cause, std::string error) {
  Outcome outcome;
  outcome.status = TaskStatus::failed;
  outcome.cause = cause;
  outcome.error = std::move(error);
  return outcome;
}

TaskTable::TaskTable(const EngineConfig& config, NotificationQueue& notifications, Clocks clocks)
    : config_(config), notifications_(notifications), clocks_(clocks), last_number_(config.first_id - 1) {}

TaskTable::Entry* TaskTable::find(Serial serial) {
  const auto it = entries_.find(serial);
  return it == entries_.end() ? nullptr : it->second.get();
}

const TaskTable::Entry* TaskTable::find(Serial serial) const {
  const auto it = entries_.find(serial);
  return it == entries_.end() ? nullptr : it->second.get();
}

TaskTable::Entry* TaskTable::find(std::string_view id) {
  const auto it = by_id_.find(std::string(id));
  return it == by_id_.end() ? nullptr : find(it->second);
}

const TaskTable::Entry* TaskTable::find(std::string_view id) const {
  const auto it = by_id_.find(std::string(id));
  return it == by_id_.end() ? nullptr : find(it->second);
}

// --- starting ---

std::optional<Rejected> TaskTable::refusal(const LaunchRequest& request, bool foreground) const {
  if (closed_) return Rejected{"the session has ended"};
  if (is_blank(request.command)) return Rejected{"command must not be blank"};
  if ((request.command + request.script).find('\0') != std::string::npos)
    return Rejected{"command must not contain NUL bytes"};
  if (request.cwd.find('\0') != std::string::npos) return Rejected{"cwd must not contain NUL bytes"};
  if (foreground) return std::nullopt;
  if (running_ >= config_.max_concurrent_background) {
    return Rejected{"max concurrent background tasks (" + std::to_string(config_.max_concurrent_background) +
                    ") reached; wait for existing tasks to finish or stop them"};
  }
  if (config_.max_survivor_tasks > 0 && survivors_.size() >= static_cast<std::size_t>(config_.max_survivor_tasks)) {
    std::string reason = std::to_string(survivors_.size()) + " ended tasks still have processes running; stop some: ";
    std::size_t named = 0;
    for (const std::uint64_t number : survivors_) {
      if (named > 0) reason += ", ";
      if (named++ == kMaxNamedSurvivors) {
        reason += "...";
        break;
      }
      reason += "bg-" + std::to_string(number);
    }
    return Rejected{std::move(reason)};
  }
  return std::nullopt;
}

void TaskTable::give_id(Entry& entry) {
  entry.number = ++last_number_;
  entry.record.id = "bg-" + std::to_string(entry.number);
  by_id_[entry.record.id] = entry.serial;
  by_number_[entry.number] = entry.serial;
}

std::variant<TaskTable::Opened, Rejected> TaskTable::open(const LaunchRequest& request, bool foreground,
                                                          const MakeOutput& make_output) {
  auto entry = std::make_unique<Entry>();
  entry->token = random_token();
  entry->foreground = foreground;
  TaskRecord& record = entry->record;
  record.owner = request.owner;
  record.command = request.command;
  record.description = request.description;
  record.cwd = request.cwd;

  const MutexLock lock(mutex_);
  if (auto rejected = refusal(request, foreground)) return *std::move(rejected);
  record.started_at_ms = clocks_.wall();
  entry->started_ms = clocks_.monotonic();
  entry->serial = ++last_serial_;
  if (foreground) {
    record.id = "fg-" + std::to_string(++last_foreground_);
    by_id_[record.id] = entry->serial;
  } else {
    give_id(*entry);
    ++running_;
  }
  entry->output = make_output(record.id);
  live_.insert(entry->serial);
  Opened opened{entry->serial, snapshot(*entry), entry->output};
  entries_[entry->serial] = std::move(entry);
  return opened;
}

bool TaskTable::begin_start(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry->phase == TaskPhase::ended) {
    entry->tree = TreeState::gone;
    entry->stopping = false;
    changed(*entry);
    return false;
  }
  entry->tree = TreeState::alive;
  entry->output_open = true;
  return true;
}

bool TaskTable::end_launch(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr) return false;
  entry->launching = false;
  return entry->phase == TaskPhase::ended && !entry->announced;
}

// --- events ---

void TaskTable::decide(Entry& entry, const Outcome& outcome) {
  entry.outcome = outcome;
  entry.ended_ms = clocks_.monotonic();
  entry.record.finished_at_ms = clocks_.wall();
}

bool TaskTable::publish(Entry& entry, std::vector<ProcessInfo> survivors) {
  TaskRecord& record = entry.record;
  record.status = entry.outcome.status;
  record.cause = entry.outcome.cause;
  record.exit_code = entry.outcome.exit_code;
  record.signal = entry.outcome.signal;
  record.error = entry.outcome.error;
  record.processes = std::move(survivors);
  entry.phase = TaskPhase::ended;
  count_survivor(entry);
  changed(entry);
  if (!entry.has_id() || entry.adopted_at_end) return false;
  --running_;
  notifications_.append({record.id, record.status, ending_text(record), clocks_.wall()});
  return true;
}

bool TaskTable::begin_stop(Entry& entry) {
  if (entry.stopping || entry.tree == TreeState::gone) return false;
  entry.stopping = true;
  entry.stop_moved = false;
  entry.stop_live = 0;
  entry.left.clear();
  count_survivor(entry);
  return true;
}

// Those that are being ended right now do not count: they will be gone in a moment. Nor does a tree that was empty when
// it was looked at, though its keeper has not said so yet.
void TaskTable::count_survivor(const Entry& entry) {
  if (entry.number == 0) return;
  if (entry.phase == TaskPhase::ended && entry.tree == TreeState::alive && !entry.stopping &&
      !entry.record.processes.empty()) {
    survivors_.insert(entry.number);
  } else {
    survivors_.erase(entry.number);
  }
}

void TaskTable::retire(const Entry& entry) {
  if (entry.announcement_done && entry.tree != TreeState::alive && !entry.output_open) live_.erase(entry.serial);
}

bool TaskTable::step(Entry& entry, TaskEvent event, const Outcome& outcome, std::vector<ProcessInfo> survivors,
                     TaskAction& action) {
  const TaskStep next = step_of(entry.phase, event);
  action = next.action;
  switch (next.action) {
    case TaskAction::none:
      return false;
    case TaskAction::decide:
      entry.phase = next.next;
      decide(entry, outcome);
      if (event == TaskEvent::timed_out) begin_stop(entry);
      return false;
    case TaskAction::publish:
      return publish(entry, std::move(survivors));
    case TaskAction::decide_publish: {
      decide(entry, outcome);
      const bool stop = event == TaskEvent::cancel || event == TaskEvent::session_ended;
      if (stop && begin_stop(entry)) entry.stop_moved = true;
      return publish(entry, {});
    }
    case TaskAction::end_survivors:
      begin_stop(entry);
      return false;
  }
  return false;
}

TaskTable::Applied TaskTable::apply(Serial serial, TaskEvent event, const Outcome& outcome,
                                    std::vector<ProcessInfo> survivors) {
  Applied applied;
  bool notified = false;
  {
    const MutexLock lock(mutex_);
    Entry* const entry = find(serial);
    if (entry == nullptr) return applied;
    notified = step(*entry, event, outcome, std::move(survivors), applied.action);
    applied.stop_wanted = entry->stopping;
  }
  if (notified) notifications_.announce();
  return applied;
}

void TaskTable::keeper_started(Serial serial, pid_t keeper) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = find(serial)) entry->keeper = keeper;
}

bool TaskTable::stop_wanted(Serial serial) const {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(serial);
  return entry != nullptr && entry->stopping && entry->phase == TaskPhase::ended;
}

void TaskTable::stop_done(Serial serial, int live, std::vector<LeftProcess> left) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr || !entry->stopping) return;
  entry->stop_live = live;
  entry->left = std::move(left);
  entry->record.processes.clear();
  for (const LeftProcess& one : entry->left) entry->record.processes.push_back(one.process);
  // Without anything left the stop is over when the tree is known to be gone.
  if (!entry->left.empty()) entry->stopping = false;
  count_survivor(*entry);
  changed(*entry);
}

TaskSnapshot TaskTable::tree_gone(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr || entry->tree == TreeState::gone) return nullptr;
  entry->tree = TreeState::gone;
  entry->keeper = 0;
  entry->stopping = false;
  entry->left.clear();
  entry->record.processes.clear();
  count_survivor(*entry);
  retire(*entry);
  changed(*entry);
  // An end that is still to be announced says it by itself.
  return entry->announced ? snapshot(*entry) : nullptr;
}

void TaskTable::output_ended(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr) return;
  entry->output_open = false;
  retire(*entry);
  changed(*entry);
}

void TaskTable::add_usage(Serial serial, double cpu_seconds, std::uint64_t rss_bytes) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr) return;
  entry->record.cpu_seconds = std::max(entry->record.cpu_seconds, cpu_seconds);
  entry->record.peak_rss_bytes = std::max(entry->record.peak_rss_bytes, rss_bytes);
}

TaskSnapshot TaskTable::set_survivors(Serial serial, std::vector<ProcessInfo> processes) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr || entry->phase != TaskPhase::ended || entry->tree != TreeState::alive) return nullptr;
  entry->record.processes = std::move(processes);
  count_survivor(*entry);
  // An end that is still to be announced says it by itself.
  return entry->announced ? snapshot(*entry) : nullptr;
}

std::optional<TaskTable::Announcement> TaskTable::take_announcement(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr || entry->phase != TaskPhase::ended || entry->launching || entry->announced) return std::nullopt;
  if (!entry->has_id()) {  // nobody is to hear of it
    entry->announcement_done = true;
    retire(*entry);
    return std::nullopt;
  }
  entry->announced = true;
  return Announcement{snapshot(*entry), entry->adopted_at_end};
}

void TaskTable::announced(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr) return;
  entry->announcement_done = true;
  retire(*entry);
  changed(*entry);
}

// --- foreground commands ---

void TaskTable::skip_foreground(std::uint64_t number) {
  const MutexLock lock(mutex_);
  last_foreground_ = std::max(last_foreground_, number);
}

std::optional<TaskTable::Adoption> TaskTable::adopt(std::string_view foreground_id) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(foreground_id);
  if (entry == nullptr || !entry->foreground) return std::nullopt;
  Adoption adoption{entry->record.id, entry->serial, nullptr, entry->output};
  if (entry->adopted) return adoption;
  entry->adopted = true;
  give_id(*entry);
  if (entry->phase != TaskPhase::ended) ++running_;
  count_survivor(*entry);
  entry->launching = true;
  entry->announced = entry->announcement_done = false;
  live_.insert(entry->serial);
  adoption.id = entry->record.id;
  adoption.snapshot = snapshot(*entry);
  return adoption;
}

std::optional<TaskTable::Adoption> TaskTable::adopt_at_end(Serial serial) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(serial);
  if (entry == nullptr || entry->has_id() || entry->phase == TaskPhase::ended) return std::nullopt;
  entry->adopted = entry->adopted_at_end = true;
  give_id(*entry);
  return Adoption{entry->record.id, serial, nullptr, entry->output};
}

std::shared_ptr<Output> TaskTable::forget(std::string_view foreground_id) {
  std::unique_ptr<Entry> forgotten;
  const MutexLock lock(mutex_);
  Entry* const entry = find(foreground_id);
  if (entry == nullptr || entry->has_id() || entry->phase != TaskPhase::ended) return nullptr;
  std::shared_ptr<Output> output = entry->output;
  const Serial serial = entry->serial;
  by_id_.erase(std::string(foreground_id));
  live_.erase(serial);
  const auto it = entries_.find(serial);
  forgotten = std::move(it->second);
  entries_.erase(it);
  changed(*forgotten);
  return output;
}

// --- reading ---

TaskSnapshot TaskTable::snapshot(const Entry& entry) const {
  auto record = std::make_shared<TaskRecord>(entry.record);
  // What is decided shows itself with the publication only.
  if (entry.phase != TaskPhase::ended) record->finished_at_ms.reset();
  const std::int64_t until = entry.phase == TaskPhase::ended ? entry.ended_ms : clocks_.monotonic();
  record->duration_ms = std::max<std::int64_t>(0, until - entry.started_ms);
  if (entry.output) entry.output->describe(*record);
  return record;
}

TaskSnapshot TaskTable::get(std::string_view id) const {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(id);
  return entry == nullptr ? nullptr : snapshot(*entry);
}

std::vector<TaskSnapshot> TaskTable::list(std::string_view owner) const {
  std::vector<TaskSnapshot> tasks;
  const MutexLock lock(mutex_);
  for (const auto& [number, serial] : by_number_) {
    const Entry* const entry = find(serial);
    if (owner.empty() || entry->record.owner == owner) tasks.push_back(snapshot(*entry));
  }
  return tasks;
}

std::shared_ptr<Output> TaskTable::output(std::string_view id) const {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(id);
  return entry == nullptr ? nullptr : entry->output;
}

int TaskTable::running_count() const {
  const MutexLock lock(mutex_);
  return running_;
}

std::optional<TaskTable::Tree> TaskTable::tree(std::string_view id) const {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(id);
  if (entry == nullptr) return std::nullopt;
  return Tree{entry->serial, entry->keeper};
}

std::string TaskTable::token(Serial serial) const {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(serial);
  return entry == nullptr ? std::string() : entry->token;
}

}  // namespace errand
