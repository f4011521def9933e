// SPDX-License-Identifier: Apache-2.0
// How much of a task's output and result a notification carries.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace errand {

inline constexpr std::size_t kNoticeTailLines = 20;
inline constexpr std::size_t kNoticeTailCharacters = 2000;
inline constexpr std::size_t kNoticeResultCharacters = 8000;
inline constexpr std::size_t kNoticeCommandCharacters = 200;
inline constexpr std::size_t kNoticeProcesses = 10;

// The last lines, without the newlines at the end. Of a longer text the end is kept.
std::string notice_tail(std::string_view text);
// The head, and a count of what was cut.
std::string notice_result(std::string_view text);

}  // namespace errand
