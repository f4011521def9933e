// SPDX-License-Identifier: Apache-2.0
// Which commands plainly only read: what mode plan lets through to the question. A list of what is known to be good, so
// that what is missing in it is only asked for too little, never run too much.
#pragma once

#include "permission/shell_parse.h"

namespace errand {

// The command itself; those inside it are judged for themselves. Writing redirections count.
bool is_plainly_read_only(const ShellCommand& command);

}  // namespace errand
