// SPDX-License-Identifier: Apache-2.0
// The REPL without a terminal: lines in, plain text out, no prompt, nobody asked. Each line waits for the end of what
// the one before it began. At the end of the input it stays until no turn runs and no task is left, then ends.
#pragma once

#include "repl/repl.h"

namespace errand::repl {

int run_on_pipe(ReplOptions options);

}  // namespace errand::repl
