// SPDX-License-Identifier: Apache-2.0
// From what a user names ("anthropic:claude-sonnet-4-5", "scripted:demo.json") to a model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "model/model.h"

namespace errand {

struct ModelOptions {
  std::optional<std::string> key;       // unset: ANTHROPIC_API_KEY
  std::optional<std::string> base_url;  // unset: ANTHROPIC_BASE_URL, else https://api.anthropic.com
  std::int64_t first_event_ms = 600'000;
  std::int64_t between_events_ms = 60'000;
  int max_tries = 8;
  std::int64_t first_delay_ms = 500;
};

// The model, or why there is none: a text for the user that names the fix and never a key.
std::variant<std::unique_ptr<Model>, std::string> make_model(const std::string& spec, const ModelOptions& options = {});

// What to take when neither a flag nor the configuration names a model: anthropic when its key is in the environment,
// else nothing (empty). Never a script.
std::string default_model();

}  // namespace errand
