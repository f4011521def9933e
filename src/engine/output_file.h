// SPDX-License-Identifier: Apache-2.0
// A task's output file: a bounded buffer between the reader loop, which must never wait for a disk, and a writer
// thread, which may.
//
// The file only ever grows. It takes the head of the output up to its cap; from then on (or at the session's limit, at
// the floor of free space, after a write error, or when the disk hangs) nothing more is written until the output has
// ended; then one line that counts what was left out and the last 64 KiB are appended, once, if the floor allows. The
// raw bytes are written as they came.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/thread_annotations.h"
#include "engine/byte_ring.h"
#include "engine/file_system.h"
#include "engine/output_budget.h"

namespace errand {

class OutputFile {
 public:
  static constexpr std::size_t kBuffer = 512 * 1024;  // bytes waiting for the writer
  static constexpr std::size_t kRing = 64 * 1024;     // the raw end that is kept once the head is full
  static constexpr std::size_t kMarkerSpace = 128;    // reserved for the marker line

  // The budget must outlive the file; a writer's thread may hold that for longer than its engine lives.
  OutputFile(std::shared_ptr<OutputBudget> budget, std::string path, std::uint64_t max_bytes);

  // There is no folder for it: `call` failed with `error` (-errno). The file is not made and takes nothing.
  void refuse(std::string_view call, int error) EXCLUDES(mutex_);

  // --- the reader loop's side ---
  struct Appended {
    bool room = true;   // for another chunk; else read no more until the writer got on
    bool work = false;  // the writer has something to do
  };
  Appended append(std::string_view bytes, std::size_t chunk) EXCLUDES(mutex_);
  // The writer makes no progress: nothing waits for it any longer, and the record says why. No-op when it has none to
  // make.
  void give_up_on_writer(std::string_view why) EXCLUDES(mutex_);
  // The output has ended: the end of a cut file is due.
  void finish() EXCLUDES(mutex_);
  // Renames the file, by the writer.
  void rename(std::string path) EXCLUDES(mutex_);
  // True when the file holds what it is going to hold of what came so far. It may not be made yet if nothing came.
  bool settled() const EXCLUDES(mutex_);
  std::int64_t last_progress_ms() const EXCLUDES(mutex_);

  // --- the writer's side: one thread at a time ---
  // One piece of work: the first makes the file (a failure is recorded and leaves a file that takes nothing). True when
  // more is left. `spare` is a buffer that a thread keeps for all its files, so that none of them grows its own anew.
  bool work(std::string& spare) EXCLUDES(mutex_);
  bool work() {
    std::string spare;
    return work(spare);
  }
  // Whether the reader loop was told that it has to wait (for room, or until the file is settled) since this was asked.
  bool awaited() EXCLUDES(mutex_);

  // --- any thread ---
  std::string path() const EXCLUDES(mutex_);
  std::uint64_t unwritten_bytes() const EXCLUDES(mutex_);
  std::optional<std::string> error() const EXCLUDES(mutex_);
  // What the file holds of the raw output: the first `head` bytes, and its last `end` bytes behind a marker.
  struct Layout {
    std::string path;
    std::uint64_t head = 0;
    std::uint64_t marker = 0;
    std::uint64_t end = 0;
    FileIdentity identity;
  };
  Layout layout() const EXCLUDES(mutex_);
  // Renames the file now, on the calling thread.
  void rename_now(const std::string& to) EXCLUDES(mutex_);
  // Removes the file by its name.
  void remove() EXCLUDES(mutex_);

 private:
  void create() EXCLUDES(mutex_);
  bool has_work() const REQUIRES(mutex_);
  void leave_out(std::string_view bytes) REQUIRES(mutex_);
  void discharge(std::uint64_t bytes) REQUIRES(mutex_);
  // The same for bytes that had been accepted.
  void leave_out_accepted(std::string_view bytes) REQUIRES(mutex_);
  // Nothing more goes into the head. The first reason is the one that stays said.
  void stop(std::string why) REQUIRES(mutex_);
  // Writes all of it, in pieces. The bytes written; `error` is -errno or 0.
  std::size_t write_all(int fd, std::string_view bytes, long& error) EXCLUDES(mutex_);
  void write_batch(std::string_view batch) EXCLUDES(mutex_);
  void write_end() EXCLUDES(mutex_);

  const std::shared_ptr<OutputBudget> budget_;
  FileSystem& system_;
  const std::uint64_t head_limit_;

  Mutex name_mutex_;  // held over the calls that make, rename or remove the file; taken before mutex_
  mutable Mutex mutex_;
  std::string path_ GUARDED_BY(mutex_);
  bool made_ GUARDED_BY(mutex_) = false;  // or never to be made
  std::optional<std::string> rename_to_ GUARDED_BY(mutex_);
  UniqueFd fd_ GUARDED_BY(mutex_);
  FileIdentity identity_ GUARDED_BY(mutex_);
  std::string pending_ GUARDED_BY(mutex_);
  mutable bool awaited_ GUARDED_BY(mutex_) = false;
  bool in_flight_ GUARDED_BY(mutex_) = false;      // a writer is between taking work and accounting for it
  std::uint64_t accepted_ GUARDED_BY(mutex_) = 0;  // bytes of the head, written or waiting
  std::uint64_t charged_ GUARDED_BY(mutex_) = 0;   // bytes taken from the budget
  std::uint64_t left_out_ GUARDED_BY(mutex_) = 0;
  std::uint64_t written_ GUARDED_BY(mutex_) = 0;  // of the head
  std::uint64_t marker_ GUARDED_BY(mutex_) = 0;   // bytes of the marker, once it is written
  std::uint64_t end_ GUARDED_BY(mutex_) = 0;      // bytes of the ring that are written
  bool removed_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;  // nothing more goes into the head
  ByteRing ring_ GUARDED_BY(mutex_){kRing};
  bool finished_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  bool ends_with_newline_ GUARDED_BY(mutex_) = true;
  std::int64_t last_progress_ms_ GUARDED_BY(mutex_) = 0;
  std::optional<std::string> error_ GUARDED_BY(mutex_);
};

}  // namespace errand
