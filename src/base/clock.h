// SPDX-License-Identifier: Apache-2.0
// The two clocks: wall for what people read, monotonic for durations.
#pragma once

#include <cstdint>

namespace errand {

std::int64_t wall_ms();       // since the epoch
std::int64_t monotonic_ms();  // since an unspecified start

// Both, for those who are tested with clocks of the test's own.
struct Clocks {
  std::int64_t (*wall)() = wall_ms;
  std::int64_t (*monotonic)() = monotonic_ms;
};

}  // namespace errand
