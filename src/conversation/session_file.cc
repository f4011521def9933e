// SPDX-License-Identifier: Apache-2.0
#include "conversation/session_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/utf8.h"
#include "support/iso8601.h"
#include "support/paths.h"

namespace errand {
namespace {

std::string failure(const char* what, const std::string& path) {
  const int number = errno;
  return std::string("cannot ") + what + " \"" + clean_utf8(path) + "\": " + std::strerror(number);
}

std::string_view cause_name(EndCause cause) {
  switch (cause) {
    case EndCause::none:
      return "none";
    case EndCause::exited:
      return "exited";
    case EndCause::signalled:
      return "signalled";
    case EndCause::could_not_start:
      return "could_not_start";
    case EndCause::timed_out:
      return "timed_out";
    case EndCause::keeper_lost:
      return "keeper_lost";
    case EndCause::cancelled:
      return "cancelled";
    case EndCause::session_ended:
      return "session_ended";
  }
  return "none";
}

json::object record(const char* type) { return json::object{{"type", type}, {"timestamp", to_iso8601(wall_ms())}}; }

}  // namespace

SessionFile::SessionFile(const std::string& folder, Header header)
    : folder_(folder),
      header_(std::move(header)),
      session_folder_(folder + "/" + header_.session_id),
      path_(session_folder_ + ".jsonl") {
  json::object first{{"type", "session"},
                     {"version", kSessionFormatVersion},
                     {"id", header_.session_id},
                     {"cwd", clean_utf8(header_.cwd)},
                     {"created_at", to_iso8601(header_.created_at_ms)}};
  if (header_.model.empty()) {
    first["model"] = nullptr;
  } else {
    first["model"] = clean_utf8(header_.model);
  }
  unwritten_.push_back(to_text(first) + "\n");
}

std::string SessionFile::open() {
  const MutexLock lock(mutex_);
  if (std::string error = open_locked(); !error.empty()) return error;
  return flush_locked();
}

std::string SessionFile::open_locked() {
  if (fd_) return {};
  if (std::string error = ensure_private_folder(session_folder_); !error.empty()) return error;
  if (std::string error = lock_.acquire(session_folder_ + "/lock"); !error.empty()) return error;
  UniqueFd fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return failure("open", path_);
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return failure("look at", path_);
  size_ = info.st_size;
  fd_ = std::move(fd);
  // The file's name must survive a crash of the machine as its records do.
  if (const UniqueFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); folder) ::fsync(folder.get());
  return {};
}

std::string SessionFile::write_locked(const std::string& line) {
  const std::string text = torn_ ? "\n" + line : line;
  ssize_t written;
  do {
    written = ::write(fd_.get(), text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) {
    size_ += written;
    torn_ = false;
    return {};
  }
  // A regular file takes less than all only when there is no room for the rest.
  if (written >= 0) errno = ENOSPC;
  std::string error = failure("write", path_);
  if (written > 0 && ::ftruncate(fd_.get(), size_) != 0) {
    size_ += written;
    torn_ = true;
  }
  return error;
}

std::string SessionFile::flush_locked() {
  while (!unwritten_.empty()) {
    if (std::string error = write_locked(unwritten_.front()); !error.empty()) return error;
    unwritten_.pop_front();
  }
  return {};
}

std::string SessionFile::append_record(json::object object, Sync sync) {
  const std::string line = to_text(std::move(object)) + "\n";
  int fd = -1;
  {
    const MutexLock lock(mutex_);
    unwritten_.push_back(line);
    if (std::string error = open_locked(); !error.empty()) return error;
    if (std::string error = flush_locked(); !error.empty()) return error;
    fd = fd_.get();
  }
  // Outside the lock: a slow disk must not hold up a thread that only writes. The descriptor lives as long as this.
  if (sync == Sync::yes && ::fdatasync(fd) != 0) return failure("sync", path_);
  return {};
}

std::string SessionFile::append(const Message& message) {
  json::object object{{"type", "message"}};
  for (auto& member : to_json(message)) object[member.key()] = std::move(member.value());
  if (message.is_meta) {
    const MutexLock lock(mutex_);
    if (!fd_) {
      unwritten_.push_back(to_text(object) + "\n");
      return {};
    }
  }
  return append_record(std::move(object), Sync::yes);
}

std::string SessionFile::append_task_start(const TaskRecord& task, bool by_hand) {
  json::object object = record("task_start");
  object["task_id"] = task.id;
  object["kind"] = to_string(task.kind);
  object["owner"] = clean_utf8(task.owner);
  object["command"] = clean_utf8(task.command);
  if (!task.description.empty()) object["description"] = clean_utf8(task.description);
  object["cwd"] = clean_utf8(task.cwd);
  object["output_file"] = clean_utf8(task.output_file);
  object["started_at"] = to_iso8601(task.started_at_ms);
  if (by_hand) object["by_hand"] = true;
  return append_record(std::move(object), Sync::no);
}

std::string SessionFile::append_task_end(const TaskRecord& task, const std::optional<TaskNotificationBlock>& notice) {
  json::object object = record("task_end");
  object["task_id"] = task.id;
  object["status"] = to_string(task.status);
  object["cause"] = cause_name(task.cause);
  if (task.exit_code) object["exit_code"] = *task.exit_code;
  if (task.signal) object["signal"] = *task.signal;
  if (task.error) object["error"] = clean_utf8(*task.error);
  if (task.finished_at_ms) object["finished_at"] = to_iso8601(*task.finished_at_ms);
  object["duration_ms"] = task.duration_ms;
  object["output_bytes"] = task.output_bytes;
  if (notice) object["notice"] = to_json(*notice);
  return append_record(std::move(object), Sync::yes);
}

std::string SessionFile::append_delivered(const TaskNotificationBlock& notice, const std::string& message_id) {
  json::object object = record("notification");
  object["notice_id"] = notice.notice_id;
  object["task_id"] = notice.task_id;
  object["outcome"] = "delivered";
  object["message_id"] = message_id;
  return append_record(std::move(object), Sync::no);
}

std::string SessionFile::append_read(const TaskNotificationBlock& notice) {
  json::object object = record("notification");
  object["notice_id"] = notice.notice_id;
  object["task_id"] = notice.task_id;
  object["outcome"] = "read";
  return append_record(std::move(object), Sync::no);
}

std::string SessionFile::append_aborted() { return append_record(record("aborted"), Sync::no); }

}  // namespace errand
