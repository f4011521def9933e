// SPDX-License-Identifier: Apache-2.0
// What has been said in one conversation, in order. A message enters when its record was written: what a request holds
// is on disk. Used by the conversation's thread only.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/events.h"
#include "agent/journal.h"
#include "conversation/message.h"
#include "conversation/request.h"

namespace errand {

std::string new_message_id();

class History {
 public:
  History(Journal& journal, event::Queue& events) : journal_(journal), events_(events) {}

  void add_user(std::vector<Block> blocks);
  // One message of its own, meta, with its delivery recorded.
  void add_notification(TaskNotificationBlock notice);
  void add_tool_results(std::vector<ToolResultBlock> results);
  // The ids of tool uses are made unique first: a history with two of one name is refused by the APIs for ever.
  // Returns the message as it was recorded.
  const Message& add_assistant(Message message);

  std::vector<RequestTurn> turns() const { return request_turns(messages_); }
  const std::vector<Message>& messages() const { return messages_; }

 private:
  void add(Message message);

  Journal& journal_;
  event::Queue& events_;
  std::vector<Message> messages_;
  std::set<std::string> tool_use_ids_;
};

}  // namespace errand
