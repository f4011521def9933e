// SPDX-License-Identifier: Apache-2.0
// Starts each argument as a shell command, all at once, and waits for them in turn: how each ended and the last lines
// that it printed. Exit code 1 when one of them failed.
//
//   start_and_wait 'make -j2' 'sleep 1; echo done' 'exit 3'
#include <chrono>
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "errand/engine.h"

int main(int count, char** arguments) {
  using namespace std::chrono_literals;
  errand::EngineConfig config;
  config.max_concurrent_background = 100;
  errand::Engine engine(config);

  std::vector<std::string> ids;
  for (int i = 1; i < count; ++i) {
    errand::LaunchRequest request;
    request.command = arguments[i];
    request.timeout = 10min;
    const errand::LaunchResult result = engine.launch(request);
    if (const auto* rejected = std::get_if<errand::Rejected>(&result)) {
      std::fprintf(stderr, "start_and_wait: %s: %s\n", arguments[i], rejected->reason.c_str());
      continue;
    }
    ids.push_back(std::get<errand::Launched>(result).id);
  }

  bool good = ids.size() + 1 == static_cast<std::size_t>(count);
  for (const std::string& id : ids) {
    const errand::TaskSnapshot task = engine.wait_end(id, 11min);
    std::printf("%s: %s: %s\n", id.c_str(), task->command.c_str(), errand::ending_text(*task).c_str());
    std::fputs(engine.tail(id, 5)->text.c_str(), stdout);
    good = good && task->status == errand::TaskStatus::completed;
  }
  return good ? 0 : 1;
}
