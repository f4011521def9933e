// SPDX-License-Identifier: Apache-2.0
#include "engine/paced_pattern.h"

#include <ctime>
#include <utility>

namespace errand {
namespace {

constexpr int kSurelyQuick = 100;             // steps of a program; even one a byte each costs less than a task's read
constexpr std::int64_t kFreeNs = 20'000'000;  // also a quick pattern has to build its states
constexpr std::int64_t kQuickNs = 100;        // a byte; a quick one needs some five
constexpr std::size_t kShort = 32;            // bytes; of shorter lines one in kShortLines is timed
constexpr unsigned kShortLines = 16;

// Of this thread: that others keep the processors busy makes no pattern slow.
std::int64_t cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

PacedPattern::PacedPattern(std::shared_ptr<const LinePattern> pattern)
    : pattern_(std::move(pattern)), may_be_slow_(pattern_->steps() > kSurelyQuick), allowed_ns_(kFreeNs) {}

bool PacedPattern::timed(std::string_view line) {
  if (!may_be_slow_) return false;
  return line.size() > kShort || ++short_lines_ % kShortLines == 0;
}

PacedPattern::Found PacedPattern::look(std::string_view line) {
  if (slow_) {
    const MutexLock lock(mutex_);
    aside_.emplace_back(line);
    aside_bytes_ += line.size();
    while (aside_bytes_ > kMostAside || aside_.size() > kMostAside / kShort) {
      aside_bytes_ -= aside_.front().size();
      aside_.pop_front();
      ++passed_over_;
    }
    return Found::later;
  }
  if (!timed(line)) return pattern_->matches(line) ? Found::yes : Found::no;
  const std::int64_t begin = cpu_ns();
  const bool matches = pattern_->matches(line);
  spent_ns_ += cpu_ns() - begin;
  allowed_ns_ += static_cast<std::int64_t>(line.size()) * kQuickNs;
  slow_ = spent_ns_ > allowed_ns_;
  return matches ? Found::yes : Found::no;
}

bool PacedPattern::look_aside(std::optional<std::string>& match) {
  std::string line;
  {
    const MutexLock lock(mutex_);
    if (aside_.empty()) return false;
    line = std::move(aside_.front());
    aside_.pop_front();
    aside_bytes_ -= line.size();
  }
  if (pattern_->matches(line)) match = std::move(line);
  return true;
}

bool PacedPattern::any_aside() const {
  const MutexLock lock(mutex_);
  return !aside_.empty();
}

std::uint64_t PacedPattern::take_passed_over() {
  const MutexLock lock(mutex_);
  return std::exchange(passed_over_, 0);
}

}  // namespace errand
