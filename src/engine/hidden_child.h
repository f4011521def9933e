// SPDX-License-Identifier: Apache-2.0
// A child of the host that the host does not see: no wait(-1) of its own finds it (but with __WALL), and its end is no
// SIGCHLD. What it starts is hidden with it: a child of a child.
#pragma once

namespace errand {

// Calls `work` in such a child and returns when it has ended: 0, or errno when there could be none. The child shares
// the caller's memory, so nothing of the host is copied and what `work` writes is seen; the calling thread stands still
// meanwhile, all signals blocked. `work` must do no more than system calls and posix_spawn, and takes no lock.
int run_in_hidden_child(void (*work)(void*), void* argument);

}  // namespace errand
