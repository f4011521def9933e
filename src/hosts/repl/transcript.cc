// SPDX-License-Identifier: Apache-2.0
#include "repl/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "base/utf8.h"

namespace errand::repl {
namespace {

constexpr std::size_t max_argument = 200;
constexpr std::size_t max_result_lines = 10;
constexpr std::size_t max_result_line = 400;

// A value of a call: strings in quotes, on one line.
std::string argument_text(const json::value& value) {
  std::string text = value.is_string() ? std::string(value.get_string()) : to_text(value);
  text = cut_middle(text, max_argument);
  if (!value.is_string()) return terminal::plain_text(text);
  std::string quoted = "\"";
  for (const char c : terminal::visible_text(text)) {
    if (c == '\n') {
      quoted += "\\n";
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

std::string call_text(const ToolUseBlock& use) {
  std::string arguments;
  for (const auto& member : use.input) {
    if (!arguments.empty()) arguments += ", ";
    arguments += terminal::plain_text(std::string_view(member.key())) + "=" + argument_text(member.value());
  }
  return fmt::format("{}({})", terminal::plain_text(use.name), arguments);
}

std::string result_text(const ToolUseBlock& use, const ToolResultBlock& result) {
  std::string text = terminal::plain_text(result.text);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  // The rest of it tells a model how to go on.
  if (use.name == "background_bash" && text.starts_with("Background task started:"))
    return text.substr(0, text.find('\n'));
  std::string shown;
  std::size_t lines = 0, at = 0;
  while (at <= text.size() && lines < max_result_lines) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (lines++ > 0) shown += '\n';
    shown += cut_middle(text.substr(at, end - at), max_result_line);
    at = end + 1;
  }
  if (at < text.size()) {
    const auto more = std::count(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), '\n') + 1;
    shown += fmt::format("\n... ({} more line{})", more, more == 1 ? "" : "s");
  }
  return shown;
}

void Transcript::show(const event::HostEvent& event) {
  std::visit(
      [this](const auto& e) {
        using T = std::decay_t<decltype(e)>;
        if constexpr (std::is_same_v<T, event::UserMessageAdded>) {
          show_user(e.message);
        } else if constexpr (std::is_same_v<T, event::AssistantContentUpdated>) {
          show_delta(e);
        } else if constexpr (std::is_same_v<T, event::AssistantContentReset>) {
          if (streaming_ == e.message_id) {
            output_.line("(that answer broke off; it is tried again)");
            streaming_.clear();
          }
        } else if constexpr (std::is_same_v<T, event::AssistantMessageEnded>) {
          output_.end_line();
          streaming_.clear();
        } else if constexpr (std::is_same_v<T, event::ToolBlockUpdated>) {
          show_tool(e);
        } else if constexpr (std::is_same_v<T, event::NoticeAdded>) {
          last_call_.clear();
          output_.line((e.is_error ? "[Error] " : "") + terminal::plain_text(e.text));
        } else if constexpr (std::is_same_v<T, event::TurnAborted>) {
          output_.line("(aborted)");
          streaming_.clear();
          last_call_.clear();
          calls_.clear();
          aborted_ = true;
        } else if constexpr (std::is_same_v<T, event::LoadingChange>) {
          aborted_ = false;
        } else if constexpr (std::is_same_v<T, event::BangOutput>) {
          if (!aborted_) output_.write(bang_filter_.feed(e.text));
        }
      },
      event);
}

void Transcript::show_user(const Message& message) {
  if (message.is_meta) return;
  for (const Block& block : message.blocks) {
    if (const auto* bang = std::get_if<BangBlock>(&block)) {
      output_.end_line();
      bang_filter_ = {};
      if (!aborted_ && bang->ending != "exit code 0") output_.line("(" + terminal::plain_text(bang->ending) + ")");
    } else if (const auto* text = std::get_if<TextBlock>(&block)) {
      if (const auto found = std::find(shown_.begin(), shown_.end(), text->text); found != shown_.end()) {
        shown_.erase(found);
      } else if (!user_mark_.empty()) {
        output_.line(user_mark_ + terminal::plain_text(text->text));
      }
    }
  }
  last_call_.clear();
}

void Transcript::show_delta(const event::AssistantContentUpdated& update) {
  if (update.thinking || aborted_) return;
  if (filtered_ != update.message_id) {
    filtered_ = update.message_id;
    filter_ = {};
    pending_space_.clear();
  }
  std::string text = filter_.feed(update.text_delta);
  if (streaming_ != update.message_id) {
    // Nothing is begun for blanks alone: many models open with a newline before a tool call.
    const std::size_t begin = text.find_first_not_of(" \n\t");
    if (begin == std::string::npos) return;
    streaming_ = update.message_id;
    last_call_.clear();
    output_.end_line();
    output_.write("[Agent] ");
    text.erase(0, begin);
  }
  text.insert(0, pending_space_);
  const std::size_t end = text.find_last_not_of('\n') + 1;
  pending_space_ = text.substr(end);
  output_.write(text.substr(0, end));
}

void Transcript::show_tool(const event::ToolBlockUpdated& update) {
  using Stage = event::ToolBlockUpdated::Stage;
  // All calls of an answer are announced before the first runs; what a person wants to see is a call and its result.
  if (update.stage == Stage::start || aborted_) return;
  if (update.stage == Stage::running) return show_call(update.use);
  if (!update.result) return;
  // What was denied never ran. Several may run side by side: a result that does not follow its call says whose it is.
  if (calls_.erase(update.use.id) == 0) {
    show_call(update.use);
    calls_.erase(update.use.id);
  } else if (last_call_ != update.use.id) {
    output_.line("[Tool] " + terminal::plain_text(update.use.name) + ":");
  }
  last_call_.clear();
  const std::string text = result_text(update.use, *update.result);
  if (!text.empty()) output_.line(text);
}

void Transcript::show_call(const ToolUseBlock& use) {
  output_.line("[Tool] " + call_text(use));
  calls_.insert(use.id);
  last_call_ = use.id;
}

}  // namespace errand::repl
