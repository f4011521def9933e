// SPDX-License-Identifier: Apache-2.0
// Where the keeper's program is. It is looked for once, when an engine is made; the engine then opens it at its first
// launch and executes it through that descriptor, so that an upgrade of the file under a running engine breaks nothing.
#pragma once

#include <string>

#include "errand/engine_config.h"

namespace errand {

// As configured; beside the running executable; where the executable's installation has it; where the package has it
// that the executable was built against; where this library was to be installed. The first that exists, or the first
// of all when none does, so that the error names a sensible path.
std::string find_keeper(const EngineConfig& config);

}  // namespace errand
