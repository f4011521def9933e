// SPDX-License-Identifier: Apache-2.0
// What a task's shell is given: which shell, which environment, which folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "errand/engine_config.h"

namespace errand {

// NAME=value strings: the host's environment, less what is hidden, plus what every task gets, plus the configured
// pairs. `task_id` empty: the task has none (a foreground command).
std::vector<std::string> task_environment(const EngineConfig& config, std::string_view task_id, std::string_view token);

// 32 hexadecimal digits that nobody can guess.
std::string random_token();

// The configured shell; else bash where PATH or /bin, /usr/bin have it; else sh.
std::string find_shell(const EngineConfig& config);

// Kotlin's isBlank(): empty, or nothing but white space, Unicode's included.
bool is_blank(std::string_view text);

}  // namespace errand
