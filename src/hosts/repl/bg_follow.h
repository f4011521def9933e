// SPDX-License-Identifier: Apache-2.0
// `/bg wait`, `/bg output -f`, `/bg watch`: the commands that wait for what tasks do. Each runs on its caller's thread
// until it has come to its end or is stopped.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "errand/engine.h"
#include "repl/jobs.h"

namespace errand::repl {

// "500ms", "30s", "2m", "1h"; nothing for anything else.
std::optional<std::chrono::milliseconds> parse_time(std::string_view text);

// Waits for the end of all these; without a time for as long as it takes. A line for each.
std::string wait_for(const Engine& engine, std::vector<std::string> ids, std::optional<std::chrono::milliseconds> time,
                     const std::stop_token& stop);

// "=== bg-1 (RUNNING) ===", the last lines, then every line as it comes until the output ends; one without a newline
// when it has stood still for a second.
std::string follow(const Engine& engine, const std::string& id, std::size_t lines, const std::stop_token& stop,
                   const Jobs::Say& say);

// The matching lines, as they come, until the output ends.
std::string watch(const Engine& engine, const std::string& id, const std::string& regex, const std::stop_token& stop,
                  const Jobs::Say& say);

}  // namespace errand::repl
