// SPDX-License-Identifier: Apache-2.0
// From the configuration to what a session needs.
#pragma once

#include <string>

#include "agent/session.h"
#include "support/config.h"

namespace errand::cli {

SessionOptions session_options(const Config& config, const std::string& project_folder);

}  // namespace errand::cli
