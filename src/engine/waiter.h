// SPDX-License-Identifier: Apache-2.0
// Engine::wait(): looks at the tasks it was named, sleeps until one of them changes, and looks again.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>

#include "engine/ports.h"
#include "engine/task_table.h"
#include "errand/wait.h"

namespace errand {

// Whose the port is, seen from a task's keeper.
using LookAtPort = std::function<PortState(pid_t keeper, std::uint16_t port)>;

// Ports have no event. They are looked at 10 times a second for 10 s, then twice a second, whatever else wakes the
// wait.
class PortClock {
 public:
  explicit PortClock(std::chrono::steady_clock::time_point start) : start_(start), next_(start) {}
  // True when it is time for a look, which is then taken.
  bool due(std::chrono::steady_clock::time_point now);
  std::chrono::steady_clock::time_point next() const { return next_; }

 private:
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;
};

// Agents and workflows have no pipe and no processes of their own: only their exit can be waited for.
bool can_be_waited_for(TaskKind task, WaitUntil::Kind until);

// On the caller's thread. `look_at_port` is the seam for the tests of what cannot be had at will.
WaitResult wait_for_tasks(TaskTable& table, const WaitRequest& request, const std::stop_token& stop,
                          const LookAtPort& look_at_port = port_state);

}  // namespace errand
