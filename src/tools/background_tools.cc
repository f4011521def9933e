// SPDX-License-Identifier: Apache-2.0
// background_bash, background_output, background_stop, background_list: the model's hands on the engine.
#include <chrono>
#include <filesystem>

#include "tools/builtin.h"
#include "tools/task_text.h"

namespace errand {
namespace {

// Looks the id up as it is now, with its processes. Null when this conversation has no such task.
TaskSnapshot inspect_visible(const std::string& id, const ToolContext& context) {
  TaskSnapshot task = context.engine.inspect(id);
  // A foreground command has no id that anybody was told.
  if (!task || !is_visible(*task, context) || task->id != id || id.starts_with("fg-")) return nullptr;
  return task;
}

// The snapshot was taken before the output is read: what is shown as ended is shown with all its output.
ToolResult describe(const TaskRecord& task, std::size_t lines, const ToolContext& context) {
  ToolResult result;
  const OutputTail tail = context.engine.tail(task.id, lines).value_or(OutputTail{});
  result.text = output_text(task, tail);
  result.is_error = task.status == TaskStatus::failed;
  if (task.status != TaskStatus::running) result.ends_shown.push_back(task.id);
  return result;
}

std::string folder_of(const json::object& input, const ToolContext& context) {
  const std::string given = string_argument(input, "cwd");
  if (given.empty()) return context.cwd;
  return (std::filesystem::path(context.cwd) / given).lexically_normal().string();
}

class BackgroundBashTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return false; }

  std::optional<PermissionQuery> permission(const json::object& input, const ToolContext& context) const override {
    return command_query(spec_.name, string_argument(input, "command"), folder_of(input, context), context);
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token stop) override {
    LaunchRequest request;
    request.command = string_argument(input, "command");
    request.description = string_argument(input, "description");
    request.cwd = folder_of(input, context);
    request.owner = context.owner;
    if (input.contains("timeout_ms")) request.timeout = std::chrono::milliseconds(int_argument(input, "timeout_ms", 0));
    if (std::string fault = command_fault(request.command); !fault.empty()) return error_result(fault);
    const std::string command = request.command;

    LaunchResult launched = context.engine.launch(std::move(request));
    if (const auto* rejected = std::get_if<Rejected>(&launched)) return error_result(rejected->reason);
    const std::string id = std::get<Launched>(launched).id;
    if (flag_argument(input, "service")) context.service_tasks.insert(id);

    context.engine.wait_end(id, std::chrono::milliseconds(context.start_window_ms), stop);
    TaskSnapshot task = context.engine.inspect(id);
    if (task && task->status != TaskStatus::running) {
      ToolResult result = describe(*task, kTailLines, context);
      result.text = "Background task " + id + " has ended.\n" + result.text;
      return result;
    }
    return ToolResult{started_text(id, command, task ? task->output_file : std::string(), context), false, {}};
  }

  static constexpr std::size_t kTailLines = 50;

 private:
  static std::string started_text(const std::string& id, const std::string& command, const std::string& output_file,
                                  const ToolContext& context) {
    std::string text = "Background task started: " + id +
                       "\nRead what it prints with background_output, end it with background_stop (task_id: \"" + id +
                       "\").\nDo other work or end your turn: a notification comes by itself when it ends, so do not "
                       "poll. If you cannot go on before it ends, prints a line, opens a port or falls silent, use "
                       "background_wait.";
    if (!output_file.empty()) text += "\nIts whole output is written to " + output_file;
    std::string others;
    for (const TaskSnapshot& task : visible_tasks(context)) {
      // An ended one whose processes live runs, too: `server & true` is over at once.
      const bool lives = task->status == TaskStatus::running || !task->processes.empty();
      if (task->id == id || !lives || task->command != command) continue;
      others += (others.empty() ? "" : ", ") + task->id;
    }
    if (!others.empty()) text += "\nAlso running with the same command: " + others;
    return text;
  }

  const ToolSpec spec_ = make_spec(
      "background_bash",
      "Starts a shell command in the background and returns at once with its task id. Use it for what takes long "
      "(builds, test suites, downloads) or does not end by itself (dev servers, watchers), and go on with other work: "
      "a "
      "notification tells you when it ends. Do not add & to the command. What ends within a moment is answered with "
      "its "
      "output directly.",
      R"json({"type": "object", "properties": {
        "command": {"type": "string", "description": "The shell command (bash)"},
        "description": {"type": "string", "description": "What it is for, in a few words"},
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 2147483647, "description": "End it after this time; without it, it runs until it ends or is stopped"},
        "cwd": {"type": "string", "description": "Folder to run in, absolute or relative to the shell's current one (the default)"},
        "service": {"type": "boolean", "description": "true for a server or watcher that is not expected to end"}
      }, "required": ["command"]})json");
};

class BackgroundOutputTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return true; }
  std::optional<PermissionQuery> permission(const json::object&, const ToolContext&) const override {
    return std::nullopt;
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token) override {
    const std::string id = string_argument(input, "task_id");
    TaskSnapshot task = inspect_visible(id, context);
    if (!task) return error_result(unknown_task_text(id, context));
    if (input.contains("cursor")) {
      if (input.contains("tail_lines")) return error_result("give either cursor or tail_lines, not both");
      ToolResult result;
      const auto cursor = static_cast<std::uint64_t>(int_argument(input, "cursor", 0));
      result.text = new_output_text(*task, context.engine.read(id, cursor).value_or(OutputRead{}));
      result.is_error = task->status == TaskStatus::failed;
      if (task->status != TaskStatus::running) result.ends_shown.push_back(id);
      return result;
    }
    const auto lines = static_cast<std::size_t>(int_argument(input, "tail_lines", BackgroundBashTool::kTailLines));
    return describe(*task, lines, context);
  }

 private:
  const ToolSpec spec_ = make_spec(
      "background_output",
      "Shows a background task's status, its exit code when it has ended, and the last lines that it printed. Works "
      "while it runs. Do not call it again and again to wait: a notification tells you when the task ends.",
      R"json({"type": "object", "properties": {
        "task_id": {"type": "string", "description": "The id that background_bash answered, e.g. bg-1"},
        "tail_lines": {"type": "integer", "minimum": 0, "maximum": 1000000, "description": "How many of the last lines to show; default 50, 0 = everything that is retained"},
        "cursor": {"type": "integer", "minimum": 0, "maximum": 9007199254740991, "description": "Instead of tail_lines: show only what is new since an earlier answer, whose 'Next cursor' this is; 0 = from the start"}
      }, "required": ["task_id"]})json");
};

class BackgroundStopTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return false; }

  std::optional<PermissionQuery> permission(const json::object& input, const ToolContext& context) const override {
    return PermissionQuery{
        ActionKind::stop_own_task, spec_.name, string_argument(input, "task_id"), context.cwd, context.owner,
        context.project_folder};
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token) override {
    const std::string id = string_argument(input, "task_id");
    if (!inspect_visible(id, context)) return error_result(unknown_task_text(id, context));
    const StopReport report = context.engine.stop(id);
    if (report.outcome == StopReport::Outcome::unknown) return error_result(unknown_task_text(id, context));
    return ToolResult{stop_text(report), !report.left.empty(), {id}};
  }

 private:
  const ToolSpec spec_ = make_spec(
      "background_stop",
      "Stops a background task with all its processes, also what it left running after its end, and says what was "
      "ended.",
      R"json({"type": "object", "properties": {
        "task_id": {"type": "string", "description": "The id that background_bash answered, e.g. bg-1"}
      }, "required": ["task_id"]})json");
};

class BackgroundListTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return true; }
  std::optional<PermissionQuery> permission(const json::object&, const ToolContext&) const override {
    return std::nullopt;
  }

  ToolResult run(const json::object&, ToolContext& context, std::stop_token) override {
    ToolResult result;
    const std::vector<TaskSnapshot> tasks = visible_tasks(context);
    result.text = task_list_text(tasks);
    for (const TaskSnapshot& task : tasks) {
      if (task->status != TaskStatus::running) result.ends_shown.push_back(task->id);
    }
    return result;
  }

 private:
  const ToolSpec spec_ =
      make_spec("background_list", "Lists the background tasks of this conversation with their status.",
                R"json({"type": "object", "properties": {}})json");
};

}  // namespace

std::unique_ptr<Tool> make_background_bash_tool() { return std::make_unique<BackgroundBashTool>(); }
std::unique_ptr<Tool> make_background_output_tool() { return std::make_unique<BackgroundOutputTool>(); }
std::unique_ptr<Tool> make_background_stop_tool() { return std::make_unique<BackgroundStopTool>(); }
std::unique_ptr<Tool> make_background_list_tool() { return std::make_unique<BackgroundListTool>(); }

}  // namespace errand
