// SPDX-License-Identifier: Apache-2.0
#include "agent/turn.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

namespace errand {
namespace {

bool blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

std::string seconds(std::int64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000.0);
  return text;
}

// A model's adapter answers failures as values; what escapes all the same must not end the conversation's thread.
ModelResult respond(Model& model, const ModelRequest& request, ModelObserver& observer, const std::stop_token& stop) {
  try {
    return model.respond(request, observer, stop);
  } catch (const std::exception& error) {
    return ModelFailure{stop.stop_requested(), model.name() + ": " + error.what(), {}};
  }
}

}  // namespace

// The assistant message of one request while it comes. It begins with the first thing that there is to show, so an
// empty answer leaves no message behind.
class Turn::Stream : public ModelObserver {
 public:
  explicit Stream(event::Queue& events) : events_(events), id_(new_message_id()) {}

  void on_text(std::string_view delta) override { update(delta, false); }
  void on_thinking(std::string_view delta) override { update(delta, true); }
  void on_retry(const std::string& reason, int attempt, std::int64_t delay_ms) override {
    if (begun_) events_.push(event::AssistantContentReset{id_});
    events_.push(event::NoticeAdded{
        reason + "; trying again in " + seconds(delay_ms) + " (attempt " + std::to_string(attempt) + ")", false});
  }

  // Puts the message into the history, if there is any. A message that had begun and came to nothing ends empty.
  const Message* end(std::vector<Block> blocks, std::optional<Usage> usage, History& history) {
    std::erase_if(blocks, [](const Block& block) {
      const auto* text = std::get_if<TextBlock>(&block);
      return text && blank(text->text);
    });
    if (!blocks.empty()) begin();
    if (!begun_) return nullptr;
    Message message;
    message.id = id_;
    message.role = Role::assistant;
    message.blocks = std::move(blocks);
    message.usage = usage;
    if (message.blocks.empty()) {
      events_.push(event::AssistantMessageEnded{std::move(message)});
      return nullptr;
    }
    const Message& recorded = history.add_assistant(std::move(message));
    events_.push(event::AssistantMessageEnded{recorded});
    return &recorded;
  }

 private:
  void begin() {
    if (begun_) return;
    begun_ = true;
    events_.push(event::AssistantMessageAdded{id_});
  }
  void update(std::string_view delta, bool thinking) {
    begin();
    events_.push(event::AssistantContentUpdated{id_, std::string(delta), thinking});
  }

  event::Queue& events_;
  const std::string id_;
  bool begun_ = false;
};

void Turn::notice(std::string text, bool is_error) { events_.push(event::NoticeAdded{std::move(text), is_error}); }

Turn::Ending Turn::fail(ModelFailure failure, Stream& stream) {
  // Half a tool use cannot be here, but a whole one would be without its result.
  std::erase_if(failure.partial, [](const Block& block) { return !std::holds_alternative<TextBlock>(block); });
  stream.end(std::move(failure.partial), std::nullopt, history_);
  if (failure.aborted) return Ending::aborted;
  notice(failure.message, true);
  return Ending::failed;
}

void Turn::tell_why_it_stopped(const ModelReply& reply, bool empty) {
  switch (reply.stop) {
    case StopReason::max_tokens:
      notice("The answer was cut: it reached the limit of output tokens (max_tokens). Ask the model to go on.", true);
      break;
    case StopReason::refusal:
      notice("The model refused to answer." + (reply.stop_text.empty() ? "" : " (" + reply.stop_text + ")"), true);
      break;
    case StopReason::other:
      notice("The model stopped: " + (reply.stop_text.empty() ? "it gave no reason" : reply.stop_text), true);
      break;
    case StopReason::end_turn:
    case StopReason::tool_use:
      if (empty) notice("The model answered with nothing.", false);
      break;
  }
}

Turn::Ending Turn::pass(const std::stop_token& stop) {
  for (int step = 0; step < options_.max_steps; ++step) {
    if (stop.stop_requested()) return Ending::aborted;
    ModelRequest request;
    request.system = options_.system;
    request.tools = options_.tools;
    request.turns = history_.turns();
    request.max_tokens = options_.max_tokens;
    Stream stream(events_);
    ModelResult result = respond(model_, request, stream, stop);
    if (auto* failure = std::get_if<ModelFailure>(&result)) return fail(std::move(*failure), stream);

    auto& reply = std::get<ModelReply>(result);
    if (reply.stop == StopReason::refusal) {
      std::erase_if(reply.blocks, [](const Block& block) { return std::holds_alternative<ToolUseBlock>(block); });
    }
    const Message* message = stream.end(std::move(reply.blocks), reply.usage, history_);
    std::vector<ToolUseBlock> uses;
    std::string message_id;
    if (message) {
      message_id = message->id;
      for (const Block& block : message->blocks) {
        if (const auto* use = std::get_if<ToolUseBlock>(&block)) uses.push_back(*use);
      }
    }
    if (uses.empty()) {
      tell_why_it_stopped(reply, message == nullptr);
      return stop.stop_requested() ? Ending::aborted : Ending::done;
    }
    tools_.run(message_id, uses, stop,
               [this](std::vector<ToolResultBlock> results, const std::vector<std::string>& ends_shown) {
                 history_.add_tool_results(std::move(results));
                 if (!ends_shown.empty()) ends_shown_(ends_shown);
               });
    if (stop.stop_requested()) return Ending::aborted;
  }
  notice("Stopped after " + std::to_string(options_.max_steps) +
             " steps in one turn (max_steps). Tell the model to go on if it should.",
         true);
  return Ending::out_of_steps;
}

}  // namespace errand
