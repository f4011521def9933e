// SPDX-License-Identifier: Apache-2.0
// background_wait: the model waits for what its tasks do.
#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "conversation/limits.h"
#include "tools/builtin.h"
#include "tools/task_text.h"

namespace errand {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kDefaultTimeoutMs = 25'000;
constexpr std::int64_t kMaxTimeoutMs = 600'000;

bool knows(const std::string& id, const ToolContext& context) {
  const TaskSnapshot task = context.engine.get(id);
  // A foreground command has no id that anybody was told.
  return task && is_visible(*task, context) && task->id == id && !id.starts_with("fg-");
}

// What each condition is called, and the argument that it needs.
struct Condition {
  WaitUntil::Kind kind;
  std::string_view name;
  std::string_view argument;
  std::string_view type;
};
constexpr std::array<Condition, 4> kConditions{{{WaitUntil::Kind::exit, "exit", "", ""},
                                                {WaitUntil::Kind::pattern, "pattern", "pattern", "string"},
                                                {WaitUntil::Kind::port, "port", "port", "integer"},
                                                {WaitUntil::Kind::quiet, "quiet", "quiet_ms", "integer"}}};

// The condition, or a fault: an argument of another condition is a misunderstanding that must not be passed over.
std::string read_until(const json::object& input, WaitUntil& until) {
  const std::string name = input.contains("until") ? string_argument(input, "until") : "exit";
  std::string missing, foreign;
  for (const Condition& condition : kConditions) {
    if (condition.name == name) {
      until.kind = condition.kind;
      if (!condition.argument.empty() && !input.contains(condition.argument)) {
        missing = "missing required argument: " + std::string(condition.argument) + " (" + std::string(condition.type) +
                  ") with until=" + name;
      }
    } else if (!condition.argument.empty() && input.contains(condition.argument)) {
      foreign = std::string(condition.argument) + " goes with until=" + std::string(condition.name) +
                ", and until is " + name;
    }
  }
  if (!missing.empty()) return missing;
  if (!foreign.empty()) return "unexpected argument: " + foreign;
  until.pattern = string_argument(input, "pattern");
  until.port = static_cast<std::uint16_t>(int_argument(input, "port", 0));
  until.quiet = milliseconds(int_argument(input, "quiet_ms", 0));
  return {};
}

class BackgroundWaitTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return true; }
  std::optional<PermissionQuery> permission(const json::object&, const ToolContext&) const override {
    return std::nullopt;
  }

  ToolResult run(const json::object& input, ToolContext& context, std::stop_token stop) override {
    WaitRequest request;
    for (const json::value& id : *get_array(input, "task_ids")) {
      std::string text(id.get_string());
      if (!knows(text, context)) return error_result(unknown_task_text(text, context));
      if (std::find(request.ids.begin(), request.ids.end(), text) == request.ids.end()) {
        request.ids.push_back(std::move(text));
      }
    }
    if (request.ids.empty()) return error_result("task_ids must not be empty");
    if (string_argument(input, "mode") == "any") request.mode = WaitMode::any;
    if (std::string fault = read_until(input, request.until); !fault.empty()) return error_result(std::move(fault));
    const std::int64_t asked = int_argument(input, "timeout_ms", kDefaultTimeoutMs);
    request.timeout = milliseconds(std::min(asked, kMaxTimeoutMs));

    const WaitResult waited = context.engine.wait(request, stop);
    if (waited.end == WaitResult::End::refused) return error_result(waited.fault);
    return describe(waited, asked, context);
  }

 private:
  static ToolResult describe(const WaitResult& waited, std::int64_t asked, const ToolContext& context) {
    ToolResult result;
    for (const WaitAnswer& answer : waited.answers) {
      result.text += (result.text.empty() ? "" : "\n") + answer.id + ": " + wait_text(waited, answer);
    }
    if (asked > kMaxTimeoutMs) {
      result.text += "\n(timeout_ms " + std::to_string(asked) + " was cut to the longest wait, " +
                     std::to_string(kMaxTimeoutMs) + ")";
    }
    for (const WaitAnswer& answer : waited.answers) {
      if (!answer.task) continue;
      const TaskRecord& task = *answer.task;
      result.text += "\n\n";
      if (task.status == TaskStatus::running) {
        result.text += trim_end(status_lines(task));
        continue;
      }
      OutputTail tail = context.engine.tail(answer.id, kTailLines).value_or(OutputTail{});
      tail.text = notice_tail(tail.text);
      result.text += output_text(task, tail);
      result.ends_shown.push_back(answer.id);
      result.is_error = result.is_error || task.status == TaskStatus::failed;
    }
    return result;
  }

  static constexpr std::size_t kTailLines = 20;

  const ToolSpec spec_ = make_spec(
      "background_wait",
      "Waits until background tasks have ended, or print a line that matches, or listen on a port, or have been quiet "
      "for a while, and says for each task what happened. What has happened already is answered at once, and so is "
      "what can no longer happen. When the time is over it says that the task is still running; the task is never "
      "affected. Use it when you cannot go on without the result, e.g. until a server is ready; otherwise go on with "
      "other work: a notification tells you when a task ends.",
      R"json({"type": "object", "properties": {
        "task_ids": {"type": "array", "items": {"type": "string"}, "description": "The ids that background_bash answered, e.g. [\"bg-1\"]"},
        "mode": {"type": "string", "enum": ["any", "all"], "description": "Return when it has happened for any of the tasks, or for all (the default)"},
        "until": {"type": "string", "enum": ["exit", "pattern", "port", "quiet"], "description": "exit (the default): the task has ended; pattern: a line of its output matches; port: one of its processes listens; quiet: it printed nothing for quiet_ms"},
        "pattern": {"type": "string", "description": "For until=pattern: a regular expression (RE2) that is sought in each line, in those printed before the call too"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "For until=port: the TCP port"},
        "quiet_ms": {"type": "integer", "minimum": 1, "maximum": 2147483647, "description": "For until=quiet: how long nothing was printed"},
        "timeout_ms": {"type": "integer", "minimum": 0, "maximum": 2147483647, "description": "How long to wait; default 25000, at most 600000"}
      }, "required": ["task_ids"]})json");
};

}  // namespace

std::unique_ptr<Tool> make_background_wait_tool() { return std::make_unique<BackgroundWaitTool>(); }

}  // namespace errand
