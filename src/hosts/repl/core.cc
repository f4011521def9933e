// SPDX-License-Identifier: Apache-2.0
#include "repl/core.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace errand::repl {
namespace {

constexpr std::string_view help =
    "What you type goes to the model. Besides:\n"
    "  !cmd                      run a command here; the model sees its output\n"
    "  !cmd &                    start it in the background\n"
    "  /bg                       list the background tasks\n"
    "  /bg show <id>             everything about one\n"
    "  /bg output <id> [n] [-f]  the last n lines of its output (20); -f follows\n"
    "  /bg stop <id>|all         end it, with every process that it started\n"
    "  /bg notifications         show and clear what is pending\n"
    "  /bg run <command>         start one by hand\n"
    "  /bg wait [<id>...] [30s]  until these, or all, have ended\n"
    "  /bg watch <id> <regex>    print its matching lines as they come\n"
    "  /help                     this\n"
    "  /quit                     leave; running tasks end\n"
    "Esc or Ctrl+C ends what the model is doing, then Ctrl+C what waits, follows or watches.\n"
    "Ctrl+C twice or Ctrl+D leaves.";

}  // namespace

Core::Core(ReplOptions& options, Output& output, Form& form)
    : output_(output),
      form_(form),
      typist_(options.typist),
      mark_(notice_mark()),
      session_(std::move(options.session), std::move(options.model)),
      bg_(
          session_.engine(), [this](std::string command) { return session_.run_by_hand(std::move(command)); },
          [this](const std::string& id) { return session_.stop_task(id); }, mark_),
      transcript_(output) {}

Core::~Core() { close(); }

Core::Next Core::enter(std::string_view typed) {
  const std::string_view line = trimmed(typed);
  if (line.empty()) return Next::go_on;
  if (line == "/quit" || line == "/exit") return Next::quit;
  if (line[0] == '!') {
    bang(trimmed(line.substr(1)));
  } else if (line[0] == '/') {
    slash(line);
  } else {
    session_.submit(std::string(line));
  }
  return Next::go_on;
}

void Core::bang(std::string_view command) {
  const bool escaped = command.ends_with("\\&") && !command.ends_with("\\\\&");
  const bool background = command.ends_with('&') && !command.ends_with("&&") && !escaped;
  if (background) command = trimmed(command.substr(0, command.size() - 1));
  if (command.empty()) {
    output_.line("usage: !cmd | !cmd &");
  } else if (background) {
    output_.line(launch_line(session_.run_by_hand(std::string(command))));
  } else {
    session_.submit_bang(std::string(command));
  }
}

void Core::slash(std::string_view line) {
  const std::string_view name = line.substr(0, line.find_first_of(" \t\n"));
  const std::string_view arguments = trimmed(line.substr(name.size()));
  if (name == "/help") {
    output_.line(help);
  } else if (name == "/bg") {
    const BgCommand::Pace pace = BgCommand::pace(arguments);
    if (pace == BgCommand::Pace::at_once) return output_.line(bg_(arguments));
    jobs_.start([this, text = std::string(arguments)](const std::stop_token& stop,
                                                      const Jobs::Say& say) { return bg_(text, stop, say); },
                pace == BgCommand::Pace::open_ended);
  } else {
    output_.line(fmt::format("unknown command: {} (see /help)", terminal::visible_text(name)));
  }
}

void Core::show_jobs() {
  // Not into the middle of a line that is being streamed: they come with its end, or the turn's.
  if (loading_ && output_.open_line()) return jobs_.heard();
  for (const std::string& text : jobs_.take()) output_.line(text);
}

void Core::pump() {
  for (const event::HostEvent& event : session_.events().drain()) {
    if (typist_) typist_->observe(event);
    if (const auto* loading = std::get_if<event::LoadingChange>(&event)) {
      loading_ = loading->loading;
    } else if (std::holds_alternative<event::NotificationMessageAdded>(event)) {
      // Between two turns: what the model is about to be told, the user reads first.
      if (!output_.open_line()) show_notices();
    } else if (const auto* question = std::get_if<event::PermissionAsked>(&event)) {
      form_.asked(*question);
    } else if (const auto* withdrawn = std::get_if<event::PermissionWithdrawn>(&event)) {
      form_.withdrawn(withdrawn->ask_id);
    } else if (const auto* queue = std::get_if<event::QueueChange>(&event)) {
      form_.queued(queue->queued);
    }
    transcript_.show(event);
    if (const auto* aborted = std::get_if<event::TurnAborted>(&event)) {
      if (!aborted->returned.empty()) form_.returned(aborted->returned);
    }
    if (!loading_) show_notices();
  }
  show_jobs();
  if (!loading_) show_notices();
}

void Core::show_notices() {
  for (const Notification& notice : session_.engine().notifications().drain()) output_.line(notice_line(notice, mark_));
}

bool Core::idle() { return jobs_.empty() && session_.idle(); }

bool Core::only_waits() { return !jobs_.empty() && session_.idle(); }

std::vector<TaskSnapshot> Core::living_tasks() {
  std::vector<TaskSnapshot> tasks = session_.engine().list();
  std::erase_if(
      tasks, [](const TaskSnapshot& task) { return task->status != TaskStatus::running && task->processes.empty(); });
  return tasks;
}

std::vector<std::string> Core::close() {
  if (closed_) return {};
  closed_ = true;
  jobs_.interrupt();
  const CloseReport report = session_.close();
  for (const std::string& text : jobs_.join()) output_.line(text);
  std::vector<std::string> lines;
  for (const LeftProcess& left : report.left)
    lines.push_back(fmt::format("errand: could not end: {} {} ({})", left.process.pid,
                                short_command(left.process.command, 200), left.reason));
  return lines;
}

}  // namespace errand::repl
