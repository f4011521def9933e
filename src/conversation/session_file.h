// SPDX-License-Identifier: Apache-2.0
// A session on disk: one record a line, appended when it happens; docs/session-format.md has the records.
//
// Nothing is made before the first record that counts: a message that is not meta, a `!cmd` or a task. From then on the
// session's folder is locked until this object ends.
//
// An append never fails the session. What could not be written stays here, in order, and is tried again before the next
// record, so the file has a gap at its end only. Every call may come from any thread; each answers with an empty text
// or with what failed, for the user.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/thread_annotations.h"
#include "conversation/message.h"
#include "conversation/session_lock.h"
#include "errand/task.h"

namespace errand {

inline constexpr int kSessionFormatVersion = 1;

class SessionFile {
 public:
  struct Header {
    std::string session_id;  // a UUID
    std::string cwd;
    std::string model;  // empty: none configured
    std::int64_t created_at_ms = 0;
  };
  // `folder` is the project's, under $XDG_STATE_HOME/errand/projects.
  SessionFile(const std::string& folder, Header header);

  const std::string& path() const { return path_; }                      // <folder>/<uuid>.jsonl
  const std::string& session_folder() const { return session_folder_; }  // <folder>/<uuid>

  // Makes folders (0700), lock and file (0600), once.
  std::string open() EXCLUDES(mutex_);

  std::string append(const Message& message) EXCLUDES(mutex_);
  std::string append_task_start(const TaskRecord& task, bool by_hand);
  // The end and the pending notice in one record: a crash loses both or neither.
  std::string append_task_end(const TaskRecord& task, const std::optional<TaskNotificationBlock>& notice);
  std::string append_delivered(const TaskNotificationBlock& notice, const std::string& message_id);
  std::string append_read(const TaskNotificationBlock& notice);
  std::string append_aborted();

 private:
  enum class Sync { no, yes };
  std::string append_record(json::object record, Sync sync) EXCLUDES(mutex_);
  std::string open_locked() REQUIRES(mutex_);
  std::string flush_locked() REQUIRES(mutex_);
  std::string write_locked(const std::string& line) REQUIRES(mutex_);

  const std::string folder_;
  const Header header_;
  const std::string session_folder_;
  const std::string path_;

  Mutex mutex_;
  SessionLock lock_ GUARDED_BY(mutex_);
  UniqueFd fd_ GUARDED_BY(mutex_);
  std::int64_t size_ GUARDED_BY(mutex_) = 0;  // where the next record begins
  bool torn_ GUARDED_BY(mutex_) =
      false;  // a half line could not be cut back; the next record starts on a line of its own
  std::deque<std::string> unwritten_ GUARDED_BY(mutex_);
};

}  // namespace errand
