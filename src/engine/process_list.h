// SPDX-License-Identifier: Apache-2.0
// Reads /proc: what a task still has running. Pids are looked at, never signalled from here without a second check.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/ports.h"
#include "errand/engine.h"
#include "errand/task.h"

namespace errand {

// The living descendants of `root` (a keeper; itself left out), by pid, with their commands and listening TCP ports.
// Zombies and processes that are past their exit are no longer alive. Of a process that may not be read (another
// user's) no ports are known.
std::vector<ProcessInfo> living_descendants(pid_t root);

// All descendants of `root`, by pid, with the dead ones among them.
std::vector<pid_t> descendants(pid_t root);

// Why a stop could not end it: "not permitted", "uninterruptible", else "still running".
std::string why_left(pid_t pid);

// What a stop of the tree below `root` has left alive, and why.
std::vector<LeftProcess> left_processes(pid_t root);

// Kills (SIGKILL) every process whose environment holds one of the tokens as ERRAND_TASK_TOKEN. For each token the
// number that was found alive. One pass: a process that forks meanwhile may need another.
std::vector<int> kill_by_token(const std::vector<std::string>& tokens);

}  // namespace errand
