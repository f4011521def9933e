// SPDX-License-Identifier: Apache-2.0
#include "engine/output_budget.h"

#include <algorithm>

#include "base/clock.h"

namespace errand {

std::uint64_t OutputBudget::take(std::uint64_t bytes) {
  if (max_bytes_ == 0) return bytes;
  const MutexLock lock(mutex_);
  const std::uint64_t taken = std::min(bytes, max_bytes_ - std::min(used_, max_bytes_));
  used_ += taken;
  return taken;
}

void OutputBudget::give_back(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  used_ -= std::min(bytes, used_);
}

void OutputBudget::force(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  used_ += bytes;
}

std::uint64_t OutputBudget::writable(int fd, std::uint64_t bytes, bool now) {
  if (min_free_ == 0) return bytes;
  {
    const MutexLock lock(mutex_);
    const bool known = !now && asked_ms_ != 0 && monotonic_ms() - asked_ms_ < kAskAgainMs;
    if (known && above_floor_ >= bytes) {
      above_floor_ -= bytes;
      return bytes;
    }
  }
  // Outside the lock: a disk that hangs may hang here too.
  const long long free = system_.free_bytes(fd);
  // Who cannot say how much is free is not held back: the disk itself will say when it is full.
  if (free < 0) return bytes;
  const auto size = static_cast<std::uint64_t>(free);
  const MutexLock lock(mutex_);
  asked_ms_ = monotonic_ms();
  above_floor_ = size - std::min(size, min_free_);
  const std::uint64_t granted = std::min(bytes, above_floor_);
  above_floor_ -= granted;
  return granted;
}

std::string OutputBudget::limit_text() const {
  return "session limit of " + std::to_string(max_bytes_) + " bytes reached";
}

std::string OutputBudget::floor_text() const { return "free space below " + std::to_string(min_free_) + " bytes"; }

}  // namespace errand
