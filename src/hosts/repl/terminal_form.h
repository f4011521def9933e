// SPDX-License-Identifier: Apache-2.0
// The REPL in a terminal: the line stays editable while the model works, while notices arrive and while questions are
// open; everything else is printed above it.
#pragma once

#include "repl/repl.h"

namespace errand::repl {

// Nothing when standard input or output is no terminal that can be driven (TERM=dumb).
bool terminal_is_usable();

int run_in_terminal(ReplOptions options);

}  // namespace errand::repl
