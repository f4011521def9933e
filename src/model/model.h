// SPDX-License-Identifier: Apache-2.0
// A model answers a request with one assistant message, streamed as it comes. One instance serves one conversation at a
// time; respond() blocks on the conversation's thread and ends soon after a stop is requested.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conversation/message.h"
#include "conversation/request.h"

namespace errand {

struct ToolSpec {
  std::string name;
  std::string description;
  json::object input_schema;  // JSON Schema, type object
};

struct ModelRequest {
  std::string system;
  std::vector<ToolSpec> tools;
  std::vector<RequestTurn> turns;
  int max_tokens = 0;  // 0: the model's own default
};

// Called on the thread of respond().
class ModelObserver {
 public:
  virtual ~ModelObserver() = default;
  virtual void on_text(std::string_view delta) = 0;
  virtual void on_thinking(std::string_view delta) = 0;
  // A retry is about to be waited for; what was streamed of the failed try is void.
  virtual void on_retry(const std::string& reason, int attempt, std::int64_t delay_ms) = 0;
};

// Tool input that the model ended but that is no JSON object arrives as {"__invalid_json": "<the raw text>"}: the use
// stands in the history and has to be answered, with an error that names the problem.
inline constexpr std::string_view kInvalidJsonKey = "__invalid_json";

// tool_use: the blocks hold at least one tool_use. A reply that was cut (max_tokens, other) may hold complete ones too,
// and these have to be answered as well; a refusal holds none.
enum class StopReason { end_turn, tool_use, max_tokens, refusal, other };

struct ModelReply {
  std::vector<Block> blocks;  // text, thinking, redacted_thinking, complete tool_use; never a half one
  StopReason stop = StopReason::end_turn;
  std::string stop_text;  // the API's own word: "pause_turn"
  Usage usage;
};

// What was streamed before the failure is in `partial` (text only), so that it can be kept and shown.
struct ModelFailure {
  bool aborted = false;  // stop was requested
  std::string message;   // "anthropic: 401: invalid x-api-key"; never a key
  std::vector<Block> partial;
};

using ModelResult = std::variant<ModelReply, ModelFailure>;

class Model {
 public:
  virtual ~Model() = default;
  virtual std::string name() const = 0;  // "anthropic:claude-sonnet-4-5", "scripted:demo.json"
  virtual bool is_script() const { return false; }
  virtual ModelResult respond(const ModelRequest& request, ModelObserver& observer, std::stop_token stop) = 0;
};

}  // namespace errand
