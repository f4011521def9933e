// SPDX-License-Identifier: Apache-2.0
#include "cli/settings.h"

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "support/paths.h"

namespace errand::cli {
namespace {

// The configuration has refused every other word.
PermissionMode mode_of(const std::string& word) {
  if (word == "accept-edits") return PermissionMode::accept_edits;
  if (word == "plan") return PermissionMode::plan;
  if (word == "bypass") return PermissionMode::bypass;
  return PermissionMode::default_mode;
}

}  // namespace

SessionOptions session_options(const Config& config, const std::string& project_folder) {
  const auto integer = [&](std::string_view key) { return static_cast<int>(config.number(key)); };
  const auto bytes = [&](std::string_view key) { return static_cast<std::uint64_t>(config.number(key)); };
  SessionOptions options;
  options.project_folder = project_folder;
  options.state_home = state_home();
  options.permission_mode = mode_of(config.text("permission_mode"));
  options.allow = config.list("allow");
  options.deny = config.list("deny");
  options.start_window_ms = integer("start_window_ms");
  options.max_steps = integer("max_steps");
  options.max_tokens = integer("max_tokens");
  options.wake_for_user_tasks = config.flag("wake_for_user_tasks");
  options.keep_outputs = config.number("output_keep_days") > 0;
  options.pass_keys = config.flag("pass_keys");

  EngineConfig& engine = options.engine;
  engine.max_concurrent_background = integer("max_concurrent_background");
  engine.max_output_chars = static_cast<std::size_t>(config.number("max_output_chars"));
  engine.max_output_file_bytes = bytes("max_output_file_bytes");
  engine.max_session_output_bytes = bytes("max_session_output_bytes");
  engine.min_free_bytes = bytes("min_free_bytes");
  engine.stop_grace = std::chrono::milliseconds(config.number("stop_grace_ms"));
  engine.output_drain = std::chrono::milliseconds(config.number("output_drain_ms"));
  engine.max_survivor_tasks = integer("max_survivor_tasks");
  engine.shell = config.text("shell");
  return options;
}

}  // namespace errand::cli
