// SPDX-License-Identifier: Apache-2.0
#include "model/anthropic_wire.h"

#include <algorithm>

#include "base/utf8.h"
#include "support/uuid.h"

namespace errand {
namespace {

constexpr std::size_t kMaxBlocks = 10'000;

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

json::object cache_mark() { return {{"type", "ephemeral"}}; }

json::object text_part(const std::string& text) { return {{"type", "text"}, {"text", clean_utf8(text)}}; }

struct PartToJson {
  std::optional<json::object> operator()(const TextBlock& block) const {
    if (is_blank(block.text)) return std::nullopt;
    return text_part(block.text);
  }
  std::optional<json::object> operator()(const ThinkingBlock& block) const {
    if (block.signature.empty()) return std::nullopt;
    return json::object{{"type", "thinking"}, {"thinking", clean_utf8(block.text)}, {"signature", block.signature}};
  }
  std::optional<json::object> operator()(const RedactedThinkingBlock& block) const {
    return json::object{{"type", "redacted_thinking"}, {"data", block.data}};
  }
  std::optional<json::object> operator()(const ToolUseBlock& block) const {
    return json::object{{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", block.input}};
  }
  std::optional<json::object> operator()(const ToolResultBlock& block) const {
    json::object part{{"type", "tool_result"}, {"tool_use_id", block.tool_use_id}};
    if (!is_blank(block.text)) {
      part["content"] = json::array{text_part(block.text)};
    } else if (block.is_error) {
      part["content"] = json::array{text_part("(no text)")};  // an error result must have a content
    }
    if (block.is_error) part["is_error"] = true;
    return part;
  }
  std::optional<json::object> operator()(const ImageBlock& block) const {
    return json::object{{"type", "image"},
                        {"source", {{"type", "base64"}, {"media_type", block.media_type}, {"data", block.data}}}};
  }
};

json::array messages_json(const std::vector<RequestTurn>& turns) {
  json::array messages;
  for (const RequestTurn& turn : turns) {
    json::array content;
    for (const RequestPart& part : turn.parts) {
      if (auto object = std::visit(PartToJson(), part)) content.push_back(std::move(*object));
    }
    if (content.empty()) continue;
    const std::string_view role = turn.role == Role::user ? "user" : "assistant";
    if (!messages.empty() && messages.back().as_object().at("role").as_string() == role) {
      json::array& before = messages.back().as_object().at("content").as_array();
      before.insert(before.end(), content.begin(), content.end());
    } else {
      messages.push_back(json::object{{"role", role}, {"content", std::move(content)}});
    }
  }
  return messages;
}

bool is_api_id(const std::string& id) {
  return !id.empty() && id.size() <= 200 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Nothing when the text is no JSON object.
std::optional<json::object> parse_input(const std::string& raw) {
  if (is_blank(raw)) return json::object();
  std::string error;
  auto value = parse_json(raw, error);
  if (!value || !value->is_object()) return std::nullopt;
  return std::move(value->as_object());
}

StopReason stop_reason(const std::string& text, bool has_tools) {
  if (text == "max_tokens") return StopReason::max_tokens;
  if (text == "refusal") return StopReason::refusal;
  if (text == "model_context_window_exceeded") return StopReason::other;
  // Servers that imitate the API are careless here; what counts is whether something is to be run.
  if (has_tools) return StopReason::tool_use;
  return text == "end_turn" || text == "stop_sequence" || text == "tool_use" ? StopReason::end_turn : StopReason::other;
}

}  // namespace

int default_max_tokens(const std::string& model) {
  if (model.starts_with("claude-3-5") || model.starts_with("claude-3.5")) return 8192;
  if (model.starts_with("claude-3-haiku") || model.starts_with("claude-3-opus") ||
      model.starts_with("claude-3-sonnet")) {
    return 4096;
  }
  return 32000;
}

json::object anthropic_body(const std::string& model, const ModelRequest& request) {
  json::object body{{"model", model},
                    {"max_tokens", request.max_tokens > 0 ? request.max_tokens : default_max_tokens(model)},
                    {"stream", true}};
  if (!is_blank(request.system)) {
    json::object part = text_part(request.system);
    part["cache_control"] = cache_mark();
    body["system"] = json::array{std::move(part)};
  }
  if (!request.tools.empty()) {
    json::array tools;
    for (const ToolSpec& spec : request.tools) {
      tools.push_back(json::object{
          {"name", spec.name}, {"description", clean_utf8(spec.description)}, {"input_schema", spec.input_schema}});
    }
    tools.back().as_object()["cache_control"] = cache_mark();
    body["tools"] = std::move(tools);
  }
  json::array messages = messages_json(request.turns);
  if (!messages.empty() && messages.back().as_object().at("role").as_string() == "user") {
    messages.back().as_object().at("content").as_array().back().as_object()["cache_control"] = cache_mark();
  }
  body["messages"] = std::move(messages);
  return body;
}

AnthropicStream::AnthropicStream(const ModelRequest& request, ModelObserver& observer) : observer_(observer) {
  for (const RequestTurn& turn : request.turns) {
    for (const RequestPart& part : turn.parts) {
      if (const auto* use = std::get_if<ToolUseBlock>(&part)) used_ids_.insert(use->id);
    }
  }
}

void AnthropicStream::fail(std::string error, bool retryable) {
  state_ = State::failed;
  error_ = std::move(error);
  retryable_ = retryable;
}

void AnthropicStream::take(const SseEvent& event) {
  if (state_ == State::complete || state_ == State::failed) return;
  std::string error;
  const auto value = parse_json(event.data, error);
  if (!value || !value->is_object()) {
    fail("the stream holds an event that is no JSON object: " + event.data, false);
    return;
  }
  const json::object& data = value->as_object();
  // The event's name repeats the type; some proxies drop it.
  const std::string type = get_string(data, "type").value_or(event.name);
  if (state_ == State::before) state_ = State::running;
  if (type == "message_start") {
    const json::object* message = get_object(data, "message");
    const json::object* usage = message ? get_object(*message, "usage") : nullptr;
    if (usage) read_usage(*usage);
  } else if (type == "content_block_start") {
    start_block(data);
  } else if (type == "content_block_delta") {
    delta(data);
  } else if (type == "content_block_stop") {
    if (Piece* ended = piece(data)) ended->ended = true;
  } else if (type == "message_delta") {
    finish_message(data);
  } else if (type == "message_stop") {
    state_ = State::complete;
  } else if (type == "error") {
    const json::object* detail = get_object(data, "error");
    std::string kind = detail ? get_string(*detail, "type").value_or("") : "";
    if (kind.empty()) kind = "error of an unnamed kind";
    const std::string message = detail ? get_string(*detail, "message").value_or("") : "";
    const bool permanent = kind == "invalid_request_error" || kind == "authentication_error" ||
                           kind == "permission_error" || kind == "not_found_error" || kind == "request_too_large" ||
                           kind == "billing_error";
    fail(message.empty() ? kind : kind + ": " + message, !permanent);
  }  // pings, and what the API may add, are passed over
}

AnthropicStream::Piece* AnthropicStream::piece(const json::object& data) {
  const auto index = get_int(data, "index");
  if (index && *index >= 0 && static_cast<std::size_t>(*index) < pieces_.size()) {
    return &pieces_[static_cast<std::size_t>(*index)];
  }
  fail("the stream names a content block that was not begun", false);
  return nullptr;
}

std::string AnthropicStream::fresh_id(const std::string& wanted) {
  std::string id = wanted;
  while (!is_api_id(id) || !used_ids_.insert(id).second) id = "toolu_" + random_hex(12);
  return id;
}

void AnthropicStream::start_block(const json::object& data) {
  const json::object* content = get_object(data, "content_block");
  const auto index = get_int(data, "index");
  if (content == nullptr || index != static_cast<std::int64_t>(pieces_.size()) || pieces_.size() >= kMaxBlocks) {
    fail("the stream begins a content block out of order", false);
    return;
  }
  const std::string type = get_string(*content, "type").value_or("");
  Piece next;
  if (type == "text") {
    next.block = TextBlock{get_string(*content, "text").value_or("")};
    if (const auto& text = std::get<TextBlock>(next.block).text; !text.empty()) observer_.on_text(text);
  } else if (type == "thinking") {
    next.block =
        ThinkingBlock{get_string(*content, "thinking").value_or(""), get_string(*content, "signature").value_or("")};
  } else if (type == "redacted_thinking") {
    next.block = RedactedThinkingBlock{get_string(*content, "data").value_or("")};
  } else if (type == "tool_use") {
    std::string name = get_string(*content, "name").value_or("");
    if (name.empty()) name = "unnamed";
    next.block = ToolUseBlock{fresh_id(get_string(*content, "id").value_or("")), std::move(name), {}};
    // Some servers send the whole input here and no deltas.
    const json::object* input = get_object(*content, "input");
    if (input && !input->empty()) next.raw_input = to_text(*input);
  } else {
    next.known = false;
  }
  pieces_.push_back(std::move(next));
}

void AnthropicStream::delta(const json::object& data) {
  Piece* target = piece(data);
  const json::object* content = get_object(data, "delta");
  if (target == nullptr || content == nullptr) return;
  const std::string type = get_string(*content, "type").value_or("");
  if (auto* text = std::get_if<TextBlock>(&target->block); text && target->known && type == "text_delta") {
    const std::string added = get_string(*content, "text").value_or("");
    text->text += added;
    if (!added.empty()) observer_.on_text(added);
  } else if (auto* thinking = std::get_if<ThinkingBlock>(&target->block)) {
    if (type == "signature_delta") thinking->signature += get_string(*content, "signature").value_or("");
    if (type == "thinking_delta") {
      const std::string added = get_string(*content, "thinking").value_or("");
      thinking->text += added;
      if (!added.empty()) observer_.on_thinking(added);
    }
  } else if (std::holds_alternative<ToolUseBlock>(target->block) && type == "input_json_delta") {
    target->raw_input += get_string(*content, "partial_json").value_or("");
  }
}

void AnthropicStream::finish_message(const json::object& data) {
  if (const json::object* change = get_object(data, "delta")) {
    if (auto reason = get_string(*change, "stop_reason")) stop_reason_ = *reason;
  }
  if (const json::object* usage = get_object(data, "usage")) read_usage(*usage);
}

// The last word counts: message_delta's numbers are totals.
void AnthropicStream::read_usage(const json::object& usage) {
  const auto read = [&](std::string_view name, std::int64_t& into) { into = get_int(usage, name).value_or(into); };
  read("input_tokens", usage_.input_tokens);
  read("output_tokens", usage_.output_tokens);
  read("cache_read_input_tokens", usage_.cache_read_tokens);
  read("cache_creation_input_tokens", usage_.cache_write_tokens);
}

ModelReply AnthropicStream::reply() const {
  ModelReply reply;
  reply.usage = usage_;
  reply.stop_text = stop_reason_;
  const bool cut = stop_reason_ == "max_tokens" || stop_reason_ == "model_context_window_exceeded";
  const bool refused = stop_reason_ == "refusal";
  bool has_tools = false;
  for (const Piece& piece : pieces_) {
    if (!piece.known) continue;
    if (const auto* use = std::get_if<ToolUseBlock>(&piece.block)) {
      auto input = parse_input(piece.raw_input);
      const bool whole = input && !(cut && piece.raw_input.empty());
      if (!piece.ended || refused || (cut && !whole)) continue;
      ToolUseBlock block = *use;
      block.input = input ? std::move(*input) : json::object{{kInvalidJsonKey, clean_utf8(piece.raw_input)}};
      reply.blocks.emplace_back(std::move(block));
      has_tools = true;
    } else if (const auto* thinking = std::get_if<ThinkingBlock>(&piece.block)) {
      if (piece.ended && !thinking->signature.empty()) reply.blocks.push_back(piece.block);
    } else if (const auto* text = std::get_if<TextBlock>(&piece.block)) {
      if (!text->text.empty()) reply.blocks.push_back(piece.block);
    } else {
      reply.blocks.push_back(piece.block);
    }
  }
  reply.stop = stop_reason(stop_reason_, has_tools);
  return reply;
}

std::vector<Block> AnthropicStream::partial() const {
  std::vector<Block> blocks;
  for (const Piece& piece : pieces_) {
    const auto* text = std::get_if<TextBlock>(&piece.block);
    if (piece.known && text && !text->text.empty()) blocks.push_back(piece.block);
  }
  return blocks;
}

}  // namespace errand
