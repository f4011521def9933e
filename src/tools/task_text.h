// SPDX-License-Identifier: Apache-2.0
// How tasks are worded for the model, and in part for people: one place, so that every tool says the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "errand/engine.h"
#include "tools/tool.h"

namespace errand {

// "1 process", "2 processes"
std::string process_count(std::size_t count);
// Without the whitespace at its end.
std::string_view trim_end(std::string_view text);

// The answer of background_output: "Task bg-1 is FAILED.\nExit code: 7\n\nOutput:\n...".
std::string output_text(const TaskRecord& task, const OutputTail& tail);
// Its first lines, without the output: "Task bg-1 is RUNNING.\nRunning for 12 s, last output 3 s ago.\n".
std::string status_lines(const TaskRecord& task);
// The same with a cursor: "...\n\nOutput:\n(20 bytes dropped)\nnew line\n(unfinished) rest\nNext cursor: 120".
std::string new_output_text(const TaskRecord& task, const OutputRead& read);
// "Exit code: 7", "Signal: 9 (SIGKILL)", "Error: ..." with a newline after each; empty for what has none.
std::string ending_lines(const TaskRecord& task);
// "Task bg-2 stopped: 3 processes ended.", "Task bg-2 has already finished (COMPLETED); nothing to stop.", ...
// The report is of a known task.
std::string stop_text(const StopReport& report);
// "bg-2  [FAILED]  make  exit=2": the command in one line of at most 50 characters, and what is left running.
std::string task_line(const TaskRecord& task);
// "Background tasks (2):\n  bg-1  [RUNNING]  ./gradlew test\n  ...", or "No background tasks."
std::string task_list_text(const std::vector<TaskSnapshot>& tasks);

// The tasks that a conversation may read and stop: its own, and for the main one every subagent's.
std::vector<TaskSnapshot> visible_tasks(const ToolContext& context);
bool is_visible(const TaskRecord& task, const ToolContext& context);
// "task not found: bg-9 (known: bg-1, bg-2)"
std::string unknown_task_text(std::string_view id, const ToolContext& context);

}  // namespace errand
