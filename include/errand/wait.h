// SPDX-License-Identifier: Apache-2.0
// Waiting for what tasks do: the requests and answers of Engine::wait().
//
// A wait blocks the calling thread until its condition holds for any or for all of the named tasks, until it can no
// longer hold, until its time is over, or until it is stopped. It only looks on: no wait changes, slows or ends a task.
// Ends, lines and silence are events; only ports have none and are looked for, 10 times a second for 10 s and then
// twice a second.
//
// Patterns are RE2 regular expressions, matched against each line as Engine::tail() shows it (escape sequences gone,
// `\r` frames collapsed), anywhere in it unless anchored. One that RE2 refuses, or that is too long or too complex, is
// answered with a text that says why. One that costs microseconds a byte is slow: it runs on the waiting thread, and of
// a flood it sees what it gets to; the lines passed over are counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "errand/task.h"

namespace errand {

enum class WaitMode { any, all };

struct WaitUntil {
  enum class Kind {
    exit,     // the task has ended; survivors do not count
    pattern,  // a line matches: of what is retained, the unfinished line included, then of what comes
    port,     // a process of the task (survivors count) listens on this TCP port
    quiet,    // nothing was printed for so long; a silence that began before the wait counts
  };
  Kind kind = Kind::exit;
  std::string pattern;                 // at most kMaxPattern bytes
  std::uint16_t port = 0;              // not 0
  std::chrono::milliseconds quiet{0};  // more than 0

  static constexpr std::size_t kMaxPattern = 1000;
};

struct WaitRequest {
  std::vector<std::string> ids;  // not empty; foreground ids too
  WaitMode mode = WaitMode::all;
  WaitUntil until;
  std::chrono::milliseconds timeout{25'000};  // 0: looks once
};

// What came of the wait for one task.
struct WaitAnswer {
  enum class Outcome {
    // It happened.
    ended,               // until exit; until quiet: its output has ended, so nothing will be printed any more
    matched,             // `line` holds the match
    port_open,           // by one of its processes
    port_owner_unknown,  // it is open, and whose it is cannot be read
    quiet,
    // It cannot happen any longer, or not while things are as they are.
    no_match_possible,  // the output has ended without a match
    no_port_possible,   // no process of the task is left
    port_held,          // a stranger listened on the port when the wait began
    unknown_task,       // `task` is null
    exit_only,          // agents and workflows can be waited for until exit only
    // Neither.
    pending,
  };
  std::string id;
  Outcome outcome = Outcome::pending;
  TaskSnapshot task;              // as it is at the end of the wait
  std::string line;               // as it stood when it matched
  std::uint64_t passed_over = 0;  // lines of a flood for which the pattern was too slow
  bool port_stranger = false;     // pending: at the last look a stranger listened on the port

  bool happened() const { return outcome <= Outcome::quiet; }
  bool impossible() const { return outcome > Outcome::quiet && outcome < Outcome::pending; }
};

struct WaitResult {
  enum class End {
    refused,     // `fault` says why; nothing was waited for
    happened,    // for one (any) or for each (all)
    impossible,  // for each (any) or for one (all)
    timed_out,
    stopped,  // by the stop token
  };
  End end = End::refused;
  std::string fault;                // "invalid pattern: missing ): a("
  WaitUntil until;                  // as requested
  std::vector<WaitAnswer> answers;  // one an id, in the order of the request
};

// What happened to one task, for a person or a model: "completed (exit code 0)", "matched: listening on 3000",
// "port 3000 open, by one of its processes", "port open, owner unknown",
// "port 3000 is already held by a process that is not the task's", "quiet for 5 s",
// "no match: its output has ended; failed (exit code 1)", "timed out, still running", ...
std::string wait_text(const WaitResult& result, const WaitAnswer& answer);

}  // namespace errand
