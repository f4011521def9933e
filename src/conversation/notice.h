// SPDX-License-Identifier: Apache-2.0
// From the record of an ended task to what the model will be told of it.
//
// Stopped tasks (by user, model or host) tell the model nothing: who stopped it knows already.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "conversation/message.h"
#include "errand/task.h"

namespace errand {

// Nothing for a running task, and for one that was cancelled or ended with the session. `tail` is the end of the
// task's output; it is used only when the task failed.
std::optional<TaskNotificationBlock> make_notice(const TaskRecord& task, std::string_view tail);

// "Background command \"make\" failed with exit code 2; 2 processes still running"
std::string shell_summary(const TaskRecord& task);

// "4711 node server.js :3000; 4712 sleep 9; and 3 more"; empty when nothing is left.
std::string still_running_text(const std::vector<ProcessInfo>& processes);

}  // namespace errand
