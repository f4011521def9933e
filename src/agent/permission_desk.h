// SPDX-License-Identifier: Apache-2.0
// Where a conversation gets its permissions: the pipeline decides, and what it leaves open is put to the user. One
// question at a time; the conversation's thread waits for the answer or for the abort of its turn.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "agent/events.h"
#include "agent/session.h"
#include "base/thread_annotations.h"
#include "permission/permission.h"

namespace errand {

class PermissionDesk {
 public:
  struct Ruling {
    bool allowed = false;
    std::string refusal;  // for the model: why not
  };
  // `on_question` is told when a question opens and when it closes.
  PermissionDesk(PermissionPipeline& pipeline, event::Queue& events, bool can_ask,
                 std::function<void(bool open)> on_question)
      : pipeline_(pipeline), events_(events), can_ask_(can_ask), on_question_(std::move(on_question)) {}

  Ruling rule(const PermissionQuery& query, const std::stop_token& stop);
  // From any thread. An answer to a question that is no longer open is ignored.
  void answer(std::uint64_t ask_id, Answer answer, std::string reason) EXCLUDES(mutex_);

 private:
  struct Reply {
    Answer answer = Answer::no;
    std::string reason;
  };
  Ruling ask(const PermissionQuery& query, const Decision& decision, const std::stop_token& stop) EXCLUDES(mutex_);

  PermissionPipeline& pipeline_;
  event::Queue& events_;
  const bool can_ask_;
  const std::function<void(bool)> on_question_;

  Mutex mutex_;
  CondVar answered_;
  std::uint64_t open_ GUARDED_BY(mutex_) = 0;  // 0: none
  std::uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::optional<Reply> reply_ GUARDED_BY(mutex_);
};

}  // namespace errand
