// SPDX-License-Identifier: Apache-2.0
// The road from the engine to the conversation: a task's start and end become records in the session file, and its end
// a notice.
//
// A start is recorded on the launching thread, before any process exists: a crash right after it cannot lose the task.
// Ends come on the supervisor thread, which must not wait for a disk; a thread of this class's own writes them (synced)
// and only then hands the notice on, so that nothing is ever delivered that a crash could forget.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "agent/events.h"
#include "agent/journal.h"
#include "base/thread_annotations.h"
#include "conversation/message.h"
#include "errand/engine.h"

namespace errand {

class TaskRecorder : public EngineListener {
 public:
  // Takes the notice of an ended task over, with the moment (monotonic) at which the engine told of the end; nothing
  // for a task that was stopped. On the recorder's thread. It calls end_arrived(); when it returns, the task no longer
  // counts as open.
  using HandOver =
      std::function<void(std::optional<TaskNotificationBlock> notice, bool by_hand, std::int64_t ended_ms)>;

  TaskRecorder(Journal& journal, event::Queue& events, HandOver hand_over);
  ~TaskRecorder() override;

  // Until this is called ends are kept, not recorded. The engine must live until finish().
  void begin(Engine& engine);
  // Records what has come, then ends the thread. Nothing is recorded afterwards.
  void finish() EXCLUDES(mutex_);

  // While it lives, what this thread launches is the user's own.
  class ByHand {
   public:
    ByHand();
    ~ByHand();
    ByHand(const ByHand&) = delete;
    ByHand& operator=(const ByHand&) = delete;
  };

  // Ends that are on their way to be recorded and handed over.
  bool has_ends_underway() const { return ends_underway_ > 0; }
  // Within a hand-over, under the lock that shows the notice to others: an end is either underway or there, never in
  // neither place.
  void end_arrived() { --ends_underway_; }
  // Tasks whose end has not been handed over yet; a task that has just ended still counts.
  bool has_open_tasks(bool by_hand_too) const EXCLUDES(mutex_);

  void on_task_started(const TaskSnapshot& task) override;
  void on_task_ended(const TaskSnapshot& task) override;
  void on_task_changed(const TaskSnapshot& task) override;

 private:
  struct Change {
    TaskSnapshot task;
    bool started = false;       // else ended
    std::int64_t ended_ms = 0;  // monotonic
  };
  void run();
  // What is to be done next, when its time has come; nothing when the recorder is finished. A change without a task
  // is a TasksChange that was held back.
  std::optional<Change> next() EXCLUDES(mutex_);
  void post(Change change) EXCLUDES(mutex_);
  void record_end(const TaskSnapshot& task, std::int64_t ended_ms) EXCLUDES(mutex_);

  Journal& journal_;
  event::Queue& events_;
  const HandOver hand_over_;
  Engine* engine_ = nullptr;

  std::atomic<int> ends_underway_ = 0;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, bool, std::less<>> open_ GUARDED_BY(mutex_);  // id -> by hand
  std::deque<Change> changes_ GUARDED_BY(mutex_);
  bool list_changed_ GUARDED_BY(mutex_) = false;  // a TasksChange that the throttle holds back
  std::chrono::steady_clock::time_point next_list_change_ GUARDED_BY(mutex_);
  bool finished_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace errand
