// SPDX-License-Identifier: Apache-2.0
// From the store's messages to what a request holds: the one place where a notification becomes XML.
//
// The store may hold user-role messages in a row; here they become one turn of several parts, tool results first,
// since the APIs differ in what they accept. Error blocks, empty texts and messages without a part are left out.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "conversation/message.h"

namespace errand {

using RequestPart =
    std::variant<TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock, ToolResultBlock, ImageBlock>;

struct RequestTurn {
  Role role = Role::user;
  std::vector<RequestPart> parts;
};

std::vector<RequestTurn> request_turns(const std::vector<Message>& messages);

// "A background agent completed a task:\n<task-notification>...": every value escaped, control characters removed.
std::string notification_text(const TaskNotificationBlock& notification);

}  // namespace errand
