// SPDX-License-Identifier: Apache-2.0
// Times in files: "2026-01-31T12:00:00.123Z", always UTC, always milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace errand {

// Milliseconds since the epoch; what lies outside the years 0..9999 is clamped.
std::string to_iso8601(std::int64_t ms);
// The form that to_iso8601() writes; the fraction may be missing or have 1 to 9 digits (cut to milliseconds).
std::optional<std::int64_t> from_iso8601(std::string_view text);

}  // namespace errand
