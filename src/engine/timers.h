// SPDX-License-Identifier: Apache-2.0
// Deadlines of the supervisor loop: at most one a task and kind. For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "engine/task_table.h"

namespace errand {

enum class TimerKind : std::uint8_t {
  timeout,     // the task's own
  file,        // what has printed nothing yet gets its file, for those who follow it
  settle,      // the publication of a decided outcome is to be looked at again
  unblock,     // the file's buffer has been full since
  stop_check,  // the keeper has not answered a stop
  sweep,       // what a lost keeper left is to be looked for again
  guard,       // of no task: is somebody who is needed stopped?
  spare,       // of no task: the spare keeper
  writers,     // of no task: do the writer threads hang?
  look,        // of no task: what the trees use, and whether they are still as they were
};
constexpr std::size_t kTimerKinds = static_cast<std::size_t>(TimerKind::look) + 1;

class Timers {
 public:
  struct Due {
    Serial serial;
    TimerKind kind;
  };

  // Replaces an earlier deadline of the same kind.
  void set(Serial serial, TimerKind kind, std::int64_t at_ms) {
    clear(serial, kind);
    at_[serial][static_cast<std::size_t>(kind)] = at_ms;
    order_.emplace(at_ms, serial, kind);
  }
  void clear(Serial serial, TimerKind kind) {
    const auto it = at_.find(serial);
    if (it == at_.end()) return;
    std::int64_t& at = it->second[static_cast<std::size_t>(kind)];
    if (at != 0) order_.erase({at, serial, kind});
    at = 0;
  }
  bool is_set(Serial serial, TimerKind kind) const {
    const auto it = at_.find(serial);
    return it != at_.end() && it->second[static_cast<std::size_t>(kind)] != 0;
  }
  void forget(Serial serial) {
    for (std::size_t kind = 0; kind < kTimerKinds; ++kind) clear(serial, static_cast<TimerKind>(kind));
    at_.erase(serial);
  }
  // The next one that is due, taken out.
  std::optional<Due> take_due(std::int64_t now_ms) {
    if (order_.empty() || std::get<0>(*order_.begin()) > now_ms) return std::nullopt;
    const auto [at, serial, kind] = *order_.begin();
    clear(serial, kind);
    return Due{serial, kind};
  }
  // Milliseconds until the next one, for epoll_wait: -1 when there is none.
  int wait_ms(std::int64_t now_ms) const {
    if (order_.empty()) return -1;
    const std::int64_t left = std::get<0>(*order_.begin()) - now_ms;
    return left <= 0 ? 0 : static_cast<int>(left < 3600'000 ? left : 3600'000);
  }

 private:
  std::set<std::tuple<std::int64_t, Serial, TimerKind>> order_;
  std::unordered_map<Serial, std::array<std::int64_t, kTimerKinds>> at_;
};

}  // namespace errand
