// SPDX-License-Identifier: Apache-2.0
// Engine::wait(): looks at the tasks it was named, sleeps until one of them changes, and looks again.
#pragma once

#include <functional>
#include <stop_token>

#include "engine/ports.h"
#include "engine/task_table.h"
#include "errand/wait.h"

namespace errand {

// Whose the port is, seen from a task's keeper.
using LookAtPort = std::function<PortState(pid_t keeper, std::uint16_t port)>;

// Agents and workflows have no pipe and no processes of their own: only their exit can be waited for.
bool can_be_waited_for(TaskKind task, WaitUntil::Kind until);

// On the caller's thread. `look_at_port` is the seam for the tests of what cannot be had at will.
WaitResult wait_for_tasks(TaskTable& table, const WaitRequest& request, const std::stop_token& stop,
                          const LookAtPort& look_at_port = port_state);

}  // namespace errand
