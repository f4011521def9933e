// SPDX-License-Identifier: Apache-2.0
#include "agent/bang.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "tools/shown_output.h"

namespace errand {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};
// Follows what the command prints, as the view shows it: complete lines, and of the unfinished one what can be said
// already. One that is written anew (a progress bar) is said again when it is complete.
class Follower {
 public:
  std::string more(const Engine& engine, const std::string& id, bool ended) {
    const auto read = engine.read(id, cursor_);
    if (!read) return {};
    std::string text;
    if (read->dropped > 0) {
      text = (said_.empty() ? "... (" : "\n... (") + std::to_string(read->dropped) + " bytes not shown) ...\n";
      said_.clear();
    }
    const std::string& last = read->unfinished;
    const std::string whole = read->text + last;
    if (whole.starts_with(said_)) {
      text += std::string_view(whole).substr(said_.size());
      said_ = last;
    } else if (!read->text.empty() || ended) {
      text += "\n" + whole;
      said_ = last;
    }
    cursor_ = read->next_cursor;
    return text;
  }

 private:
  std::uint64_t cursor_ = 0;
  std::string said_;  // of the line that begins at the cursor
};

std::string ending_of(const TaskRecord& task, bool aborted) {
  if (aborted) return "aborted";
  if (task.exit_code) return "exit code " + std::to_string(*task.exit_code);
  if (task.signal) return "signal " + signal_text(*task.signal);
  return task.error.value_or("stopped");
}

}  // namespace

BangOutcome run_bang(Engine& engine, const std::string& command, const std::string& folder, const std::stop_token& stop,
                     const std::function<void(std::string text)>& on_output) {
  BangOutcome outcome;
  outcome.block.command = command;
  LaunchRequest request;
  request.command = command;
  request.cwd = folder;
  const LaunchResult launched = engine.launch_foreground(std::move(request));
  if (const auto* rejected = std::get_if<Rejected>(&launched)) {
    outcome.block.ending = rejected->reason;
    outcome.started = false;
    return outcome;
  }
  const std::string id = std::get<Launched>(launched).id;
  TaskSnapshot task = engine.get(id);
  Follower follower;
  const auto forward = [&](bool ended) {
    if (std::string text = follower.more(engine, id, ended); !text.empty()) on_output(std::move(text));
  };
  bool aborted = false;
  while (task && task->status == TaskStatus::running) {
    if (stop.stop_requested()) {
      const StopReport report = engine.stop(id);
      aborted = report.outcome == StopReport::Outcome::stopped;
      // What could not be ended within the bound keeps running; there is nothing more to wait for.
      break;
    }
    task = engine.wait_end(id, kLook, stop);
    forward(false);
  }
  task = engine.inspect(id);
  if (!task) {
    outcome.block.ending = "its record was lost";
    return outcome;
  }
  forward(true);
  const ShownOutput output = shown_output(*task, engine.tail(id, 0).value_or(OutputTail{}));
  outcome.block.output = output.text;
  outcome.block.ending = ending_of(*task, aborted);
  if (task->id != id) {
    outcome.adopted_id = task->id;
    const std::size_t count = task->processes.size();
    outcome.block.ending +=
        "; " + std::to_string(count) + (count == 1 ? " process" : " processes") + " still running as " + task->id;
    if (count > 0) outcome.block.ending += ": " + processes_text(task->processes);
  } else {
    engine.forget(id, output.cut);
  }
  return outcome;
}

}  // namespace errand
