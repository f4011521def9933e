// SPDX-License-Identifier: Apache-2.0
// The two clocks: wall for what people read, monotonic for durations.
#pragma once

#include <cstdint>

namespace errand {

std::int64_t wall_ms();       // since the epoch
std::int64_t monotonic_ms();  // since an unspecified start

}  // namespace errand
