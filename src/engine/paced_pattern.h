// SPDX-License-Identifier: Apache-2.0
// A pattern that lines are searched for on the reader loop as long as that is cheap. RE2 is linear, but some patterns
// cost it microseconds a byte, and a flood of them would hold up the output and the ends of all tasks. Such a pattern
// is found out by the processor time that it takes, and from then on its lines are put aside for the thread of whoever
// wants to know: as many as fit; the oldest are passed over and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread_annotations.h"
#include "engine/line_pattern.h"

namespace errand {

class PacedPattern {
 public:
  static constexpr std::size_t kMostAside = 256 * 1024;  // bytes of lines

  explicit PacedPattern(std::shared_ptr<const LinePattern> pattern);

  enum class Found { no, yes, later };
  // One thread at a time. `later`: it was put aside.
  Found look(std::string_view line) EXCLUDES(mutex_);

  // Another thread: looks at the next line that was put aside. False: there is none. `match` is set if it matches.
  bool look_aside(std::optional<std::string>& match) EXCLUDES(mutex_);
  bool any_aside() const EXCLUDES(mutex_);
  // Lines passed over since this was asked.
  std::uint64_t take_passed_over() EXCLUDES(mutex_);

 private:
  bool timed(std::string_view line);

  const std::shared_ptr<const LinePattern> pattern_;
  const bool may_be_slow_;
  // The looking thread's.
  bool slow_ = false;
  unsigned short_lines_ = 0;
  std::int64_t spent_ns_ = 0;
  std::int64_t allowed_ns_;

  mutable Mutex mutex_;
  std::deque<std::string> aside_ GUARDED_BY(mutex_);
  std::size_t aside_bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t passed_over_ GUARDED_BY(mutex_) = 0;
};

}  // namespace errand
