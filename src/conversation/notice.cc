// SPDX-License-Identifier: Apache-2.0
#include "conversation/notice.h"

#include <algorithm>

#include "base/utf8.h"
#include "conversation/limits.h"
#include "support/uuid.h"

namespace errand {
namespace {

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string count_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes") + " still running";
}

std::string ending(const TaskRecord& task) {
  std::string error = task.error.value_or("");
  switch (task.cause) {
    case EndCause::exited: {
      const int code = task.exit_code.value_or(0);
      return code == 0 ? "completed (exit code 0)" : "failed with exit code " + std::to_string(code);
    }
    case EndCause::signalled:
      return "was killed by signal " + signal_text(task.signal.value_or(0));
    case EndCause::timed_out:
      return error;
    case EndCause::could_not_start: {
      const std::string prefix = "could not start: ";
      return error.rfind(prefix, 0) == 0 ? error : prefix + error;
    }
    case EndCause::keeper_lost:
      return "failed: " + (error.empty() || error == "keeper lost" ? "keeper lost; its processes were ended" : error);
    case EndCause::none:
      return "is running";
    case EndCause::cancelled:
      return "was stopped";
    case EndCause::session_ended:
      return "was stopped: the session ended";
  }
  return {};
}

}  // namespace

std::string notice_tail(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::size_t at = text.size();
  for (std::size_t lines = 0; at > 0; --at) {
    if (text[at - 1] == '\n' && ++lines == kNoticeTailLines) break;
  }
  text.remove_prefix(at);
  const std::size_t length = utf8_length(text);
  if (length > kNoticeTailCharacters) text.remove_prefix(utf8_offset(text, length - kNoticeTailCharacters));
  return std::string(text);
}

std::string notice_result(std::string_view text) {
  const std::size_t length = utf8_length(text);
  if (length <= kNoticeResultCharacters) return std::string(text);
  return std::string(text.substr(0, utf8_offset(text, kNoticeResultCharacters))) + "\n... (" +
         std::to_string(length - kNoticeResultCharacters) + " characters cut)";
}

std::string still_running_text(const std::vector<ProcessInfo>& processes) {
  std::string out;
  for (std::size_t i = 0; i < std::min(processes.size(), kNoticeProcesses); ++i) {
    if (i > 0) out += "; ";
    out += std::to_string(processes[i].pid) + " " +
           cut_middle(one_line(clean_utf8(processes[i].command)), kNoticeCommandCharacters);
    for (const auto port : processes[i].ports) out += " :" + std::to_string(port);
  }
  if (processes.size() > kNoticeProcesses)
    out += "; and " + std::to_string(processes.size() - kNoticeProcesses) + " more";
  return out;
}

std::string shell_summary(const TaskRecord& task) {
  std::string out = "Background command \"" + cut_middle(one_line(clean_utf8(task.command)), kNoticeCommandCharacters) +
                    "\" " + one_line(clean_utf8(ending(task)));
  if (!task.processes.empty()) out += "; " + count_text(task.processes.size());
  return out;
}

std::optional<TaskNotificationBlock> make_notice(const TaskRecord& task, std::string_view tail) {
  if (task.status != TaskStatus::completed && task.status != TaskStatus::failed) return std::nullopt;
  TaskNotificationBlock notice;
  notice.notice_id = new_uuid();
  notice.task_id = task.id;
  notice.task_type = to_string(task.kind);
  notice.output_file = clean_utf8(task.output_file);
  notice.status = task.status == TaskStatus::completed ? "completed" : "failed";
  notice.summary = shell_summary(task);
  notice.exit_code = task.exit_code;
  notice.signal = task.signal;
  notice.duration_ms = task.duration_ms;
  notice.still_running = still_running_text(task.processes);
  if (task.status == TaskStatus::failed) notice.tail = notice_tail(tail);
  return notice;
}

}  // namespace errand
