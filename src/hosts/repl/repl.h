// SPDX-License-Identifier: Apache-2.0
// The REPL: a person (or a pipe) and one session. In a terminal one types while the model works and while notices
// arrive; without one, lines go in and plain text comes out, and nobody is asked.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/session.h"

namespace errand::repl {

// Types instead of the user: the demo. Asked whenever nothing runs.
class Typist {
 public:
  virtual ~Typist() = default;
  virtual void observe(const event::HostEvent& event) = 0;
  // The next line, once what it waits for has happened. `/quit` is a line like any other.
  virtual std::optional<std::string> next(Session& session) = 0;
};

struct ReplOptions {
  SessionOptions session;
  std::unique_ptr<Model> model;                                    // may be null
  std::vector<std::string> banner;                                 // lines
  std::chrono::milliseconds wait_limit{std::chrono::minutes(30)};  // a pipe at its end, for what never ends
  Typist* typist = nullptr;
};

// The exit code: 0; 1 when the wait limit struck or output could not be written; 128 + signal when one ended it (130
// for SIGINT). What could not be ended is named on stderr.
int run_repl(ReplOptions options);

}  // namespace errand::repl
