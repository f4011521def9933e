// SPDX-License-Identifier: Apache-2.0
#include "model/factory.h"

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"
#include "model/anthropic.h"
#include "model/scripted.h"

namespace errand {
namespace {

constexpr const char* kDefaultAnthropic = "claude-sonnet-4-5";
constexpr const char* kAnthropicUrl = "https://api.anthropic.com";

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// Keys are pasted, with newlines and spaces around them.
std::string trimmed(std::string text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool is_printable_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7F'; });
}

std::variant<std::unique_ptr<Model>, std::string> anthropic(const std::string& name, const ModelOptions& options) {
  const std::string key = trimmed(options.key ? *options.key : from_environment("ANTHROPIC_API_KEY"));
  if (key.empty()) return "anthropic: no key: set ANTHROPIC_API_KEY";
  if (!is_printable_ascii(key)) return "anthropic: ANTHROPIC_API_KEY holds characters that no key has";
  std::string url = trimmed(options.base_url ? *options.base_url : from_environment("ANTHROPIC_BASE_URL"));
  if (url.empty()) url = kAnthropicUrl;
  // The value is not repeated: it may hold a password.
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return "anthropic: ANTHROPIC_BASE_URL must begin with http:// or https://";
  }
  if (!is_printable_ascii(url)) return "anthropic: ANTHROPIC_BASE_URL holds characters that no URL has";
  AnthropicOptions made{
      name, key, url, options.first_event_ms, options.between_events_ms, options.max_tries, options.first_delay_ms};
  return make_anthropic(std::move(made), make_http_client());
}

}  // namespace

std::variant<std::unique_ptr<Model>, std::string> make_model(const std::string& spec, const ModelOptions& options) {
  const std::size_t colon = spec.find(':');
  const std::string provider = spec.substr(0, colon);
  const std::string name = colon == std::string::npos ? std::string() : spec.substr(colon + 1);
  if (provider == "openai") return "openai: not in this version; use anthropic:NAME or scripted:FILE";
  if (provider != "anthropic" && provider != "scripted") {
    return "model \"" + clean_utf8(spec) + "\": unknown; use anthropic:NAME or scripted:FILE";
  }
  if (name.empty() || !is_valid_utf8(spec)) {
    return "model \"" + clean_utf8(spec) + "\": no name; use " +
           (provider == "scripted" ? "scripted:FILE" : "anthropic:NAME");
  }
  return provider == "scripted" ? load_scripted(name) : anthropic(name, options);
}

std::string default_model() {
  if (trimmed(from_environment("ANTHROPIC_API_KEY")).empty()) return {};
  return std::string("anthropic:") + kDefaultAnthropic;
}

}  // namespace errand
