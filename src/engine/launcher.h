// SPDX-License-Identifier: Apache-2.0
// The steps of a start on the calling thread: a keeper, a pipe, the strings, one packet. Nothing of the host is copied
// and nothing is waited for; what the keeper makes of it, the supervisor hears.
#pragma once

#include <variant>

#include "engine/start_spec.h"
#include "engine/zygote_client.h"

namespace errand {

struct StartedProcess {
  KeeperChannel keeper;
  UniqueFd pipe;
};

std::variant<StartedProcess, StartError> start_process(ZygoteClient& zygotes, const StartSpec& spec);

}  // namespace errand
