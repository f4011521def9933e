// SPDX-License-Identifier: Apache-2.0
// Watching what a task prints: Engine::watch() hands every line that matches a pattern (see wait.h) to a callback, in
// batches, first what is retained, then what comes, until the output ends or the handle is destroyed. It only looks on:
// no watch changes, slows or ends a task.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace errand {

// A watch's event: what matched since the last one.
struct WatchBatch {
  std::string text;           // matching lines, each with its newline; notes on dropped ones included
  std::size_t lines = 0;      // matching lines in it
  std::uint64_t dropped = 0;  // matching lines that were dropped just before these
  // Lines of a flood that a slow pattern (see wait.h) was not sought in, which a note in the text says too.
  std::uint64_t passed_over = 0;
  bool last = false;  // the output has ended: the last call; its text may be empty

  // A batch is handed over `kGather` after its first line and has at most kMaxCharacters, so a second has at most five.
  // What matches faster queues up; when kMaxQueued characters wait, the oldest lines are dropped, and the next batch
  // begins with "(12 matching lines dropped)".
  static constexpr std::chrono::milliseconds kGather{200};
  static constexpr std::size_t kMaxCharacters = 3000;
  static constexpr std::size_t kMaxQueued = 30'000;
};
using WatchCallback = std::function<void(const WatchBatch&)>;

// The handle of a watch. The callback runs on a thread of the watch's own, one call at a time; it may block: then lines
// queue up and are dropped, and neither the task nor anybody else is delayed. Destroying the handle ends the watch and
// waits for a call in progress, so it must not be done within the callback. It may outlive the engine.
class Watch {
 public:
  class Impl;
  explicit Watch(std::unique_ptr<Impl> impl);
  Watch(Watch&&) noexcept;
  Watch& operator=(Watch&&) noexcept;
  ~Watch();

  // The last batch has been handed over.
  bool ended() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace errand
