// SPDX-License-Identifier: Apache-2.0
// The anthropic model over real sockets: what goes out, what comes back, and every way in which it can fail.
#include "model/anthropic.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <future>

#include "model/factory.h"
#include "model/loopback_testing.h"

namespace errand {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kKey = "sk-ant-secret-0123456789";

struct Recorder : ModelObserver {
  void on_text(std::string_view delta) override {
    text += delta;
    std::lock_guard lock(mutex);
    ++deltas;
    changed.notify_all();
  }
  void on_thinking(std::string_view delta) override { thinking += delta; }
  void on_retry(const std::string& reason, int attempt, std::int64_t) override {
    retries.push_back(std::to_string(attempt) + ": " + reason);
    text.clear();
    std::lock_guard lock(mutex);
    ++waits;
    changed.notify_all();
  }
  void wait_for(int& counter) {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(30), [&] { return counter > 0; }));
  }

  std::string text, thinking;
  std::vector<std::string> retries;
  std::mutex mutex;
  std::condition_variable changed;
  int deltas = 0, waits = 0;
};

std::string start() {
  return sse("message_start", R"("message": {"id": "msg_1", "usage": {"input_tokens": 7, "cache_read_input_tokens": 5,)"
                              R"( "cache_creation_input_tokens": 3, "output_tokens": 1}})");
}
std::string block(int index, const std::string& content, const std::vector<std::string>& deltas, bool ended = true) {
  const std::string at = "\"index\": " + std::to_string(index);
  std::string text = sse("content_block_start", at + ", \"content_block\": " + content);
  for (const std::string& delta : deltas) text += sse("content_block_delta", at + ", \"delta\": " + delta);
  return ended ? text + sse("content_block_stop", at) : text;
}
std::string text_block(int index, const std::string& text, bool ended = true) {
  return block(index, R"({"type": "text", "text": ""})", {R"({"type": "text_delta", "text": ")" + text + "\"}"}, ended);
}
std::string tool_block(int index, const std::string& id, const std::vector<std::string>& pieces, bool ended = true) {
  std::vector<std::string> deltas;
  for (const std::string& piece : pieces) {
    deltas.push_back(R"({"type": "input_json_delta", "partial_json": )" + to_text(json::value(piece)) + "}");
  }
  return block(index, R"({"type": "tool_use", "id": ")" + id + R"(", "name": "bash", "input": {}})", deltas, ended);
}
std::string stop(const std::string& reason) {
  return sse("message_delta", R"("delta": {"stop_reason": ")" + reason + R"("}, "usage": {"output_tokens": 42})") +
         sse("message_stop", "");
}

ModelRequest simple_request() {
  ModelRequest request;
  request.turns = {{Role::user, {TextBlock{"hello"}}}};
  return request;
}

class AnthropicTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.model = "claude-test";
    options_.key = kKey;
    options_.base_url = server_.url();
    options_.first_delay_ms = 1;
    options_.max_tries = 3;
  }

  ModelResult respond(const ModelRequest& request = simple_request()) {
    return make_anthropic(options_, make_http_client())->respond(request, seen_, {});
  }
  ModelReply reply_of(ModelResult result) {
    if (const auto* failure = std::get_if<ModelFailure>(&result)) {
      ADD_FAILURE() << failure->message;
      return {};
    }
    return std::get<ModelReply>(std::move(result));
  }
  std::string failure_of(const ModelResult& result) {
    const auto* failure = std::get_if<ModelFailure>(&result);
    if (failure == nullptr) return "(a reply)";
    EXPECT_THAT(failure->message, Not(HasSubstr("secret")));
    for (const std::string& retry : seen_.retries) EXPECT_THAT(retry, Not(HasSubstr("secret")));
    return failure->message;
  }
  // Runs respond() on a thread, stops it once `ready` returns, and fails if it does not come back.
  ModelResult respond_and_stop(const std::function<void()>& ready) {
    std::stop_source source;
    auto result = std::async(std::launch::async, [&] {
      return make_anthropic(options_, make_http_client())->respond(simple_request(), seen_, source.get_token());
    });
    ready();
    source.request_stop();
    EXPECT_EQ(result.wait_for(std::chrono::seconds(5)), std::future_status::ready) << "the abort was not heard";
    return result.get();
  }
  static bool aborted(const ModelResult& result) {
    const auto* failure = std::get_if<ModelFailure>(&result);
    return failure != nullptr && failure->aborted;
  }

  LoopbackServer server_;
  AnthropicOptions options_;
  Recorder seen_;
};

TEST_F(AnthropicTest, AWholeAnswerInSingleBytes) {
  const std::string answer =
      stream_head() + start() +
      block(
          0, R"({"type": "thinking", "thinking": "", "signature": ""})",
          {R"({"type": "thinking_delta", "thinking": "Let "})", R"({"type": "thinking_delta", "thinking": "me"})",
           R"({"type": "signature_delta", "signature": "sig"})", R"({"type": "signature_delta", "signature": "2"})"}) +
      block(1, R"({"type": "redacted_thinking", "data": "xyz"})", {}) + sse("ping", "") + text_block(2, "Grüße, ") +
      tool_block(3, "toolu_1", {"", "{\"comm", "and\": \"make ", "test\"}"}) + tool_block(4, "toolu_2", {}) +
      stop("tool_use");
  server_.push([&](const auto&, auto& client) { client.send_bytewise(answer); });
  const ModelReply reply = reply_of(respond());
  ASSERT_EQ(reply.blocks.size(), 5u);
  EXPECT_EQ(std::get<ThinkingBlock>(reply.blocks[0]).text, "Let me");
  EXPECT_EQ(std::get<ThinkingBlock>(reply.blocks[0]).signature, "sig2");
  EXPECT_EQ(std::get<RedactedThinkingBlock>(reply.blocks[1]).data, "xyz");
  EXPECT_EQ(std::get<TextBlock>(reply.blocks[2]).text, "Grüße, ");
  const auto& use = std::get<ToolUseBlock>(reply.blocks[3]);
  EXPECT_EQ(use.id, "toolu_1");
  EXPECT_EQ(use.name, "bash");
  EXPECT_EQ(to_text(use.input), R"({"command":"make test"})");
  EXPECT_TRUE(std::get<ToolUseBlock>(reply.blocks[4]).input.empty());
  EXPECT_EQ(reply.stop, StopReason::tool_use);
  EXPECT_EQ(reply.usage.input_tokens, 7);
  EXPECT_EQ(reply.usage.output_tokens, 42);
  EXPECT_EQ(reply.usage.cache_read_tokens, 5);
  EXPECT_EQ(reply.usage.cache_write_tokens, 3);
  EXPECT_EQ(seen_.text, "Grüße, ");
  EXPECT_EQ(seen_.thinking, "Let me");
  EXPECT_TRUE(seen_.retries.empty());
}

TEST_F(AnthropicTest, TheRequestAsItGoesOut) {
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  ModelRequest request;
  request.system = "You are errand.";
  json::object schema{{"type", "object"}};
  request.tools = {{"bash", "runs", schema}, {"read", "reads", schema}};
  json::object input{{"command", "ls"}};
  request.turns = {{Role::user, {TextBlock{"go"}, TextBlock{" \n"}}},
                   {Role::assistant,
                    {ThinkingBlock{"hm", "sig"}, ThinkingBlock{"unsigned", ""}, RedactedThinkingBlock{"xyz"},
                     ToolUseBlock{"t1", "bash", input}, ToolUseBlock{"t2", "bash", {}}}},
                   {Role::user, {ToolResultBlock{"t1", "a b\xff", false}, ToolResultBlock{"t2", "", true}}},
                   {Role::assistant, {TextBlock{"  "}}},
                   {Role::user, {TextBlock{"more"}, ImageBlock{"image/png", "AAAA"}}}};
  reply_of(respond(request));
  const auto requests = server_.wait_requests(1);
  EXPECT_THAT(requests[0].head, StartsWith("POST /v1/messages HTTP/1.1\r\n"));
  EXPECT_THAT(requests[0].head, HasSubstr(std::string("x-api-key: ") + kKey + "\r\n"));
  EXPECT_THAT(requests[0].head, HasSubstr("anthropic-version: 2023-06-01\r\n"));
  EXPECT_THAT(requests[0].head, HasSubstr("content-type: application/json\r\n"));
  EXPECT_THAT(requests[0].head, Not(HasSubstr("Expect")));
  EXPECT_EQ(
      requests[0].body,
      R"({"model":"claude-test","max_tokens":32000,"stream":true,)"
      R"("system":[{"type":"text","text":"You are errand.","cache_control":{"type":"ephemeral"}}],)"
      R"("tools":[{"name":"bash","description":"runs","input_schema":{"type":"object"}},)"
      R"({"name":"read","description":"reads","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],)"
      R"("messages":[{"role":"user","content":[{"type":"text","text":"go"}]},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"sig"},)"
      R"({"type":"redacted_thinking","data":"xyz"},)"
      R"({"type":"tool_use","id":"t1","name":"bash","input":{"command":"ls"}},)"
      R"({"type":"tool_use","id":"t2","name":"bash","input":{}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a b)"
      "\xEF\xBF\xBD"
      R"("}]},)"
      R"x({"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"(no text)"}],"is_error":true},)x"
      R"({"type":"text","text":"more"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"},)"
      R"("cache_control":{"type":"ephemeral"}}]}]})");
}

TEST_F(AnthropicTest, BaseUrlMayEndInSlashOrVersion) {
  for (const char* end : {"", "/", "/v1", "/v1/"}) {
    options_.base_url = server_.url() + end;
    server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
    reply_of(respond());
  }
  for (const auto& request : server_.wait_requests(4)) EXPECT_THAT(request.head, StartsWith("POST /v1/messages "));
}

TEST_F(AnthropicTest, LoopbackNeverGoesThroughAProxy) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  reply_of(respond());
  unsetenv("http_proxy");
}

TEST_F(AnthropicTest, ClientErrorsAreShownAndNotRetried) {
  server_.push_bytes(
      http_answer(400, "application/json",
                  R"({"type":"error","error":{"type":"invalid_request_error","message":"max_tokens:\n too big"}})"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 400: max_tokens: too big");
  server_.push_bytes(http_answer(404, "text/html", "<html>\n  not   here</html>"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 404: <html> not here</html>");
  server_.push_bytes(http_answer(403, "text/plain", ""));
  EXPECT_EQ(failure_of(respond()), "anthropic: 403: the server gave no reason");
  server_.push_bytes(http_answer(301, "text/plain", "", "Location: " + server_.url() + "/elsewhere\r\n"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 301: the server gave no reason");
  EXPECT_EQ(server_.wait_requests(4).size(), 4u);
}

TEST_F(AnthropicTest, AKeyThatTheServerRepeatsIsStruckOut) {
  server_.push_bytes(
      http_answer(401, "application/json", std::string(R"({"error":{"message":"invalid x-api-key )") + kKey + "\"}}"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 401: invalid x-api-key ***");
  // Where a long text is cut, half a key must not be left.
  server_.push_bytes(http_answer(401, "text/plain", std::string(140, 'a') + kKey + std::string(400, 'b')));
  EXPECT_THAT(failure_of(respond()), Not(HasSubstr("sk-")));
  server_.push_bytes(stream_head() + "data: " + std::string(kKey) + "\n\n");
  EXPECT_EQ(failure_of(respond()), "anthropic: the stream holds an event that is no JSON object: ***");
  server_.push_bytes(http_answer(500, "text/plain", kKey, "x-should-retry: false\r\n"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 500: ***");
}

TEST_F(AnthropicTest, OverloadIsRetriedWithTheServersDelay) {
  const std::string overloaded = R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})";
  server_.push_bytes(http_answer(529, "application/json", overloaded, "Retry-After: 0\r\n"));
  server_.push_bytes(http_answer(429, "application/json", overloaded, "retry-after-ms: 1\r\n"));
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  EXPECT_EQ(std::get<TextBlock>(reply_of(respond()).blocks.at(0)).text, "ok");
  EXPECT_THAT(seen_.retries, ElementsAre("1: 529: Overloaded", "2: 429: Overloaded"));
}

TEST_F(AnthropicTest, RetriesAreBounded) {
  for (int i = 0; i < 3; ++i) server_.push_bytes(http_answer(503, "text/plain", "down"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 503: down (after 3 tries)");
  EXPECT_EQ(seen_.retries.size(), 2u);
  server_.push_bytes(http_answer(429, "text/plain", "slow down", "retry-after: 86400\r\n"));
  EXPECT_EQ(failure_of(respond()), "anthropic: 429: slow down; the server asks to wait 86400 s");
}

TEST_F(AnthropicTest, ErrorEventsInTheStream) {
  server_.push_bytes(stream_head() + start() + text_block(0, "void", false) +
                     sse("error", R"("error": {"type": "overloaded_error", "message": "Overloaded"})"));
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  EXPECT_EQ(std::get<TextBlock>(reply_of(respond()).blocks.at(0)).text, "ok");
  EXPECT_THAT(seen_.retries, ElementsAre("1: overloaded_error: Overloaded"));
  EXPECT_EQ(seen_.text, "ok");
  server_.push_bytes(stream_head() + sse("error", R"("error": {"type": "invalid_request_error", "message": "no"})"));
  EXPECT_EQ(failure_of(respond()), "anthropic: invalid_request_error: no");
}

TEST_F(AnthropicTest, AnErrorThatNamesNothingIsStillSaid) {
  server_.push_bytes(stream_head() + start() + sse("error", R"("error": {"type": ""})"));
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  EXPECT_EQ(std::get<TextBlock>(reply_of(respond()).blocks.at(0)).text, "ok");
  EXPECT_THAT(seen_.retries, ElementsAre("1: error of an unnamed kind"));
}

TEST_F(AnthropicTest, AStreamThatBreaksNeverLeavesAToolUse) {
  const std::string half = stream_head() + start() + text_block(0, "I run") +
                           tool_block(1, "t1", {"{\"command\": \"ls\"}"}) + tool_block(2, "t2", {"{\"comm"}, false);
  for (int i = 0; i < 3; ++i) server_.push_bytes(half);
  const ModelResult result = respond();
  EXPECT_EQ(failure_of(result), "anthropic: the stream ended before the answer was complete (after 3 tries)");
  const auto& partial = std::get<ModelFailure>(result).partial;
  ASSERT_EQ(partial.size(), 1u);
  EXPECT_EQ(std::get<TextBlock>(partial[0]).text, "I run");
  // The same with a length that promised more, which the transport itself notices.
  for (int i = 0; i < 2; ++i) server_.push_bytes("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + start());
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  reply_of(respond());
  EXPECT_THAT(seen_.retries.back(), HasSubstr("lost"));
}

TEST_F(AnthropicTest, AnswersThatWereCutOrRefused) {
  server_.push_bytes(stream_head() + start() + tool_block(0, "t1", {"{\"a\": 1}"}) + tool_block(1, "t2", {"{\"a\": "}) +
                     stop("max_tokens"));
  ModelReply reply = reply_of(respond());
  ASSERT_EQ(reply.blocks.size(), 1u);
  EXPECT_EQ(std::get<ToolUseBlock>(reply.blocks[0]).id, "t1");
  EXPECT_EQ(reply.stop, StopReason::max_tokens);

  server_.push_bytes(stream_head() + start() + text_block(0, "x") + tool_block(1, "t1", {""}) + stop("max_tokens"));
  EXPECT_EQ(reply_of(respond()).blocks.size(), 1u);

  // A message that ends while a block has not: whatever it calls itself, the use is a half one.
  server_.push_bytes(stream_head() + start() + text_block(0, "x") + tool_block(1, "t1", {"{}"}, false) +
                     stop("tool_use"));
  reply = reply_of(respond());
  EXPECT_EQ(reply.blocks.size(), 1u);
  EXPECT_EQ(reply.stop, StopReason::end_turn);

  server_.push_bytes(stream_head() + start() + text_block(0, "No") + tool_block(1, "t1", {"{}"}) + stop("refusal"));
  reply = reply_of(respond());
  EXPECT_EQ(reply.blocks.size(), 1u);
  EXPECT_EQ(reply.stop, StopReason::refusal);

  server_.push_bytes(stream_head() + start() + text_block(0, "hm") + stop("pause_turn"));
  reply = reply_of(respond());
  EXPECT_EQ(reply.stop, StopReason::other);
  EXPECT_EQ(reply.stop_text, "pause_turn");
}

TEST_F(AnthropicTest, BrokenToolInputIsMarked) {
  server_.push_bytes(stream_head() + start() + tool_block(0, "t1", {"{\"command\": "}) + tool_block(1, "t2", {"[1]"}) +
                     stop("tool_use"));
  const ModelReply reply = reply_of(respond());
  ASSERT_EQ(reply.blocks.size(), 2u);
  EXPECT_EQ(to_text(std::get<ToolUseBlock>(reply.blocks[0]).input), R"({"__invalid_json":"{\"command\": "})");
  EXPECT_EQ(to_text(std::get<ToolUseBlock>(reply.blocks[1]).input), R"({"__invalid_json":"[1]"})");
  EXPECT_EQ(reply.stop, StopReason::tool_use);
}

TEST_F(AnthropicTest, IdsThatWouldMakeTheHistoryIllegalAreReplaced) {
  ModelRequest request = simple_request();
  request.turns.push_back({Role::assistant, {ToolUseBlock{"t1", "bash", {}}}});
  request.turns.push_back({Role::user, {ToolResultBlock{"t1", "x", false}}});
  server_.push_bytes(stream_head() + start() + tool_block(0, "t1", {}) + tool_block(1, "", {}) +
                     tool_block(2, "a b", {}) + tool_block(3, "t2", {}) + tool_block(4, "t2", {}) + stop("end_turn"));
  const ModelReply reply = reply_of(respond(request));
  std::set<std::string> ids{"t1"};
  ASSERT_EQ(reply.blocks.size(), 5u);
  for (const Block& one : reply.blocks) EXPECT_TRUE(ids.insert(std::get<ToolUseBlock>(one).id).second);
  EXPECT_EQ(std::get<ToolUseBlock>(reply.blocks[3]).id, "t2");
  EXPECT_EQ(reply.stop, StopReason::tool_use);  // something is to be run, whatever the server calls it
}

TEST_F(AnthropicTest, Garbage) {
  server_.push_bytes(http_answer(200, "text/html", "<html>captive portal</html>"));
  EXPECT_EQ(failure_of(respond()), "anthropic: the answer is no event stream (text/html): <html>captive portal</html>");
  server_.push_bytes(http_answer(200, "application/json", R"({"type":"error","error":{"message":"wrong door"}})"));
  EXPECT_EQ(failure_of(respond()), "anthropic: the answer is no event stream (application/json): wrong door");
  server_.push_bytes(stream_head() + "data: not json\n\n");
  EXPECT_EQ(failure_of(respond()), "anthropic: the stream holds an event that is no JSON object: not json");
  server_.push_bytes(stream_head() + "data: \xff\xfe\x01\n\n");
  EXPECT_EQ(failure_of(respond()),
            "anthropic: the stream holds an event that is no JSON object: \xEF\xBF\xBD\xEF\xBF\xBD");
  server_.push_bytes(stream_head() + start() + sse("content_block_delta", R"("index": 3, "delta": {})"));
  EXPECT_EQ(failure_of(respond()), "anthropic: the stream names a content block that was not begun");
  server_.push_bytes(stream_head() + start() + sse("content_block_start", R"("index": 1, "content_block": {})"));
  EXPECT_EQ(failure_of(respond()), "anthropic: the stream begins a content block out of order");
  EXPECT_TRUE(seen_.retries.empty());
  for (int i = 0; i < 3; ++i) server_.push_bytes(http_answer(200, "text/event-stream", ""));
  EXPECT_EQ(failure_of(respond()), "anthropic: the answer is empty (after 3 tries)");
}

TEST_F(AnthropicTest, UnknownBlocksAndEventsArePassedOver) {
  server_.push_bytes(
      stream_head() + start() +
      block(0, R"({"type": "server_tool_use", "id": "x"})", {R"({"type": "input_json_delta", "partial_json": "{"})"}) +
      sse("news", "") + text_block(1, "ok") + stop("end_turn"));
  const ModelReply reply = reply_of(respond());
  ASSERT_EQ(reply.blocks.size(), 1u);
  EXPECT_EQ(std::get<TextBlock>(reply.blocks[0]).text, "ok");
}

TEST_F(AnthropicTest, SilenceBeforeTheFirstEventEndsTheTurn) {
  options_.first_event_ms = 50;
  server_.push([](const auto&, auto& client) {
    client.send(stream_head() + ": still reading\n\n");
    client.wait_gone();
  });
  EXPECT_EQ(failure_of(respond()), "anthropic: no answer within 50 ms");
  EXPECT_TRUE(seen_.retries.empty());
}

TEST_F(AnthropicTest, SilenceBetweenEventsIsALostConnection) {
  options_.between_events_ms = 50;
  server_.push([](const auto&, auto& client) {
    client.send(stream_head() + start() + text_block(0, "half", false));
    client.wait_gone();
  });
  server_.push_bytes(stream_head() + start() + text_block(0, "ok") + stop("end_turn"));
  reply_of(respond());
  EXPECT_THAT(seen_.retries, ElementsAre("1: the stream stood still for 50 ms"));
}

TEST_F(AnthropicTest, NothingListens) {
  UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // bound, not listening: refused
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string place = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  options_.base_url = "http://user:secret@" + place;
  EXPECT_EQ(failure_of(respond()), "anthropic: cannot connect to " + place + ": Connection refused (after 3 tries)");
  options_.base_url = "http://[::bad";
  EXPECT_EQ(failure_of(respond()), "anthropic: the server's address is no URL");
}

TEST_F(AnthropicTest, AbortWhileConnecting) {
  // A full accept queue: the kernel drops the handshake, so the connect goes on for ever.
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  std::vector<UniqueFd> fillers;
  for (int i = 0; i < 4; ++i) {
    fillers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i > 0 ? SOCK_NONBLOCK : 0), 0));
    (void)::connect(fillers.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  options_.base_url = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  std::promise<void> begun;
  std::stop_source source;
  auto result = std::async(std::launch::async, [&] {
    begun.set_value();
    return make_anthropic(options_, make_http_client())->respond(simple_request(), seen_, source.get_token());
  });
  begun.get_future().wait();
  // It cannot connect; only the stop can end it.
  EXPECT_EQ(result.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  source.request_stop();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_TRUE(aborted(result.get()));
}

TEST_F(AnthropicTest, AbortWhileWaitingForTheAnswer) {
  server_.push([](const auto&, auto& client) { client.wait_gone(); });
  EXPECT_TRUE(aborted(respond_and_stop([&] { server_.wait_requests(1); })));
}

TEST_F(AnthropicTest, AbortWhileStreamingKeepsTheText) {
  server_.push([](const auto&, auto& client) {
    client.send(stream_head() + start() + text_block(0, "so far", false));
    client.wait_gone();
  });
  const ModelResult result = respond_and_stop([&] { seen_.wait_for(seen_.deltas); });
  ASSERT_TRUE(aborted(result));
  ASSERT_EQ(std::get<ModelFailure>(result).partial.size(), 1u);
  EXPECT_EQ(std::get<TextBlock>(std::get<ModelFailure>(result).partial[0]).text, "so far");
}

TEST_F(AnthropicTest, AbortWhileWaitingForTheNextTry) {
  server_.push_bytes(http_answer(529, "text/plain", "busy", "retry-after: 500\r\n"));
  EXPECT_TRUE(aborted(respond_and_stop([&] { seen_.wait_for(seen_.waits); })));
  EXPECT_THAT(seen_.retries, ElementsAre("1: 529: busy"));
}

TEST_F(AnthropicTest, StoppedBeforeItBegan) {
  std::stop_source source;
  source.request_stop();
  EXPECT_TRUE(
      aborted(make_anthropic(options_, make_http_client())->respond(simple_request(), seen_, source.get_token())));
}

TEST(Factory, WhatCannotBeMadeNamesTheFix) {
  const auto error = [](const std::string& spec, const ModelOptions& options = {}) {
    const auto made = make_model(spec, options);
    return std::holds_alternative<std::string>(made) ? std::get<std::string>(made) : "(a model)";
  };
  unsetenv("ANTHROPIC_API_KEY");
  EXPECT_EQ(default_model(), "");
  EXPECT_EQ(error("anthropic:x"), "anthropic: no key: set ANTHROPIC_API_KEY");
  setenv("ANTHROPIC_API_KEY", " \n", 1);
  EXPECT_EQ(default_model(), "");
  setenv("ANTHROPIC_API_KEY", "sk-x\n", 1);
  EXPECT_THAT(default_model(), StartsWith("anthropic:claude-"));
  EXPECT_EQ(error("anthropic:x"), "(a model)");
  EXPECT_EQ(std::get<0>(make_model("anthropic:a:b"))->name(), "anthropic:a:b");
  setenv("ANTHROPIC_BASE_URL", "ftp://user:pw@host", 1);
  EXPECT_EQ(error("anthropic:x"), "anthropic: ANTHROPIC_BASE_URL must begin with http:// or https://");
  unsetenv("ANTHROPIC_BASE_URL");
  setenv("ANTHROPIC_API_KEY", "sk\r\nx-evil: 1", 1);
  EXPECT_EQ(error("anthropic:x"), "anthropic: ANTHROPIC_API_KEY holds characters that no key has");
  unsetenv("ANTHROPIC_API_KEY");
  EXPECT_EQ(error("openai:x"), "openai: not in this version; use anthropic:NAME or scripted:FILE");
  EXPECT_EQ(error("gpt"), "model \"gpt\": unknown; use anthropic:NAME or scripted:FILE");
  EXPECT_EQ(error("anthropic:"), "model \"anthropic:\": no name; use anthropic:NAME");
  EXPECT_EQ(error("scripted"), "model \"scripted\": no name; use scripted:FILE");
}

}  // namespace
}  // namespace errand
