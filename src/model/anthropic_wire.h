// SPDX-License-Identifier: Apache-2.0
// The Messages API's two formats: a request as its JSON body, and the stream's events put together to a reply. No
// network here.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/sse.h"

namespace errand {

// What max_tokens is when the caller wants the model's own default: the API demands a number, and refuses one that is
// over the model's limit.
int default_max_tokens(const std::string& model);

// System prompt, tools and the last part of the last user turn carry cache marks, so that a turn re-reads its history
// from the cache. Left out, since the API refuses them: blank texts, thinking without a signature, turns that are empty
// without these. Turns of one role in a row become one.
json::object anthropic_body(const std::string& model, const ModelRequest& request);

// Takes the events of one stream, in order.
//
// A tool_use whose block did not end, or whose answer was cut (max_tokens, refusal) before its input was whole, is
// dropped. Input that ended properly but is no JSON object becomes kInvalidJsonKey's object. Ids that are missing, odd
// or already in use are replaced, names that are missing become "unnamed": the history must stay legal.
class AnthropicStream {
 public:
  enum class State {
    before,  // no event yet
    running,
    complete,  // message_stop came
    failed,    // an error event, or what no server of this API sends
  };
  // The ids that the history holds; and who is told of deltas.
  AnthropicStream(const ModelRequest& request, ModelObserver& observer);

  void take(const SseEvent& event);

  State state() const { return state_; }
  // Of State::failed: "overloaded_error: Overloaded", as long as the server made it, to be cut before it is shown; and
  // whether trying again may help.
  const std::string& error() const { return error_; }
  bool retryable() const { return retryable_; }

  ModelReply reply() const;            // of State::complete
  std::vector<Block> partial() const;  // the text so far

 private:
  struct Piece {
    Block block;
    std::string raw_input;  // of a tool_use
    bool known = true;      // false: a kind of block that we do not keep
    bool ended = false;
  };

  void start_block(const json::object& data);
  void delta(const json::object& data);
  void finish_message(const json::object& data);
  void read_usage(const json::object& usage);
  void fail(std::string error, bool retryable);
  Piece* piece(const json::object& data);
  std::string fresh_id(const std::string& wanted);

  ModelObserver& observer_;
  State state_ = State::before;
  std::vector<Piece> pieces_;
  std::set<std::string> used_ids_;
  std::string stop_reason_;
  Usage usage_;
  std::string error_;
  bool retryable_ = false;
};

}  // namespace errand
