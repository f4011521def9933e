// SPDX-License-Identifier: Apache-2.0
// The plan of this process: what of the engine's own calls fails.
#pragma once

#include "plan.h"

namespace errand::fault {

Plan& host_plan();

}  // namespace errand::fault
