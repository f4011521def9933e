// SPDX-License-Identifier: Apache-2.0
// Messages as the conversation keeps them: structs, whole, in order. Nothing here is text for a model or a screen.
//
// A task's end is one message of role user with is_meta set and exactly one TaskNotification block; it stays a struct
// until a request for a model is built. Hidden rendering depends on is_meta alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "support/json.h"

namespace errand {

enum class Role { user, assistant };

struct TextBlock {
  std::string text;
};
struct ThinkingBlock {
  std::string text;
  std::string signature;  // carried back to the model unchanged
};
struct RedactedThinkingBlock {
  std::string data;
};
struct ToolUseBlock {
  std::string id;
  std::string name;
  json::object input;
};
struct ToolResultBlock {
  std::string tool_use_id;
  std::string text;
  bool is_error = false;
};
// The end of a task as the model will be told of it. Optional members are absent from the XML when empty.
struct TaskNotificationBlock {
  std::string notice_id;  // unique in all sessions: delivered, dropped or moved exactly once
  std::string task_id;
  std::string task_type;  // "shell", "agent", "workflow"
  std::string output_file;
  std::string status;  // "completed", "failed"
  std::string summary;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<std::int64_t> duration_ms;
  std::string still_running;  // as the contract writes it: "4711 node server.js :3000; ..."
  std::string tail;
  std::string result;
  std::string failures;
  std::string diagnostics;
  std::string recovery;
  struct Usage {
    std::int64_t agent_count = 0, agents_done = 0, agents_error = 0, agents_skipped = 0, agents_empty_result = 0,
                 subagent_tokens = 0, tool_uses = 0, duration_ms = 0;
  };
  std::optional<Usage> usage;
};
// A `!cmd` of the user and what it printed; the model sees it as the user's text.
struct BangBlock {
  std::string command;
  std::string output;
  std::string ending;  // "exit code 0", "signal 9 (SIGKILL)", "aborted"; as ending_text() words it
};
// For people; never sent to a model.
struct ErrorBlock {
  std::string text;
};
struct ImageBlock {
  std::string media_type;
  std::string data;  // base64
};

using Block = std::variant<TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock, ToolResultBlock,
                           TaskNotificationBlock, BangBlock, ErrorBlock, ImageBlock>;

struct Usage {
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t cache_read_tokens = 0;
  std::int64_t cache_write_tokens = 0;
};

struct Message {
  std::string id;  // "msg-<uuid>"
  Role role = Role::user;
  std::vector<Block> blocks;
  bool is_meta = false;
  std::int64_t timestamp_ms = 0;  // wall clock; ISO 8601 UTC on disk
  std::optional<Usage> usage;
};

// The form of the session file, docs/session-format.md.
json::object to_json(const TaskNotificationBlock& notification);
std::optional<TaskNotificationBlock> notification_from_json(const json::object& object, std::string& error);
json::object to_json(const Message& message);
// Nothing and a reason when the object is no message.
std::optional<Message> message_from_json(const json::object& object, std::string& error);

}  // namespace errand
