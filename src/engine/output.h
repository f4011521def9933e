// SPDX-License-Identifier: Apache-2.0
// What a task has printed: counters, the retained tail of the view, and the file. The reader loop appends; anyone may
// read, and may listen to the lines that come.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_annotations.h"
#include "engine/line_store.h"
#include "engine/output_file.h"
#include "engine/saved_output.h"
#include "engine/view.h"
#include "errand/engine.h"

namespace errand {

// Told of lines as the view shows them, on the reader loop (or, for what was printed before, by listen()), under the
// output's lock: must not block and must not call the output.
class LineListener {
 public:
  virtual ~LineListener() = default;
  // A complete line, without its newline.
  virtual void on_line(std::string_view text) = 0;
  // After each piece of output that leaves a line unfinished.
  virtual void on_unfinished(std::string_view text) = 0;
  // The output has ended: nothing follows.
  virtual void on_end() = 0;
};

class Output : private LineSink {
 public:
  // `file` may be null: nothing is written.
  Output(std::size_t max_retained, std::unique_ptr<OutputFile> file);

  // --- the reader loop's side ---
  // What the file says to it; `chunk` is the size of the next read.
  OutputFile::Appended append(std::string_view bytes, std::size_t chunk, bool after_end) EXCLUDES(mutex_);
  // No process holds the pipe any longer.
  void finish() EXCLUDES(mutex_);
  // The pipe could not be read: what its processes still print is lost, and the record says so.
  void reading_failed(int error) EXCLUDES(mutex_);

  // Bytes of memory that the retained text takes.
  std::size_t retained_bytes() const EXCLUDES(mutex_);
  // Of an ended task: gives its memory back. What was printed is read from the file from now on.
  void free_memory() EXCLUDES(mutex_);

  // --- any thread ---
  // Those of an ended task may have to read its file.
  OutputTail tail(std::size_t lines) const EXCLUDES(mutex_);
  OutputRead read(std::uint64_t cursor) const EXCLUDES(mutex_);
  // Replays what is retained (lines, the unfinished one, the end if it has come), then tells of everything that comes:
  // no line is lost or told twice.
  void listen(std::shared_ptr<LineListener> listener) EXCLUDES(mutex_);
  void unlisten(const LineListener* listener) EXCLUDES(mutex_);
  std::size_t listeners() const EXCLUDES(mutex_);
  // The record's fields about output.
  void describe(TaskRecord& record) const EXCLUDES(mutex_);
  OutputFile* file() const { return file_.get(); }

 private:
  // What is retained and shown: at most max_retained_ bytes.
  struct Shown {
    std::string lines;
    std::uint64_t begin = 0;  // raw offset of the first line
    std::string unfinished;
    bool dropped = false;  // something before it
    bool lines_cut = false;
  };
  Shown shown(std::uint64_t after) const REQUIRES(mutex_);
  bool truncated() const REQUIRES(mutex_);
  // Set once the memory has been freed.
  std::optional<SavedOutput> saved() const REQUIRES(mutex_);
  std::string unfinished(bool* cut) const REQUIRES(mutex_);

  // Of the view, within append().
  void plain_lines(std::string_view lines) override NO_THREAD_SAFETY_ANALYSIS;
  void line(std::string_view text, std::uint64_t raw_bytes, bool cut) override NO_THREAD_SAFETY_ANALYSIS;

  const std::size_t max_retained_;
  const std::unique_ptr<OutputFile> file_;
  mutable Mutex mutex_;
  LineStore lines_ GUARDED_BY(mutex_);
  std::unique_ptr<View> view_ GUARDED_BY(mutex_);            // from the first byte to the end
  std::optional<std::string> last_line_ GUARDED_BY(mutex_);  // after the end: the one without newline
  std::vector<std::shared_ptr<LineListener>> listeners_ GUARDED_BY(mutex_);
  bool lines_cut_ GUARDED_BY(mutex_) = false;
  bool freed_ GUARDED_BY(mutex_) = false;
  bool truncated_before_free_ GUARDED_BY(mutex_) = false;
  std::uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_after_end_ GUARDED_BY(mutex_) = 0;
  std::optional<std::int64_t> last_at_ms_ GUARDED_BY(mutex_);  // wall
  std::int64_t last_at_monotonic_ms_ GUARDED_BY(mutex_) = 0;
  bool finished_ GUARDED_BY(mutex_) = false;
  int read_error_ GUARDED_BY(mutex_) = 0;  // errno
};

// The last `lines` lines of a text; 0: all of them.
std::string_view last_lines(std::string_view text, std::size_t lines);

}  // namespace errand
