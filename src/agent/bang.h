// SPDX-License-Identifier: Apache-2.0
// A `!cmd` of the user: in the foreground, in the project's folder, without a question, ended by an abort with its
// whole tree. What outlives it is adopted as a task, which its ending names.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "conversation/message.h"
#include "errand/engine.h"

namespace errand {

struct BangOutcome {
  BangBlock block;
  std::string adopted_id;  // the task that its survivors became; empty: none
  bool started = true;     // false: refused, and block.ending says why
};

// `on_output` gets what is printed while it runs, on the calling thread, valid UTF-8, of a flood the newest part.
BangOutcome run_bang(Engine& engine, const std::string& command, const std::string& folder, const std::stop_token& stop,
                     const std::function<void(std::string text)>& on_output);

}  // namespace errand
