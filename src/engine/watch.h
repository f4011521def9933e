// SPDX-License-Identifier: Apache-2.0
// Engine::watch(): the matching lines of one task's output, gathered into batches and handed to a callback.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "engine/line_pattern.h"
#include "engine/output.h"
#include "errand/watch.h"

namespace errand {

// The lines that wait for a watch's next batch: bounded, the oldest are dropped. Not synchronised.
class WatchQueue {
 public:
  void push(std::string_view line);
  // Lines that were not looked at.
  void passed_over(std::uint64_t lines) { passed_over_ += lines; }
  bool empty() const { return lines_.empty() && passed_over_ == 0; }
  // As many of the oldest lines as a batch takes, after the note of what was dropped before them.
  WatchBatch take();

 private:
  struct Line {
    std::string text;  // with its newline
    std::size_t characters;
  };
  std::deque<Line> lines_;
  std::size_t characters_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t passed_over_ = 0;
};

std::variant<Watch, Rejected> watch_output(std::shared_ptr<Output> output, LinePattern pattern, WatchCallback callback);

}  // namespace errand
