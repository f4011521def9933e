// SPDX-License-Identifier: Apache-2.0
#include "repl/bg_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "repl/bg_follow.h"
#include "terminal/text.h"

namespace errand::repl {
namespace {

constexpr std::string_view usage =
    "usage: /bg [list | show <id> | output <id> [lines] [-f] | stop <id>|all | notifications | run <command> | wait "
    "[<id>...] [time] | watch <id> <regex>]";
constexpr std::size_t default_lines = 20;

// The first word, which is removed from `text`.
std::string_view take_word(std::string_view& text) {
  text = trimmed(text);
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  text = trimmed(text.substr(word.size()));
  return word;
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> all;
  while (!trimmed(text).empty()) all.emplace_back(take_word(text));
  return all;
}

// What stands behind "output": an id, then a number of lines and -f, in any order.
struct OutputArguments {
  std::string id;
  std::size_t lines = default_lines;
  bool follow = false;
};
std::optional<OutputArguments> output_arguments(const std::vector<std::string>& given) {
  OutputArguments arguments;
  bool lines_given = false;
  for (const std::string& word : given) {
    if (word == "-f") {
      if (std::exchange(arguments.follow, true)) return std::nullopt;
    } else if (arguments.id.empty()) {
      arguments.id = word;
    } else {
      const char* const end = word.data() + word.size();
      const auto read = std::from_chars(word.data(), end, arguments.lines);
      if (read.ec != std::errc() || read.ptr != end || arguments.lines == 0) return std::nullopt;
      if (std::exchange(lines_given, true)) return std::nullopt;
    }
  }
  if (arguments.id.empty()) return std::nullopt;
  return arguments;
}

std::string processes(int count) { return fmt::format("{} process{}", count, count == 1 ? "" : "es"); }

std::string left_text(const std::vector<LeftProcess>& left) {
  std::string text;
  for (const LeftProcess& process : left) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {} ({})", process.process.pid, short_command(process.process.command, 200), process.reason);
  }
  return text;
}

std::string clock_text(std::int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

std::string duration_text(std::int64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  if (ms < 3'600'000) return fmt::format("{} min {} s", ms / 60'000, ms / 1000 % 60);
  return fmt::format("{} h {} min", ms / 3'600'000, ms / 60'000 % 60);
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  auto size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (size >= 1024 && unit + 1 < units.size()) {
    size /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", size, units[unit]);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

NoticeMark notice_mark() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color && *no_color) return NoticeMark::star;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    std::string lower(value);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos ? NoticeMark::bell
                                                                                               : NoticeMark::star;
  }
  return NoticeMark::star;
}

std::string notice_line(const Notification& notice, NoticeMark mark) {
  std::string message = terminal::plain_text(notice.message);
  std::replace(message.begin(), message.end(), '\n', ' ');
  return fmt::format("{} {} - {}", mark == NoticeMark::bell ? "🔔" : "*", notice.task_id, message);
}

std::string short_command(std::string_view command, std::size_t max) {
  std::string line(command);
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  line = terminal::plain_text(line);
  if (utf8_length(line) <= max) return line;
  std::size_t at = 0;
  for (std::size_t i = 0; i < max; ++i) {
    ++at;
    while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80) ++at;
  }
  return line.substr(0, at) + "...";
}

std::string stop_line(const std::string& id, const StopReport& report) {
  const std::string left =
      report.left.empty() ? "" : fmt::format(", {} left: {}", report.left.size(), left_text(report.left));
  const std::string_view status = report.task ? to_string(report.task->status) : "";
  switch (report.outcome) {
    case StopReport::Outcome::unknown:
      break;
    case StopReport::Outcome::stopped:
      return fmt::format("{} stopped: {} ended{}.", id, processes(report.ended), left);
    case StopReport::Outcome::already_finished:
      return fmt::format("{} has already finished ({}); nothing to stop.", id, status);
    case StopReport::Outcome::survivors_ended:
      return fmt::format("{} had already finished ({}); {} remaining process{} ended{}.", id, status, report.ended,
                         report.ended == 1 ? "" : "es", left);
  }
  return fmt::format("{}: no such task", id);
}

std::string launch_line(const LaunchResult& result) {
  if (const auto* launched = std::get_if<Launched>(&result)) return "Background task started: " + launched->id;
  return std::get<Rejected>(result).reason;
}

BgCommand::BgCommand(Engine& engine, std::function<LaunchResult(std::string)> run,
                     std::function<StopReport(const std::string&)> stop, NoticeMark mark)
    : engine_(engine), run_(std::move(run)), stop_(std::move(stop)), mark_(mark) {}

BgCommand::Pace BgCommand::pace(std::string_view arguments) {
  const std::string_view verb = take_word(arguments);
  if (verb == "stop") return Pace::busy;
  if (verb == "wait" || verb == "watch") return Pace::open_ended;
  if (verb == "output") {
    const auto given = output_arguments(words(arguments));
    if (given && given->follow) return Pace::open_ended;
  }
  return Pace::at_once;
}

std::string BgCommand::operator()(std::string_view arguments, const std::stop_token& stop_token,
                                  const Jobs::Say& say) const {
  std::string_view rest = trimmed(arguments);
  const std::string_view verb = take_word(rest);
  if (verb == "run" && !rest.empty()) return launch_line(run_(std::string(rest)));
  if (verb == "watch") {
    const std::string id(take_word(rest));
    if (rest.empty()) return std::string(usage);
    return engine_.get(id) ? watch(engine_, id, std::string(rest), stop_token, say) : unknown(id);
  }
  const std::vector<std::string> given = words(rest);
  if ((verb.empty() || verb == "list") && given.empty()) return list();
  if (verb == "notifications" && given.empty()) return notifications();
  if (verb == "show" && given.size() == 1) return show(given[0]);
  if (verb == "stop" && given.size() == 1) return given[0] == "all" ? stop_all() : stop(given[0]);
  if (verb == "wait") return wait(given, stop_token);
  if (verb == "output") {
    const auto wanted = output_arguments(given);
    if (!wanted) return std::string(usage);
    // Of what has ended nothing can be followed.
    const auto end = engine_.read(wanted->id, std::numeric_limits<std::uint64_t>::max());
    if (!wanted->follow || !end || end->ended) return output(wanted->id, wanted->lines);
    return follow(engine_, wanted->id, wanted->lines, stop_token, say);
  }
  return std::string(usage);
}

std::string BgCommand::wait(const std::vector<std::string>& given, const std::stop_token& stop_token) const {
  std::vector<std::string> ids;
  std::optional<std::chrono::milliseconds> time;
  for (const std::string& word : given) {
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      if (time) return std::string(usage);
      time = parse_time(word);
      if (!time) return std::string(usage);
    } else if (!engine_.get(word)) {
      return unknown(word);
    } else if (std::find(ids.begin(), ids.end(), word) == ids.end()) {
      ids.push_back(word);
    }
  }
  if (ids.empty()) {
    for (const TaskSnapshot& task : engine_.list()) {
      if (task->status == TaskStatus::running) ids.push_back(task->id);
    }
  }
  if (ids.empty()) return "No background task is running; nothing to wait for.";
  return wait_for(engine_, std::move(ids), time, stop_token);
}

std::string BgCommand::list() const {
  const std::vector<TaskSnapshot> tasks = engine_.list();
  if (tasks.empty()) return "No background tasks.";
  std::string text = fmt::format("Background tasks ({}):", tasks.size());
  for (const TaskSnapshot& task : tasks) {
    text += fmt::format("\n  {}  [{}]  {}", task->id, to_string(task->status), short_command(task->command));
    if (task->exit_code) text += fmt::format("  exit={}", *task->exit_code);
    if (task->signal) text += fmt::format("  signal={}", *task->signal);
    if (task->status != TaskStatus::running && !task->processes.empty())
      text += fmt::format("  ({} still running)", task->processes.size());
  }
  return text;
}

std::string BgCommand::show(const std::string& id) const {
  const TaskSnapshot task = engine_.inspect(id);
  if (!task) return unknown(id);
  const auto field = [](std::string_view name, const std::string& value) {
    return fmt::format("\n  {:<12} {}", std::string(name) + ":", value);
  };
  std::string text = fmt::format("{} [{}]", task->id, to_string(task->status));
  text += field("command", terminal::visible_text(task->command));
  if (!task->description.empty()) text += field("description", terminal::plain_text(task->description));
  text += field("folder", terminal::visible_text(task->cwd));
  if (task->exit_code) text += field("exit code", std::to_string(*task->exit_code));
  if (task->signal) text += field("signal", signal_text(*task->signal));
  if (task->error) text += field("error", terminal::plain_text(*task->error));
  text += field("started", clock_text(task->started_at_ms));
  if (task->finished_at_ms) {
    text += field("finished",
                  fmt::format("{}, after {}", clock_text(*task->finished_at_ms), duration_text(task->duration_ms)));
  } else {
    text += field("running for", duration_text(task->duration_ms));
  }
  std::string size = bytes_text(task->output_bytes);
  if (task->last_output_age_ms) size += ", the last " + duration_text(*task->last_output_age_ms) + " ago";
  if (task->output_bytes_after_end > 0)
    size += fmt::format(", {} of it after the end", bytes_text(task->output_bytes_after_end));
  text += field("output", size);
  if (!task->output_file.empty()) text += field("output file", task->output_file);
  if (task->output_unwritten_bytes > 0) text += field("not in file", bytes_text(task->output_unwritten_bytes));
  if (task->output_error) text += field("file error", *task->output_error);
  if (task->processes.empty()) {
    text += field("processes", "none");
  } else {
    text += field("processes", std::to_string(task->processes.size()));
    for (const ProcessInfo& process : task->processes) {
      text += fmt::format("\n    {} {}", process.pid, short_command(process.command, 200));
      for (const std::uint16_t port : process.ports) text += fmt::format(" :{}", port);
    }
  }
  text += field("cpu", duration_text(static_cast<std::int64_t>(task->cpu_seconds * 1000)) + " (sampled)");
  text += field("memory", bytes_text(task->peak_rss_bytes) + " at its peak (sampled)");
  return text;
}

std::string BgCommand::output(const std::string& id, std::size_t lines) const {
  const TaskSnapshot task = engine_.get(id);
  const std::optional<OutputTail> tail = engine_.tail(id, lines);
  if (!task || !tail) return unknown(id);
  std::string text = terminal::plain_text(tail->text);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) text = tail->truncated ? "(gone: its file can no longer be read)" : "(none yet)";
  return fmt::format("=== {} ({}) ===\n{}", task->id, to_string(task->status), text);
}

std::string BgCommand::stop(const std::string& id) const {
  const StopReport report = stop_(id);
  return report.outcome == StopReport::Outcome::unknown ? unknown(id) : stop_line(id, report);
}

std::string BgCommand::stop_all() const {
  std::vector<std::string> ids;
  for (const TaskSnapshot& task : engine_.list()) {
    if (task->status == TaskStatus::running || !task->processes.empty()) ids.push_back(task->id);
  }
  if (ids.empty()) return "No background task is running; nothing to stop.";
  // All are told before the first is waited for, so that their grace runs side by side.
  std::vector<StopReport> reports(ids.size());
  {
    std::vector<std::jthread> stops;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      try {
        stops.emplace_back([&, i] { reports[i] = stop_(ids[i]); });
      } catch (const std::system_error&) {  // no thread to be had: it is waited for here
        reports[i] = stop_(ids[i]);
      }
    }
  }
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) text += (i ? "\n" : "") + stop_line(ids[i], reports[i]);
  return text;
}

std::string BgCommand::notifications() const {
  std::string text;
  for (const Notification& notice : engine_.notifications().drain()) {
    if (!text.empty()) text += '\n';
    text += notice_line(notice, mark_);
  }
  return text.empty() ? "No pending notifications." : text;
}

std::string BgCommand::unknown(const std::string& id) const {
  std::string known;
  for (const TaskSnapshot& task : engine_.list()) known += (known.empty() ? "" : ", ") + task->id;
  return fmt::format("{}: no such task (known: {})", terminal::visible_text(id), known.empty() ? "none" : known);
}

}  // namespace errand::repl
