// SPDX-License-Identifier: Apache-2.0
// What a task has printed: counters, the retained tail, and the file. The reader loop appends; anyone may read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/thread_annotations.h"
#include "engine/byte_ring.h"
#include "engine/output_file.h"
#include "errand/engine.h"

namespace errand {

class Output {
 public:
  // `file` may be null: nothing is written.
  Output(std::size_t max_retained, std::unique_ptr<OutputFile> file);

  // --- the reader loop's side ---
  // What the file says to it; `chunk` is the size of the next read.
  OutputFile::Appended append(std::string_view bytes, std::size_t chunk, bool after_end) EXCLUDES(mutex_);
  // No process holds the pipe any longer.
  void finish() EXCLUDES(mutex_);

  // --- any thread ---
  OutputTail tail(std::size_t lines) const EXCLUDES(mutex_);
  // The record's fields about output.
  void describe(TaskRecord& record) const EXCLUDES(mutex_);
  OutputFile* file() const { return file_.get(); }

 private:
  const std::unique_ptr<OutputFile> file_;
  mutable Mutex mutex_;
  ByteRing retained_ GUARDED_BY(mutex_);
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_after_end_ GUARDED_BY(mutex_) = 0;
  std::optional<std::int64_t> last_at_ms_ GUARDED_BY(mutex_);  // wall
  std::int64_t last_at_monotonic_ms_ GUARDED_BY(mutex_) = 0;
  bool finished_ GUARDED_BY(mutex_) = false;
};

// The last `lines` lines (0: all) of the end of a stream, as valid UTF-8. `truncated`: bytes before these are gone, so
// the first line is part of a longer one. `finished`: nothing follows, so a code point cut at the end is a wrong one.
std::string tail_text(std::string_view bytes, std::size_t lines, bool truncated, bool finished);

}  // namespace errand
