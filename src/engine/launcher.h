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

// Watches the two descriptors of a process that is about to be started: nothing may start that nobody can watch.
class ProcessWatch {
 public:
  virtual ~ProcessWatch() = default;
  // 0 or errno. Called again, with another keeper, when the first one turned out to be dead.
  virtual int watch(int keeper, int pipe) = 0;
  // The start failed.
  virtual void unwatch(int keeper, int pipe) = 0;
};

std::variant<StartedProcess, StartError> start_process(ZygoteClient& zygotes, const StartSpec& spec,
                                                       ProcessWatch& watch);

}  // namespace errand
