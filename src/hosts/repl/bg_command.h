// SPDX-License-Identifier: Apache-2.0
// `/bg ...`: the user's hand on the background tasks. Text in, text out, over the engine alone; no terminal.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "errand/engine.h"
#include "repl/jobs.h"

namespace errand::repl {

// Without the blanks round it.
std::string_view trimmed(std::string_view text);

// How a notice begins: a bell, or a star where it cannot or shall not be shown.
enum class NoticeMark { bell, star };
// From the environment: the star with NO_COLOR or a locale that is not UTF-8.
NoticeMark notice_mark();
// "🔔 bg-1 - completed (exit code 0)", control characters removed.
std::string notice_line(const Notification& notice, NoticeMark mark);

// "make test", at most `max` characters, cut with "..."; newlines and control characters become spaces.
std::string short_command(std::string_view command, std::size_t max = 50);

// "bg-1 stopped: 2 processes ended." and the other endings of a stop.
std::string stop_line(const std::string& id, const StopReport& report);

// What `!cmd &` and `/bg run` answer.
std::string launch_line(const LaunchResult& result);

class BgCommand {
 public:
  // `run` starts a command by hand, `stop` ends a task and waits until it is gone.
  BgCommand(Engine& engine, std::function<LaunchResult(std::string)> run,
            std::function<StopReport(const std::string&)> stop, NoticeMark mark);

  // How long it takes: nothing; until it is done (stop); until something happens that may never happen (wait, watch,
  // output -f). The caller's loop should wait for none of the latter two.
  enum class Pace { at_once, busy, open_ended };
  static Pace pace(std::string_view arguments);
  // What follows "/bg" -> what is shown: lines, without the last newline. Those that are open-ended return when `stop`
  // is requested, and show what comes meanwhile through `say`.
  std::string operator()(
      std::string_view arguments, const std::stop_token& stop = {},
      const Jobs::Say& say = [](const std::string&) { return true; }) const;

 private:
  std::string list() const;
  std::string show(const std::string& id) const;
  std::string output(const std::string& id, std::size_t lines) const;
  std::string wait(const std::vector<std::string>& words, const std::stop_token& stop) const;
  std::string stop(const std::string& id) const;
  std::string stop_all() const;
  std::string notifications() const;
  std::string unknown(const std::string& id) const;

  Engine& engine_;
  std::function<LaunchResult(std::string)> run_;
  std::function<StopReport(const std::string&)> stop_;
  NoticeMark mark_;
};

}  // namespace errand::repl
