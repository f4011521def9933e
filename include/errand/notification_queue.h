// SPDX-License-Identifier: Apache-2.0
// The user's notices: every end of a task pushes exactly one; whoever shows them drains the queue.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "errand/task.h"

namespace errand {

struct Notification {
  std::string task_id;
  TaskStatus status = TaskStatus::completed;
  std::string message;            // ending_text() of the task
  std::int64_t timestamp_ms = 0;  // wall clock
};

// Safe from any thread.
class NotificationQueue {
 public:
  void push(Notification notification);
  // Everything that is pending, in the order of arrival; the queue is empty afterwards.
  std::vector<Notification> drain();
  bool has_pending() const;
  // Called after each push, on the pushing thread and outside the lock; it must not block. One listener; empty = none.
  void set_listener(std::function<void()> listener);

 private:
  // push() in two steps, for the task table: it appends under its own lock, so that the state and its notification
  // are seen together, and announces outside of it, so that the listener may ask the engine.
  friend class TaskTable;
  void append(Notification notification);
  void announce();

  mutable std::mutex mutex_;
  std::vector<Notification> pending_;
  std::function<void()> listener_;
};

}  // namespace errand
