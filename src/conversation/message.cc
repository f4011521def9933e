// SPDX-License-Identifier: Apache-2.0
#include "conversation/message.h"

#include <utility>

#include "support/iso8601.h"

namespace errand {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

void put_text(json::object& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

// The counters in the contract's order; the same list reads and writes them.
constexpr std::pair<const char*, std::int64_t TaskNotificationBlock::Usage::*> kCounters[] = {
    {"agent_count", &TaskNotificationBlock::Usage::agent_count},
    {"agents_done", &TaskNotificationBlock::Usage::agents_done},
    {"agents_error", &TaskNotificationBlock::Usage::agents_error},
    {"agents_skipped", &TaskNotificationBlock::Usage::agents_skipped},
    {"agents_empty_result", &TaskNotificationBlock::Usage::agents_empty_result},
    {"subagent_tokens", &TaskNotificationBlock::Usage::subagent_tokens},
    {"tool_uses", &TaskNotificationBlock::Usage::tool_uses},
    {"duration_ms", &TaskNotificationBlock::Usage::duration_ms},
};

constexpr std::pair<const char*, std::int64_t Usage::*> kTokens[] = {
    {"input_tokens", &Usage::input_tokens},
    {"output_tokens", &Usage::output_tokens},
    {"cache_read_tokens", &Usage::cache_read_tokens},
    {"cache_write_tokens", &Usage::cache_write_tokens},
};

// The notification's parts that are plain text and absent when empty.
constexpr std::pair<const char*, std::string TaskNotificationBlock::*> kOptionalTexts[] = {
    {"still_running", &TaskNotificationBlock::still_running},
    {"tail", &TaskNotificationBlock::tail},
    {"result", &TaskNotificationBlock::result},
    {"failures", &TaskNotificationBlock::failures},
    {"diagnostics", &TaskNotificationBlock::diagnostics},
    {"recovery", &TaskNotificationBlock::recovery},
};

json::object block_to_json(const Block& block) {
  return std::visit(
      Overloaded{
          [](const TextBlock& b) { return json::object{{"type", "text"}, {"text", b.text}}; },
          [](const ThinkingBlock& b) {
            return json::object{{"type", "thinking"}, {"text", b.text}, {"signature", b.signature}};
          },
          [](const RedactedThinkingBlock& b) { return json::object{{"type", "redacted_thinking"}, {"data", b.data}}; },
          [](const ToolUseBlock& b) {
            return json::object{{"type", "tool_use"}, {"id", b.id}, {"name", b.name}, {"input", b.input}};
          },
          [](const ToolResultBlock& b) {
            json::object object{{"type", "tool_result"}, {"tool_use_id", b.tool_use_id}, {"text", b.text}};
            if (b.is_error) object["is_error"] = true;
            return object;
          },
          [](const TaskNotificationBlock& b) { return to_json(b); },
          [](const BangBlock& b) {
            return json::object{{"type", "bang"}, {"command", b.command}, {"output", b.output}, {"ending", b.ending}};
          },
          [](const ErrorBlock& b) { return json::object{{"type", "error"}, {"text", b.text}}; },
          [](const ImageBlock& b) {
            return json::object{{"type", "image"}, {"media_type", b.media_type}, {"data", b.data}};
          },
      },
      block);
}

// Takes members out of one object and remembers the first that is missing.
class Reader {
 public:
  Reader(const json::object& object, std::string& error) : object_(object), error_(error) {}
  std::string text(const char* key) {
    auto value = get_string(object_, key);
    if (!value && error_.empty()) error_ = std::string("\"") + key + "\" is missing or no text";
    return value.value_or("");
  }

 private:
  const json::object& object_;
  std::string& error_;
};

std::optional<Block> block_from_json(const json::object& object, std::string& error) {
  Reader read(object, error);
  const std::string type = read.text("type");
  std::optional<Block> block;
  if (type == "text") {
    block = TextBlock{read.text("text")};
  } else if (type == "thinking") {
    std::string text = read.text("text");
    block = ThinkingBlock{std::move(text), read.text("signature")};
  } else if (type == "redacted_thinking") {
    block = RedactedThinkingBlock{read.text("data")};
  } else if (type == "tool_use") {
    const json::object* input = get_object(object, "input");
    if (!input && error.empty()) error = "\"input\" is missing or no object";
    ToolUseBlock use{read.text("id"), read.text("name"), {}};
    if (input) use.input = *input;
    block = std::move(use);
  } else if (type == "tool_result") {
    block = ToolResultBlock{read.text("tool_use_id"), read.text("text"), get_bool(object, "is_error").value_or(false)};
  } else if (type == "task_notification") {
    if (auto notification = notification_from_json(object, error)) block = std::move(*notification);
  } else if (type == "bang") {
    block = BangBlock{read.text("command"), read.text("output"), read.text("ending")};
  } else if (type == "error") {
    block = ErrorBlock{read.text("text")};
  } else if (type == "image") {
    block = ImageBlock{read.text("media_type"), read.text("data")};
  } else if (error.empty()) {
    error = "unknown block type \"" + type + "\"";
  }
  if (!error.empty()) return std::nullopt;
  return block;
}

}  // namespace

json::object to_json(const TaskNotificationBlock& notification) {
  json::object object{{"type", "task_notification"},
                      {"notice_id", notification.notice_id},
                      {"task_id", notification.task_id},
                      {"task_type", notification.task_type},
                      {"output_file", notification.output_file},
                      {"status", notification.status},
                      {"summary", notification.summary}};
  if (notification.exit_code) object["exit_code"] = *notification.exit_code;
  if (notification.signal) object["signal"] = *notification.signal;
  if (notification.duration_ms) object["duration_ms"] = *notification.duration_ms;
  for (const auto& [key, member] : kOptionalTexts) put_text(object, key, notification.*member);
  if (notification.usage) {
    json::object usage;
    for (const auto& [key, member] : kCounters) usage[key] = (*notification.usage).*member;
    object["usage"] = std::move(usage);
  }
  return object;
}

std::optional<TaskNotificationBlock> notification_from_json(const json::object& object, std::string& error) {
  error.clear();
  Reader read(object, error);
  TaskNotificationBlock block;
  block.notice_id = read.text("notice_id");
  block.task_id = read.text("task_id");
  block.task_type = read.text("task_type");
  block.output_file = read.text("output_file");
  block.status = read.text("status");
  block.summary = read.text("summary");
  if (!error.empty()) return std::nullopt;
  if (const auto value = get_int(object, "exit_code")) block.exit_code = static_cast<int>(*value);
  if (const auto value = get_int(object, "signal")) block.signal = static_cast<int>(*value);
  block.duration_ms = get_int(object, "duration_ms");
  for (const auto& [key, member] : kOptionalTexts) block.*member = get_string(object, key).value_or("");
  if (const json::object* usage = get_object(object, "usage")) {
    block.usage = TaskNotificationBlock::Usage{};
    for (const auto& [key, member] : kCounters) (*block.usage).*member = get_int(*usage, key).value_or(0);
  }
  return block;
}

json::object to_json(const Message& message) {
  json::object object{{"id", message.id},
                      {"role", message.role == Role::user ? "user" : "assistant"},
                      {"timestamp", to_iso8601(message.timestamp_ms)}};
  if (message.is_meta) object["isMeta"] = true;
  json::array blocks;
  for (const Block& block : message.blocks) blocks.emplace_back(block_to_json(block));
  object["blocks"] = std::move(blocks);
  if (message.usage) {
    json::object usage;
    for (const auto& [key, member] : kTokens) usage[key] = (*message.usage).*member;
    object["usage"] = std::move(usage);
  }
  return object;
}

std::optional<Message> message_from_json(const json::object& object, std::string& error) {
  error.clear();
  Reader read(object, error);
  Message message;
  message.id = read.text("id");
  const std::string role = read.text("role");
  const std::string timestamp = read.text("timestamp");
  if (!error.empty()) return std::nullopt;
  if (role != "user" && role != "assistant") {
    error = "\"role\" is neither user nor assistant";
    return std::nullopt;
  }
  message.role = role == "user" ? Role::user : Role::assistant;
  const auto time = from_iso8601(timestamp);
  if (!time) {
    error = "\"timestamp\" is no time";
    return std::nullopt;
  }
  message.timestamp_ms = *time;
  message.is_meta = get_bool(object, "isMeta").value_or(false);
  const json::array* blocks = get_array(object, "blocks");
  if (!blocks) {
    error = "\"blocks\" is missing or no array";
    return std::nullopt;
  }
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const json::object* entry = (*blocks)[i].if_object();
    std::string why;
    std::optional<Block> block;
    if (entry) {
      block = block_from_json(*entry, why);
    } else {
      why = "no object";
    }
    if (!block) {
      error = "block " + std::to_string(i + 1) + ": " + why;
      return std::nullopt;
    }
    message.blocks.push_back(std::move(*block));
  }
  if (const json::object* usage = get_object(object, "usage")) {
    message.usage.emplace();
    for (const auto& [key, member] : kTokens) (*message.usage).*member = get_int(*usage, key).value_or(0);
  }
  return message;
}

}  // namespace errand
