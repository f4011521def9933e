// SPDX-License-Identifier: Apache-2.0
#include "engine/task_text.h"

#include <csignal>
#include <cstring>

#include "base/utf8.h"
#include "errand/task.h"

namespace errand {

std::string_view to_string(TaskKind kind) {
  switch (kind) {
    case TaskKind::shell:
      return "shell";
    case TaskKind::agent:
      return "agent";
    case TaskKind::workflow:
      return "workflow";
  }
  return "?";
}

std::string_view to_string(TaskStatus status) {
  switch (status) {
    case TaskStatus::running:
      return "RUNNING";
    case TaskStatus::completed:
      return "COMPLETED";
    case TaskStatus::failed:
      return "FAILED";
    case TaskStatus::cancelled:
      return "CANCELLED";
  }
  return "?";
}

std::string signal_text(int signal) {
  std::string number = std::to_string(signal);
  if (const char* name = ::sigabbrev_np(signal)) return number + " (SIG" + name + ")";
  if (signal == SIGRTMIN) return number + " (SIGRTMIN)";
  if (signal > SIGRTMIN && signal <= SIGRTMAX) {
    return number + " (SIGRTMIN+" + std::to_string(signal - SIGRTMIN) + ")";
  }
  return number;
}

std::string seconds_text(std::chrono::milliseconds duration) {
  const auto ms = duration.count();
  std::string text = std::to_string(ms / 1000);
  if (ms % 1000 != 0) {
    std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
    while (fraction.back() == '0') fraction.pop_back();
    text += "." + fraction;
  }
  return text + " s";
}

std::string timed_out_text(std::chrono::milliseconds timeout) { return "timed out after " + seconds_text(timeout); }

std::string errno_text(int error) {
  if (const char* text = ::strerrordesc_np(error)) return text;  // strerror is not safe from several threads
  return "error " + std::to_string(error);
}

std::string could_not_start_text(std::string_view step, std::string_view object, int error) {
  std::string text = "could not start: ";
  text += step;
  if (!object.empty()) {
    text += " \"";
    text += object;
    text += '"';
  }
  return text + ": " + errno_text(error);
}

std::string ending_text(const TaskRecord& task) {
  std::string text;
  switch (task.status) {
    case TaskStatus::running:
      return "running";
    case TaskStatus::completed:
      text = "completed";
      if (task.exit_code) text += " (exit code " + std::to_string(*task.exit_code) + ")";
      break;
    case TaskStatus::failed:
      text = "failed";
      if (task.error) {
        text += " (" + *task.error + ")";
      } else if (task.signal) {
        text += " (signal " + signal_text(*task.signal) + ")";
      } else if (task.exit_code) {
        text += " (exit code " + std::to_string(*task.exit_code) + ")";
      }
      break;
    case TaskStatus::cancelled:
      text = task.cause == EndCause::session_ended ? "cancelled (session ended)" : "cancelled by user";
      break;
  }
  if (!task.processes.empty()) {
    text += "; " + std::to_string(task.processes.size());
    text += task.processes.size() == 1 ? " process still running: " : " processes still running: ";
    text += processes_text(task.processes);
  }
  return text;
}

constexpr std::size_t kProcessWidth = 200;  // characters of a command in a list of several

std::string processes_text(const std::vector<ProcessInfo>& processes, std::size_t most, std::string_view separator) {
  std::string text;
  std::size_t shown = 0;
  for (const ProcessInfo& process : processes) {
    if (shown == most) {
      text += std::string(separator) + "and " + std::to_string(processes.size() - shown) + " more";
      break;
    }
    if (shown++ > 0) text += separator;
    text += std::to_string(process.pid) + " " + cut_middle(process.command, kProcessWidth);
    for (const std::uint16_t port : process.ports) text += " :" + std::to_string(port);
  }
  return text;
}

}  // namespace errand
