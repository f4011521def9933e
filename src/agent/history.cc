// SPDX-License-Identifier: Apache-2.0
#include "agent/history.h"

#include <utility>

#include "base/clock.h"
#include "base/utf8.h"
#include "support/uuid.h"

namespace errand {
namespace {

// Inside the product text is valid; a model or a tool that broke the rule must not break the file.
void clean(std::string& text) {
  if (!is_valid_utf8(text)) text = clean_utf8(text);
}

Message make_message(Role role, std::vector<Block> blocks) {
  Message message;
  message.id = new_message_id();
  message.role = role;
  message.blocks = std::move(blocks);
  message.timestamp_ms = wall_ms();
  return message;
}

}  // namespace

std::string new_message_id() { return "msg-" + new_uuid(); }

void History::add(Message message) {
  for (Block& block : message.blocks) {
    if (auto* text = std::get_if<TextBlock>(&block)) clean(text->text);
    if (auto* thinking = std::get_if<ThinkingBlock>(&block)) clean(thinking->text);
    if (auto* result = std::get_if<ToolResultBlock>(&block)) clean(result->text);
    if (auto* bang = std::get_if<BangBlock>(&block)) {
      clean(bang->command);
      clean(bang->output);
    }
  }
  journal_.message(message);
  messages_.push_back(std::move(message));
}

void History::add_user(std::vector<Block> blocks) {
  add(make_message(Role::user, std::move(blocks)));
  events_.push(event::UserMessageAdded{messages_.back()});
}

void History::add_notification(TaskNotificationBlock notice) {
  Message message = make_message(Role::user, {notice});
  message.is_meta = true;
  add(std::move(message));
  journal_.delivered(notice, messages_.back().id);
  events_.push(event::NotificationMessageAdded{notice.task_id, notice.task_type, notice.status, notice.summary,
                                               messages_.back()});
}

void History::add_tool_results(std::vector<ToolResultBlock> results) {
  std::vector<Block> blocks(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  add(make_message(Role::user, std::move(blocks)));
}

const Message& History::add_assistant(Message message) {
  for (Block& block : message.blocks) {
    if (auto* use = std::get_if<ToolUseBlock>(&block)) {
      if (use->id.empty() || tool_use_ids_.count(use->id) != 0) use->id = "toolu_" + random_hex(12);
      tool_use_ids_.insert(use->id);
    }
  }
  message.role = Role::assistant;
  message.timestamp_ms = wall_ms();
  add(std::move(message));
  return messages_.back();
}

}  // namespace errand
