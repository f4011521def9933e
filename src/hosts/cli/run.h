// SPDX-License-Identifier: Apache-2.0
// The program from its arguments to its exit code.
#pragma once

namespace errand::cli {

int run(int count, const char* const* arguments);

}  // namespace errand::cli
