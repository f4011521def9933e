// SPDX-License-Identifier: Apache-2.0
// Writes the output files, off the reader loop. One thread does it; when its write has not returned for two seconds
// another takes over, up to four. Files that wait are served in turn, a batch each.
#pragma once

#include <functional>
#include <memory>

#include "engine/output.h"

namespace errand {

class FileWriter {
 public:
  static constexpr int kMaxThreads = 4;
  static constexpr std::int64_t kStuckMs = 2000;
  static constexpr std::int64_t kNoThreadMs = 10;  // between tries to start one, when the system gives none

  // Called on a writer thread after each piece of work with the serial that was given to enqueue().
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
