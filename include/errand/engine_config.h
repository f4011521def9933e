// SPDX-License-Identifier: Apache-2.0
// What the engine is told at its start: limits, folders, the shell.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace errand {

struct EngineConfig {
  int max_concurrent_background = 5;                    // RUNNING shell tasks; 1..10000
  std::size_t max_output_chars = 65536;                 // retained bytes of a running task; 1024..16777216
  std::uint64_t max_output_file_bytes = 67108864;       // 131072..
  std::uint64_t max_session_output_bytes = 1073741824;  // 0 = none
  std::uint64_t min_free_bytes = 536870912;             // 0 = none
  std::chrono::milliseconds stop_grace{2000};           // 0..60000
  std::chrono::milliseconds output_drain{100};          // 0..5000
  int max_survivor_tasks = 20;                          // 0 = no limit

  // Private folder for the output files, made (0700) at the first launch; empty: no files are written.
  std::string output_folder;
  // The keeper program; empty: beside the running executable, then where it was installed.
  std::string keeper_path;
  // The shell's path; empty: bash when it is installed, else sh.
  std::string shell;
  // Names removed from a task's environment, and pairs set in it over the defaults (an empty optional unsets).
  std::vector<std::string> hidden_environment;
  std::vector<std::pair<std::string, std::optional<std::string>>> environment;
  // The number of the first id is first_id; a resumed session goes on from the highest that its file knows.
  std::uint64_t first_id = 1;
};

// The first value out of range, as text ("max_output_chars: 12 is out of range (1024..16777216)"), or nothing.
std::optional<std::string> validate(const EngineConfig& config);

}  // namespace errand
