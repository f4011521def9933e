// SPDX-License-Identifier: Apache-2.0
// Starts the shell of a task as a child of the caller.
//
// The child borrows the caller's memory until it has executed the shell (clone with VM and VFORK): what it costs does
// not depend on the caller, and a failure comes back through a variable. The caller waits meanwhile, with every signal
// blocked and no handler installed.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "protocol.h"

namespace errand::keeper {

struct Shell {
  const char* cwd = nullptr;
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int output = -1;  // the child's 1 and 2
  int duplex = -1;  // the child's 0 and 1 when there is one; else 0 is what the caller's 0 is
  std::uint64_t nofile_soft = 0;
};

struct Started {
  pid_t pid = -1;  // -1: it could not be started, and nothing is left of it
  StartStep step = StartStep::none;
  int error = 0;
};

Started start_shell(const Shell& shell);

// Goes most of the way to a start that fails, so that the pages which a start writes to are the caller's own already
// and a real one need not wait for them. For a spare keeper that has time.
void rehearse_start();

}  // namespace errand::keeper
