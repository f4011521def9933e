// SPDX-License-Identifier: Apache-2.0
#include "tools/task_text.h"

#include "base/utf8.h"

namespace errand {
namespace {

constexpr std::size_t kCommandWidth = 50;

std::string seconds(std::int64_t ms) { return std::to_string(ms / 1000) + " s"; }

std::string left_text(const std::vector<LeftProcess>& left) {
  std::string text;
  for (const LeftProcess& each : left) {
    if (!text.empty()) text += ", ";
    text += processes_text({each.process}) + " (" + each.reason + ")";
  }
  return text;
}

std::string one_line(std::string_view command) {
  std::string line;
  for (char c : command) line += (c == '\n' || c == '\r' || c == '\t') ? ' ' : c;
  line = clean_utf8(line);
  if (utf8_length(line) <= kCommandWidth) return line;
  std::size_t bytes = 0;
  for (std::size_t count = 0; count < kCommandWidth; ++count) {
    ++bytes;
    while (bytes < line.size() && (static_cast<unsigned char>(line[bytes]) & 0xC0) == 0x80) ++bytes;
  }
  return line.substr(0, bytes) + "...";
}

}  // namespace

std::string process_count(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

std::string_view trim_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n\v\f");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

std::string ending_lines(const TaskRecord& task) {
  std::string text;
  if (task.exit_code) text += "Exit code: " + std::to_string(*task.exit_code) + "\n";
  if (task.signal) text += "Signal: " + signal_text(*task.signal) + "\n";
  if (task.error) text += "Error: " + *task.error + "\n";
  return text;
}

std::string status_lines(const TaskRecord& task) {
  std::string text = "Task " + task.id + " is " + std::string(to_string(task.status)) + ".\n";
  const bool running = task.status == TaskStatus::running;
  if (running) {
    text += "Running for " + seconds(task.duration_ms) + ", ";
    text +=
        task.last_output_age_ms ? "last output " + seconds(*task.last_output_age_ms) + " ago.\n" : "no output yet.\n";
  }
  text += ending_lines(task);
  if (!running && !task.processes.empty()) text += "Still running: " + processes_text(task.processes) + "\n";
  return text;
}

std::string output_text(const TaskRecord& task, const OutputTail& tail) {
  std::string text = status_lines(task);
  if (tail.truncated) text += "(output was truncated; showing tail)\n";
  text += "\nOutput:\n";
  const std::string_view output = trim_end(tail.text);
  text += output.empty() ? "(none yet)" : output;
  return text;
}

std::string new_output_text(const TaskRecord& task, const OutputRead& read) {
  std::string text = status_lines(task) + "\nOutput:\n";
  if (read.dropped > 0) text += "(" + std::to_string(read.dropped) + " bytes dropped)\n";
  text += read.text;
  if (!read.unfinished.empty()) text += "(unfinished) " + read.unfinished + "\n";
  if (read.text.empty() && read.unfinished.empty()) text += "(none yet)\n";
  return text + "Next cursor: " + std::to_string(read.next_cursor);
}

std::string stop_text(const StopReport& report) {
  const TaskRecord& task = *report.task;
  const std::string name = "Task " + task.id;
  const std::string status(to_string(task.status));
  if (task.kind != TaskKind::shell && report.outcome == StopReport::Outcome::stopped) return name + " stopped.";
  if (report.outcome == StopReport::Outcome::already_finished && report.left.empty()) {
    return name + " has already finished (" + status + "); nothing to stop.";
  }
  std::string text = name;
  const auto ended = static_cast<std::size_t>(report.ended);
  if (report.outcome == StopReport::Outcome::stopped) {
    text += " stopped: " + process_count(ended) + " ended";
  } else {
    text += " had already finished (" + status + "); " + std::to_string(ended) + " remaining " +
            (ended == 1 ? "process" : "processes") + " ended";
  }
  if (!report.left.empty()) text += ", " + std::to_string(report.left.size()) + " left: " + left_text(report.left);
  return text + ".";
}

std::string task_line(const TaskRecord& task) {
  std::string line = task.id + "  [" + std::string(to_string(task.status)) + "]  " + one_line(task.command);
  if (task.status == TaskStatus::running) return line;
  if (task.exit_code) line += "  exit=" + std::to_string(*task.exit_code);
  if (task.signal) line += "  signal=" + std::to_string(*task.signal);
  if (!task.processes.empty()) line += "  (" + std::to_string(task.processes.size()) + " still running)";
  return line;
}

std::string task_list_text(const std::vector<TaskSnapshot>& tasks) {
  if (tasks.empty()) return "No background tasks.";
  std::string text = "Background tasks (" + std::to_string(tasks.size()) + "):";
  for (const TaskSnapshot& task : tasks) text += "\n  " + task_line(*task);
  return text;
}

bool is_visible(const TaskRecord& task, const ToolContext& context) {
  return context.owner == "main" || task.owner == context.owner;
}

std::vector<TaskSnapshot> visible_tasks(const ToolContext& context) {
  return context.engine.list(context.owner == "main" ? std::string_view() : std::string_view(context.owner));
}

std::string unknown_task_text(std::string_view id, const ToolContext& context) {
  std::string known;
  for (const TaskSnapshot& task : visible_tasks(context)) known += (known.empty() ? "" : ", ") + task->id;
  return "task not found: " + std::string(id) + " (known: " + (known.empty() ? "none" : known) + ")";
}

}  // namespace errand
