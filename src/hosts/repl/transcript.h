// SPDX-License-Identifier: Apache-2.0
// The conversation as a person reads it: a session's events become lines.
//
//     [Agent] I start the tests in the background and look for TODOs meanwhile.
//     [Tool] background_bash(command="make test")
//     Background task started: bg-1
//
// Meta messages are never shown. What models and tasks wrote loses its control characters here.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "agent/events.h"
#include "repl/output.h"
#include "terminal/text.h"

namespace errand::repl {

// `background_bash(command="make test")`, each value cut to a readable length, everything on one line.
std::string call_text(const ToolUseBlock& use);
// What is shown of a result: for a started task its first line, else the first lines and how many there are more.
std::string result_text(const ToolUseBlock& use, const ToolResultBlock& result);

class Transcript {
 public:
  explicit Transcript(Output& output) : output_(output) {}

  void show(const event::HostEvent& event);
  // This message of the user has been shown already, when it was typed.
  void shown_already(std::string text) { shown_.push_back(std::move(text)); }
  // How a user's message is marked that is shown when its turn comes; empty: not at all.
  void set_user_mark(std::string mark) { user_mark_ = std::move(mark); }

 private:
  void show_user(const Message& message);
  void show_delta(const event::AssistantContentUpdated& update);
  void show_tool(const event::ToolBlockUpdated& update);
  void show_call(const ToolUseBlock& use);

  Output& output_;
  std::string user_mark_;
  std::deque<std::string> shown_;
  std::string streaming_;      // the message whose text is being written
  std::string pending_space_;  // newlines that are only written if text follows
  std::string filtered_;       // the message that the filter is in the middle of
  terminal::TextFilter filter_, bang_filter_;
  bool aborted_ = false;         // what still comes of the turn is of no interest
  std::set<std::string> calls_;  // ids of calls that were shown and have not ended
  std::string last_call_;        // the call that is the last line that was written
};

}  // namespace errand::repl
