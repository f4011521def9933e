// SPDX-License-Identifier: Apache-2.0
// Writes the output files, off the reader loop. One thread does it; when its write does not return another takes over,
// up to four, so that one file that hangs holds up no other. Files that wait are served in turn, a batch each.
#pragma once

#include <functional>
#include <memory>

#include "engine/output.h"

namespace errand {

class FileWriter {
 public:
  static constexpr int kMaxThreads = 4;
  static constexpr std::int64_t kStuckMs = 2000;    // without progress for so long, a file is given up
  static constexpr std::int64_t kTakeOverMs = 200;  // and for so long, a thread's other work
  static constexpr std::int64_t kNoThreadMs = 10;   // between tries to start one, when the system gives none

  // Called on a writer thread after a piece of work that somebody waits for, with the serial given to enqueue().
  using Progress = std::function<void(std::uint64_t serial)>;

  explicit FileWriter(Progress progress);
  // stop(), without waiting for what hangs.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // The file has work. Cheap when it is queued already. Answers when to look_after() it.
  std::int64_t enqueue(std::uint64_t serial, std::shared_ptr<Output> output);
  // Starts another thread when all of them hang. Answers when to look again (monotonic ms), or 0: nothing is at work.
  std::int64_t look_after(std::int64_t now_ms);
  // When writing this file got on last (monotonic ms); while it waits for its turn, when any did.
  std::int64_t progress_ms(const Output& output) const;
  // Writes what is queued, at most for `wait_ms`, then leaves threads that hang to themselves. When the system gives no
  // thread at all, on the calling one.
  void stop(std::int64_t wait_ms);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state, int index);
  bool start_thread();

  std::shared_ptr<State> state_;
};

}  // namespace errand
