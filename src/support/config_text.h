// SPDX-License-Identifier: Apache-2.0
// The configuration as text for people: `errand config`. It is TOML again, each value with where it came from behind
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/config.h"

namespace errand {

// A value as TOML writes it: true, 12, "text", ["a", "b"].
std::string config_value_text(const ConfigValue& value);

// One line a key, in the table's order: `max_steps = 7    # /home/u/.config/errand/config.toml:3`; a list whose items
// came from several places has a line an item. `default_model`: what answers when no model is named, or nothing.
std::string config_text(const Config& config, std::string_view default_model = {});

// What a project's file sets without effect, as comments: `# allow = ["bash(*)"]    # /p/.errand/config.toml:1,
// ignored: folder not trusted`. Empty when there is nothing.
std::string ignored_text(const std::vector<GuardedSetting>& settings);

}  // namespace errand
