// SPDX-License-Identifier: Apache-2.0
#include "errand/engine_config.h"

#include <limits>
#include <string_view>

namespace errand {
namespace {

constexpr std::uint64_t kNoMaximum = std::numeric_limits<std::uint64_t>::max();

struct Range {
  std::string_view key;
  std::int64_t value;  // negative values are out of every range
  std::uint64_t least;
  std::uint64_t most;
};

std::int64_t clamped(std::uint64_t value) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(value < kMost ? value : kMost);
}

std::optional<std::string> check(const Range& range) {
  if (range.value >= 0 && static_cast<std::uint64_t>(range.value) >= range.least &&
      static_cast<std::uint64_t>(range.value) <= range.most) {
    return std::nullopt;
  }
  std::string text = std::string(range.key) + ": " + std::to_string(range.value) + " is out of range (" +
                     std::to_string(range.least) + "..";
  if (range.most != kNoMaximum) text += std::to_string(range.most);
  return text + ")";
}

}  // namespace

std::optional<std::string> validate(const EngineConfig& config) {
  const Range ranges[] = {
      {"max_concurrent_background", config.max_concurrent_background, 1, 10000},
      {"max_output_chars", clamped(config.max_output_chars), 1024, 16777216},
      {"max_output_file_bytes", clamped(config.max_output_file_bytes), 131072, kNoMaximum},
      {"stop_grace_ms", config.stop_grace.count(), 0, 60000},
      {"output_drain_ms", config.output_drain.count(), 0, 5000},
      {"max_survivor_tasks", config.max_survivor_tasks, 0, kNoMaximum},
      {"first_id", clamped(config.first_id), 1, kNoMaximum},
  };
  for (const Range& range : ranges) {
    if (auto fault = check(range)) return fault;
  }
  return std::nullopt;
}

}  // namespace errand
