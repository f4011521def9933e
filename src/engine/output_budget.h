// SPDX-License-Identifier: Apache-2.0
// What the output files of one engine may take of the disk, together: a limit of the session and a floor of free space
// that stays. Safe from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_annotations.h"
#include "engine/file_system.h"

namespace errand {

class OutputBudget {
 public:
  // 0: no limit, no floor.
  OutputBudget(FileSystem& system, std::uint64_t max_bytes, std::uint64_t min_free)
      : system_(system), max_bytes_(max_bytes), min_free_(min_free) {}

  FileSystem& system() const { return system_; }

  // Takes at most so many bytes of the session's total; the answer is how many.
  std::uint64_t take(std::uint64_t bytes) EXCLUDES(mutex_);
  // They were not written, or their file was removed.
  void give_back(std::uint64_t bytes) EXCLUDES(mutex_);
  // Takes them even if the total is exceeded: what is there already, and a file's last end.
  void force(std::uint64_t bytes) EXCLUDES(mutex_);

  // How many of the bytes may be written to the file's disk now without going below the floor. The disk is asked again
  // when a second has gone by or what was free has been used up, or if `now`.
  std::uint64_t writable(int fd, std::uint64_t bytes, bool now = false) EXCLUDES(mutex_);

  // Why a file stopped: "session limit of 1073741824 bytes reached"
  std::string limit_text() const;
  // "free space below 536870912 bytes"
  std::string floor_text() const;

 private:
  static constexpr std::int64_t kAskAgainMs = 1000;

  FileSystem& system_;
  const std::uint64_t max_bytes_;
  const std::uint64_t min_free_;

  Mutex mutex_;
  std::uint64_t used_ GUARDED_BY(mutex_) = 0;
  std::uint64_t above_floor_ GUARDED_BY(mutex_) = 0;  // at the last look, less what was written since
  std::int64_t asked_ms_ GUARDED_BY(mutex_) = 0;      // 0: never
};

}  // namespace errand
