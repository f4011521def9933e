// SPDX-License-Identifier: Apache-2.0
// The session file with its errors told to the user: an append that fails is a notice, never the end of anything. The
// same error in a row is told once. Safe from any thread.
#pragma once

#include <optional>
#include <string>

#include "agent/events.h"
#include "base/thread_annotations.h"
#include "conversation/session_file.h"

namespace errand {

class Journal {
 public:
  Journal(const std::string& folder, SessionFile::Header header, event::Queue& events)
      : file_(folder, std::move(header)), events_(events) {}

  const SessionFile& file() const { return file_; }

  void open() { report(file_.open()); }
  void message(const Message& message) { report(file_.append(message)); }
  void task_start(const TaskRecord& task, bool by_hand) { report(file_.append_task_start(task, by_hand)); }
  void task_end(const TaskRecord& task, const std::optional<TaskNotificationBlock>& notice) {
    report(file_.append_task_end(task, notice));
  }
  void delivered(const TaskNotificationBlock& notice, const std::string& message_id) {
    report(file_.append_delivered(notice, message_id));
  }
  void read(const TaskNotificationBlock& notice) { report(file_.append_read(notice)); }
  void aborted() { report(file_.append_aborted()); }

 private:
  void report(std::string error) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!error.empty() && error != last_error_) events_.push(event::NoticeAdded{"session file: " + error, true});
    last_error_ = std::move(error);
  }

  SessionFile file_;
  event::Queue& events_;
  Mutex mutex_;
  std::string last_error_ GUARDED_BY(mutex_);
};

}  // namespace errand
