// SPDX-License-Identifier: Apache-2.0
// What a session tells its host: deltas, as values, through one queue. The host owns its loop and polls the queue's
// descriptor beside its own; nothing of the session's state is shared.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/fd.h"
#include "base/thread_annotations.h"
#include "conversation/message.h"
#include "errand/engine.h"
#include "permission/permission.h"

namespace errand::event {

// A message of the user (typed, or a `!cmd` with its output) entered the store.
struct UserMessageAdded {
  Message message;
};
// An assistant message began; it is empty as yet.
struct AssistantMessageAdded {
  std::string message_id;
};
struct AssistantContentUpdated {
  std::string message_id;
  std::string text_delta;
  bool thinking = false;
};
// What was streamed of this message is void: the request is tried again.
struct AssistantContentReset {
  std::string message_id;
};
// The assistant message is complete, as it was recorded. One without blocks came to nothing and was not recorded.
struct AssistantMessageEnded {
  Message message;
};
struct ToolBlockUpdated {
  enum class Stage { start, running, end };
  std::string message_id;
  ToolUseBlock use;
  Stage stage = Stage::start;
  std::optional<ToolResultBlock> result;  // at the end
};
struct NotificationMessageAdded {
  std::string task_id, task_type, status, summary;
  Message message;
};
// For the user only: errors, retries, refusals.
struct NoticeAdded {
  std::string text;
  bool is_error = false;
};
struct TasksChange {};
struct LoadingChange {
  bool loading = false;
};
// Texts that wait for the end of the turn.
struct QueueChange {
  std::vector<std::string> queued;
};
struct SessionIdChange {
  std::string session_id;
};
// The user aborted; queued user messages come back to be edited, a `!cmd` with its `!`. Sent at once; when the turn has
// unwound, LoadingChange follows.
struct TurnAborted {
  std::vector<std::string> returned;
};
// No turn runs and nothing that could start one is queued.
struct Idle {};
// Somebody has to decide; answer with Session::answer(ask_id, ...). One at a time.
struct PermissionAsked {
  std::uint64_t ask_id = 0;
  PermissionQuery query;
  Decision decision;
  std::string always_pattern;
};
// The question is void (abort); no answer is expected any more.
struct PermissionWithdrawn {
  std::uint64_t ask_id = 0;
};
// The user's notification queue has something, engine.md 7.
struct UserNotificationsPending {};
// A `!cmd` prints; the final text is in the UserMessageAdded that follows.
struct BangOutput {
  std::string text;
};

using HostEvent = std::variant<UserMessageAdded, AssistantMessageAdded, AssistantContentUpdated, AssistantContentReset,
                               AssistantMessageEnded, ToolBlockUpdated, NotificationMessageAdded, NoticeAdded,
                               TasksChange, LoadingChange, QueueChange, SessionIdChange, TurnAborted, Idle,
                               PermissionAsked, PermissionWithdrawn, UserNotificationsPending, BangOutput>;

// Many writers, one reader. The descriptor is readable while anything is queued.
class Queue {
 public:
  Queue();
  void push(HostEvent event) EXCLUDES(mutex_);
  std::vector<HostEvent> drain() EXCLUDES(mutex_);
  int descriptor() const;

 private:
  Mutex mutex_;
  std::deque<HostEvent> events_ GUARDED_BY(mutex_);
  UniqueFd ready_;
};

}  // namespace errand::event
