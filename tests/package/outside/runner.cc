// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <errand/engine.h>

#include <chrono>

std::string run(const std::string& command) {
  errand::Engine engine(errand::EngineConfig{});
  errand::LaunchRequest request;
  request.command = command;
  const errand::LaunchResult result = engine.launch(request);
  if (const auto* rejected = std::get_if<errand::Rejected>(&result)) return rejected->reason + "\n";
  const std::string& id = std::get<errand::Launched>(result).id;
  const errand::TaskSnapshot task = engine.wait_end(id, std::chrono::minutes(1));
  return engine.tail(id, 0)->text + errand::ending_text(*task) + "\n";
}
