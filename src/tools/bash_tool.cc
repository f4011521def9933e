// SPDX-License-Identifier: Apache-2.0
// bash: a command in the foreground, as a task without id. The folder that its shell ends in is the next one's start.
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/fd.h"
#include "base/utf8.h"
#include "permission/shell_text.h"
#include "support/paths.h"
#include "tools/builtin.h"
#include "tools/file_access.h"
#include "tools/shown_output.h"
#include "tools/task_text.h"

namespace errand {
namespace {

constexpr std::int64_t kDefaultTimeoutMs = 120000;

// A private file in which the shell leaves its folder when it exits. A descriptor would be inherited by everything that
// the command starts; a file is not.
class FolderReport {
 public:
  explicit FolderReport(const std::string& session_folder) {
    for (const std::string& folder : {session_folder, temporary_folder()}) {
      if (folder.empty()) continue;
      std::string path = folder + "/cwd-XXXXXX";
      UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
      if (!fd) continue;
      path_ = path;
      return;
    }
  }
  ~FolderReport() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  FolderReport(const FolderReport&) = delete;
  FolderReport& operator=(const FolderReport&) = delete;

  // The command with a trap before it, on the same line, so that the shell's messages keep their line numbers. A trap
  // leaves the exit status alone, also after `exit 3` and under `set -e`; the group keeps `set -x` from showing it. A
  // command that sets a trap of its own for EXIT, or execs, reports nothing, and the folder stays.
  std::string wrap(const std::string& command) const { return prefix() + command; }

  // The shell quotes the line of a syntax error, the trap in it. Its path is random, so nothing else can be meant.
  std::string without_prefix(std::string text) const {
    const std::string added = prefix();
    for (std::size_t at; !added.empty() && (at = text.find(added)) != std::string::npos;) text.erase(at, added.size());
    return text;
  }

  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    std::string folder = text.str();
    if (!folder.empty() && folder.back() == '\n') folder.pop_back();
    return folder;
  }

 private:
  std::string prefix() const {
    if (path_.empty()) return {};
    const std::string report = "{ command pwd -P >|" + shell_quote(path_) + " || :; } 2>/dev/null";
    return "trap " + shell_quote(report) + " EXIT; ";
  }

  static std::string temporary_folder() {
    const char* folder = std::getenv("TMPDIR");
    return folder && *folder == '/' ? folder : "/tmp";
  }

  std::string path_;
};

bool is_folder(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

class BashTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return false; }

  std::optional<PermissionQuery> permission(const json::object& input, const ToolContext& context) const override {
    return command_query(spec_.name, string_argument(input, "command"), context.cwd, context);
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token stop) override {
    std::vector<std::string> notes;
    // Both the folder and the project may have gone away since the last command.
    if (context.cwd != context.project_folder && !is_folder(context.cwd)) {
      notes.push_back("(" + context.cwd + " does not exist any more; this command ran in " + context.project_folder +
                      ")");
      context.cwd = context.project_folder;
    }
    const FolderReport report(context.session_folder);
    LaunchRequest request;
    request.command = string_argument(input, "command");
    request.description = string_argument(input, "description");
    request.cwd = context.cwd;
    request.owner = context.owner;
    const std::int64_t timeout_ms = int_argument(input, "timeout_ms", kDefaultTimeoutMs);
    request.timeout = std::chrono::milliseconds(timeout_ms);
    if (std::string fault = command_fault(request.command); !fault.empty()) return error_result(fault);
    request.script = report.wrap(request.command);

    LaunchResult launched = context.engine.launch_foreground(std::move(request));
    if (const auto* rejected = std::get_if<Rejected>(&launched)) return error_result(rejected->reason);
    const std::string id = std::get<Launched>(launched).id;

    // The engine ends the command at its timeout. The longer wait here is for a shell that cannot be ended.
    TaskSnapshot task = context.engine.wait_end(id, std::chrono::milliseconds(timeout_ms + kUnendableMs), stop);
    std::optional<StopReport> stopped;
    if (task && task->status == TaskStatus::running && stop.stop_requested()) stopped = context.engine.stop(id);
    if (task && !stopped && task->status == TaskStatus::running) context.engine.adopt(id);
    task = context.engine.inspect(id);
    if (!task) return error_result("the command's record was lost");

    ToolResult result = compose(*task, stopped, id, context);
    result.text = report.without_prefix(std::move(result.text));
    note_folder(report.read(), context, notes);
    for (const std::string& note : notes) result.text += "\n" + note;
    return result;
  }

 private:
  static constexpr std::int64_t kUnendableMs = 60000;

  static ToolResult compose(const TaskRecord& task, const std::optional<StopReport>& stopped, const std::string& id,
                            ToolContext& context) {
    ToolResult result;
    result.is_error = task.status == TaskStatus::failed || task.status == TaskStatus::cancelled;
    const bool aborted = stopped && stopped->outcome == StopReport::Outcome::stopped;
    if (aborted) {
      result.text = "The command was aborted by the user; its processes were ended.\n";
      if (!stopped->left.empty()) result.text = "The command was aborted by the user. " + stop_text(*stopped) + "\n";
    } else if (task.cause == EndCause::timed_out) {
      result.text = "The command " + task.error.value_or("timed out") +
                    "; it was ended with all its processes. Run what "
                    "takes longer with background_bash.\n";
    } else if (task.status == TaskStatus::cancelled) {
      result.text = "The command was ended: " + ending_text(task) + ".\n";
    } else if (task.status == TaskStatus::failed) {
      result.text = ending_lines(task);
    }
    const ShownOutput output = shown_output(task, context.engine.tail(id, 0).value_or(OutputTail{}));
    result.text += output.text.empty() ? "(no output)" : output.text;

    const bool adopted = task.id != id;
    if (adopted) {
      result.text += "\n" + adoption_note(task);
      if (task.status != TaskStatus::running) result.ends_shown.push_back(task.id);
    } else {
      context.engine.forget(id, output.cut);
    }
    return result;
  }

  static std::string adoption_note(const TaskRecord& task) {
    const std::string where = task.id + " (folder " + task.cwd + ")";
    if (task.processes.empty())
      return "(what it left running has ended; it is listed as background task " + where + ")";
    return "(" + process_count(task.processes.size()) + " of this command still run in the background as " + where +
           ": " + processes_text(task.processes) + "; background_stop ends " +
           (task.processes.size() == 1 ? "it)" : "them)");
  }

  // `folder` is where the shell stood at its exit, empty when it did not say.
  static void note_folder(const std::string& folder, ToolContext& context, std::vector<std::string>& notes) {
    if (folder.empty() || folder == context.cwd) return;
    std::string error;
    const std::string before = real_path(context.cwd, error).value_or(context.cwd);
    if (folder == before || !is_folder(folder)) return;
    if (is_inside(folder, context.project_folder)) {
      context.cwd = folder;
      notes.push_back("(the folder is now " + clean_utf8(folder) + ")");
    } else {
      notes.push_back("(" + clean_utf8(folder) + " is outside the project; the folder is still " + context.cwd + ")");
    }
  }

  const ToolSpec spec_ = make_spec(
      "bash",
      "Runs a shell command (bash) and waits for its end; answers with what it printed, standard output and error in "
      "order. The folder is kept from call to call while it stays inside the project; variables are not. At the "
      "timeout "
      "the command is ended with all its processes: run what takes long or does not end (builds, servers) with "
      "background_bash instead. There is no terminal and standard input is empty.",
      R"json({"type": "object", "properties": {
        "command": {"type": "string", "description": "The shell command"},
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600000, "description": "End it after this time; default 120000"},
        "description": {"type": "string", "description": "What it does, in a few words"}
      }, "required": ["command"]})json");
};

}  // namespace

std::unique_ptr<Tool> make_bash_tool() { return std::make_unique<BashTool>(); }

}  // namespace errand
