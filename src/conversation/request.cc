// SPDX-License-Identifier: Apache-2.0
#include "conversation/request.h"

#include <iterator>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "conversation/limits.h"
#include "errand/task.h"

namespace errand {
namespace {

bool blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

enum class Lines { one, many };

// What a task prints can neither forge a tag nor close the block: markup is escaped, and control characters (C0, DEL
// and C1, which are two bytes in UTF-8) are removed. Only newline and tab stay, a newline only where lines may be many.
std::string escaped(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '\n') {
      out += lines == Lines::many ? '\n' : ' ';
    } else if (c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      ++i;
    } else if ((c >= 0x20 && c != 0x7f) || c == '\t') {
      out += text[i];
    }
  }
  return out;
}

void put_line(std::string& out, std::string_view tag, std::string_view value) {
  out.append("<").append(tag).append(">").append(escaped(value, Lines::one)).append("</").append(tag).append(">\n");
}

void put_lines(std::string& out, std::string_view tag, std::string_view value) {
  if (value.empty()) return;
  out.append("<")
      .append(tag)
      .append(">\n")
      .append(escaped(value, Lines::many))
      .append("\n</")
      .append(tag)
      .append(">\n");
}

std::string usage_line(const TaskNotificationBlock::Usage& usage) {
  std::string out = "<usage>";
  const auto put = [&](std::string_view tag, std::int64_t value) {
    out.append("<").append(tag).append(">").append(std::to_string(value)).append("</").append(tag).append(">");
  };
  put("agent_count", usage.agent_count);
  put("agents_done", usage.agents_done);
  put("agents_error", usage.agents_error);
  put("agents_skipped", usage.agents_skipped);
  put("agents_empty_result", usage.agents_empty_result);
  put("subagent_tokens", usage.subagent_tokens);
  put("tool_uses", usage.tool_uses);
  put("duration_ms", usage.duration_ms);
  return out + "</usage>\n";
}

std::string bang_text(const BangBlock& bang) {
  std::string out = "The user ran this command in the terminal:\n$ " + bang.command + "\n";
  if (!bang.output.empty()) {
    out += bang.output;
    if (out.back() != '\n') out += '\n';
  }
  return out + "(" + bang.ending + ")";
}

void add_parts(const Block& block, std::vector<RequestPart>& parts) {
  if (const auto* text = std::get_if<TextBlock>(&block)) {
    if (!blank(text->text)) parts.emplace_back(*text);
  } else if (const auto* thinking = std::get_if<ThinkingBlock>(&block)) {
    parts.emplace_back(*thinking);
  } else if (const auto* redacted = std::get_if<RedactedThinkingBlock>(&block)) {
    parts.emplace_back(*redacted);
  } else if (const auto* use = std::get_if<ToolUseBlock>(&block)) {
    parts.emplace_back(*use);
  } else if (const auto* result = std::get_if<ToolResultBlock>(&block)) {
    parts.emplace_back(*result);
  } else if (const auto* notification = std::get_if<TaskNotificationBlock>(&block)) {
    parts.emplace_back(TextBlock{notification_text(*notification)});
  } else if (const auto* bang = std::get_if<BangBlock>(&block)) {
    parts.emplace_back(TextBlock{bang_text(*bang)});
  } else if (const auto* image = std::get_if<ImageBlock>(&block)) {
    parts.emplace_back(*image);
  }
  // An ErrorBlock is for people.
}

bool is_thinking(const RequestPart& part) {
  return std::holds_alternative<ThinkingBlock>(part) || std::holds_alternative<RedactedThinkingBlock>(part);
}

void put_results_first(std::vector<RequestPart>& parts) {
  std::vector<RequestPart> ordered;
  for (const bool results : {true, false}) {
    for (RequestPart& part : parts) {
      if (std::holds_alternative<ToolResultBlock>(part) == results) ordered.push_back(std::move(part));
    }
  }
  parts = std::move(ordered);
}

}  // namespace

std::string notification_text(const TaskNotificationBlock& notification) {
  std::string out = "A background agent completed a task:\n<task-notification>\n";
  put_line(out, "task-id", notification.task_id);
  put_line(out, "task-type", notification.task_type);
  put_line(out, "output-file", notification.output_file);
  put_line(out, "status", notification.status);
  put_line(out, "summary", notification.summary);
  if (notification.exit_code) put_line(out, "exit-code", std::to_string(*notification.exit_code));
  if (notification.signal) put_line(out, "signal", signal_text(*notification.signal));
  if (notification.duration_ms) put_line(out, "duration-ms", std::to_string(*notification.duration_ms));
  if (!notification.still_running.empty()) put_line(out, "still-running", notification.still_running);
  put_lines(out, "tail", notice_tail(notification.tail));
  put_lines(out, "result", notice_result(notification.result));
  put_lines(out, "failures", notification.failures);
  put_lines(out, "diagnostics", notification.diagnostics);
  put_lines(out, "recovery", notification.recovery);
  if (notification.usage) out += usage_line(*notification.usage);
  return out + "</task-notification>";
}

std::vector<RequestTurn> request_turns(const std::vector<Message>& messages) {
  std::vector<RequestTurn> turns;
  for (const Message& message : messages) {
    std::vector<RequestPart> parts;
    for (const Block& block : message.blocks) add_parts(block, parts);
    // An answer that was cut while the model thought ends with a thinking part; the APIs refuse such a history.
    if (message.role == Role::assistant) {
      while (!parts.empty() && is_thinking(parts.back())) parts.pop_back();
    }
    if (parts.empty()) continue;
    if (turns.empty() || turns.back().role != message.role) turns.push_back({message.role, {}});
    auto& into = turns.back().parts;
    std::move(parts.begin(), parts.end(), std::back_inserter(into));
  }
  for (RequestTurn& turn : turns) {
    if (turn.role == Role::user) put_results_first(turn.parts);
  }
  return turns;
}

}  // namespace errand
