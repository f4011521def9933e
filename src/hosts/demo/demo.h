// SPDX-License-Identifier: Apache-2.0
// `errand demo`: the REPL on a conversation that is played, over a project that is made for it in a temporary folder.
// Only the model is a script; the compiler, the tests, the server and everything about them are real processes.
#pragma once

#include <string>

namespace errand::demo {

// The exit code: 0; 1 and the reason on stderr when something did not happen; 128 + signal when it was interrupted.
int run_demo(const std::string& version);

}  // namespace errand::demo
