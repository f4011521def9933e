// SPDX-License-Identifier: Apache-2.0
// A log for those who look into the program itself. Off unless ERRAND_LOG names a level (trace, debug, info, warn,
// error; "1" is debug); then lines go to errand.log in the state home, never to the screen. The values of
// ANTHROPIC_API_KEY and OPENAI_API_KEY are struck out of every line.
#pragma once

#include <string>
#include <string_view>

namespace errand::log {

enum class Level { trace, debug, info, warn, error };

// Once, at the start of the program. An empty text, or why there is no log though one was asked for.
std::string open(const std::string& state_home);
// Whether a line of this level would be written: ask before building an expensive one.
bool enabled(Level level);
// Safe from any thread; a no-op while the log is not open.
void write(Level level, std::string_view line);

}  // namespace errand::log
