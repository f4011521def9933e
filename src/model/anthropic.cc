// SPDX-License-Identifier: Apache-2.0
#include "model/anthropic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>

#include "base/clock.h"
#include "base/utf8.h"
#include "model/anthropic_wire.h"
#include "support/log.h"

namespace errand {
namespace {

constexpr std::size_t kMaxErrorBody = 64 * 1024;
constexpr std::size_t kMaxShown = 300;
constexpr std::int64_t kMaxDelayMs = 32'000;
// After message_stop nothing more is to come; a server that keeps the connection open is not waited for.
constexpr std::int64_t kTrailerMs = 1'000;

// One line of what a server said, short enough to show.
std::string shown(std::string_view text) {
  std::string line;
  for (const char c : clean_utf8(text.substr(0, kMaxShown * 4))) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (space && (line.empty() || line.back() == ' ')) continue;
    if (space) {
      line += ' ';
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
      line += c;
    }
  }
  while (line.ends_with(' ')) line.pop_back();
  return cut_middle(line, kMaxShown);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return std::min<std::int64_t>(number, 1'000'000'000);
}

// One try: reads the head and the stream. What is no event stream is kept as text, for the failure.
class Exchange : public HttpSink {
 public:
  Exchange(const ModelRequest& request, ModelObserver& observer, const AnthropicOptions& options)
      : stream(request, observer), options_(options), deadline_(monotonic_ms() + options.first_event_ms) {}

  void on_head(const HttpHead& answer) override { head = answer; }

  bool on_body(std::string_view bytes) override {
    if (head.status != 200 || events_ == 0) {
      body.append(bytes.substr(0, kMaxErrorBody - std::min(kMaxErrorBody, body.size())));
    }
    if (head.status != 200) return body.size() < kMaxErrorBody;
    std::vector<SseEvent> events;
    parser_.feed(bytes, events);
    for (const SseEvent& event : events) stream.take(event);
    events_ += events.size();
    if (!events.empty()) {
      const bool over = stream.state() == AnthropicStream::State::complete;
      deadline_ = monotonic_ms() + (over ? kTrailerMs : options_.between_events_ms);
    }
    return stream.state() != AnthropicStream::State::failed && !parser_.too_large();
  }

  std::int64_t deadline_ms() const override { return deadline_; }
  bool any_event() const { return events_ > 0; }
  bool too_large() const { return parser_.too_large(); }

  HttpHead head;
  std::string body;
  AnthropicStream stream;

 private:
  const AnthropicOptions& options_;
  SseParser parser_;
  std::size_t events_ = 0;
  std::int64_t deadline_;
};

struct TryResult {
  std::optional<ModelReply> reply;
  bool aborted = false;
  bool retryable = false;
  std::optional<std::int64_t> retry_after_ms;
  std::string message;
  std::vector<Block> partial;
};

class Anthropic : public Model {
 public:
  Anthropic(AnthropicOptions options, std::unique_ptr<HttpClient> http)
      : options_(std::move(options)), http_(std::move(http)), random_(std::random_device()()) {
    while (options_.base_url.ends_with('/')) options_.base_url.pop_back();
    if (options_.base_url.ends_with("/v1")) options_.base_url.resize(options_.base_url.size() - 3);
  }

  std::string name() const override { return "anthropic:" + options_.model; }

  ModelResult respond(const ModelRequest& request, ModelObserver& observer, std::stop_token stop) override {
    const HttpRequest http_request{options_.base_url + "/v1/messages",
                                   {{"content-type", "application/json"},
                                    {"accept", "text/event-stream"},
                                    {"anthropic-version", "2023-06-01"},
                                    {"x-api-key", options_.key},
                                    {"user-agent", "errand"}},
                                   to_text(anthropic_body(options_.model, request))};
    std::int64_t waited = 0;
    for (int attempt = 1;; ++attempt) {
      TryResult result = try_once(http_request, request, observer, stop);
      if (result.reply) return std::move(*result.reply);
      if (result.aborted) return ModelFailure{true, "aborted", std::move(result.partial)};
      const std::string& reason = result.message;
      log::write(log::Level::warn, name() + ": try " + std::to_string(attempt) + ": " + reason);
      const std::int64_t delay = result.retry_after_ms.value_or(backoff_ms(attempt));
      const bool give_up = !result.retryable || attempt >= options_.max_tries || waited + delay > options_.max_wait_ms;
      if (give_up) {
        std::string text = "anthropic: " + reason;
        if (attempt > 1) text += fmt::format(" (after {} tries)", attempt);
        if (result.retryable && result.retry_after_ms && attempt < options_.max_tries) {
          text += fmt::format("; the server asks to wait {} s", (delay + 999) / 1000);
        }
        return ModelFailure{false, std::move(text), std::move(result.partial)};
      }
      observer.on_retry(reason, attempt, delay);
      waited += delay;
      if (!sleep(delay, stop)) return ModelFailure{true, "aborted", {}};
    }
  }

 private:
  TryResult try_once(const HttpRequest& http_request, const ModelRequest& request, ModelObserver& observer,
                     const std::stop_token& stop) {
    Exchange exchange(request, observer, options_);
    const HttpEnd end = http_->post(http_request, exchange, stop);
    TryResult result = judge(end, exchange);
    if (!result.reply) result.partial = exchange.stream.partial();
    return result;
  }

  // The reply, or what went wrong and whether trying again may help.
  TryResult judge(const HttpEnd& end, const Exchange& exchange) const {
    using Kind = HttpEnd::Kind;
    using State = AnthropicStream::State;
    TryResult result;
    if (end.kind == Kind::aborted) {
      result.aborted = true;
    } else if (exchange.stream.state() == State::complete) {
      result.reply = exchange.stream.reply();
    } else if (exchange.stream.state() == State::failed) {
      result.message = show(exchange.stream.error());
      result.retryable = exchange.stream.retryable();
    } else if (exchange.head.status != 0 && exchange.head.status != 200) {
      refused(exchange, result);
    } else if (exchange.too_large()) {
      result.message = "the stream holds an event that is too large";
    } else if (end.kind == Kind::timed_out && !exchange.any_event()) {
      result.message = fmt::format("no answer within {}", seconds(options_.first_event_ms));
    } else if (end.kind == Kind::timed_out) {
      result.message = fmt::format("the stream stood still for {}", seconds(options_.between_events_ms));
      result.retryable = true;
    } else if (end.kind == Kind::lost) {
      result.message = end.message;
      result.retryable = true;
    } else if (end.kind == Kind::impossible) {
      result.message = end.message;
    } else if (exchange.any_event() || exchange.body.empty()) {
      result.message = exchange.any_event() ? "the stream ended before the answer was complete" : "the answer is empty";
      result.retryable = true;
    } else {
      const std::string type(exchange.head.header("content-type"));
      result.message = fmt::format("the answer is no event stream ({}): {}",
                                   type.empty() ? "no content type" : show(type), server_message(exchange.body));
    }
    return result;
  }

  void refused(const Exchange& exchange, TryResult& result) const {
    const int status = exchange.head.status;
    result.message = fmt::format("{}: {}", status, server_message(exchange.body));
    result.retryable = status == 429 || status >= 500;
    if (exchange.head.header("x-should-retry") == "false") result.retryable = false;
    // An HTTP date is allowed too; then our own back-off serves.
    if (const auto after = whole_number(exchange.head.header("retry-after"))) result.retry_after_ms = *after * 1000;
    if (const auto after = whole_number(exchange.head.header("retry-after-ms"))) result.retry_after_ms = after;
  }

  std::string server_message(const std::string& body) const {
    std::string error;
    const auto value = parse_json(body, error);
    const json::object* object = value ? value->if_object() : nullptr;
    const json::object* detail = object ? get_object(*object, "error") : nullptr;
    if (const auto message = detail ? get_string(*detail, "message") : std::nullopt) return show(*message);
    const std::string text = show(body);
    return text.empty() ? "the server gave no reason" : text;
  }

  static std::string seconds(std::int64_t ms) {
    return ms % 1000 == 0 ? fmt::format("{} s", ms / 1000) : fmt::format("{} ms", ms);
  }

  // Servers and proxies may repeat what they were sent. Struck out before anything is cut: half a key is one, too.
  std::string show(std::string text) const {
    for (std::size_t at = text.find(options_.key); at != std::string::npos; at = text.find(options_.key, at)) {
      text.replace(at, options_.key.size(), "***");
    }
    return shown(text);
  }

  std::int64_t backoff_ms(int attempt) {
    const std::int64_t most = std::min(kMaxDelayMs, options_.first_delay_ms << std::min(attempt - 1, 20));
    return most -
           static_cast<std::int64_t>(std::uniform_real_distribution<>(0, 0.5)(random_) * static_cast<double>(most));
  }

  static bool sleep(std::int64_t ms, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, std::chrono::milliseconds(ms), [] { return false; });
    return !stop.stop_requested();
  }

  AnthropicOptions options_;
  const std::unique_ptr<HttpClient> http_;
  std::minstd_rand random_;
};

}  // namespace

std::unique_ptr<Model> make_anthropic(AnthropicOptions options, std::unique_ptr<HttpClient> http) {
  return std::make_unique<Anthropic>(std::move(options), std::move(http));
}

}  // namespace errand
