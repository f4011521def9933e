// SPDX-License-Identifier: Apache-2.0
// The Messages API: streaming, with retries. See factory.h for how one is made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/http.h"
#include "model/model.h"

namespace errand {

struct AnthropicOptions {
  std::string model;  // "claude-sonnet-4-5"
  std::string key;
  std::string base_url;  // "https://api.anthropic.com"; with or without "/v1" or a slash at its end
  // A silent model is given up, not asked again: whoever read a prompt for that long would begin anew.
  std::int64_t first_event_ms = 600'000;
  std::int64_t between_events_ms = 60'000;  // then the connection counts as lost
  // 429, 5xx, error events and lost connections: tries in all, and the time spent waiting between them in all.
  int max_tries = 8;
  std::int64_t first_delay_ms = 500;  // doubled each time, at most 32 s, less up to half by chance
  std::int64_t max_wait_ms = 600'000;
};

std::unique_ptr<Model> make_anthropic(AnthropicOptions options, std::unique_ptr<HttpClient> http);

}  // namespace errand
