// SPDX-License-Identifier: Apache-2.0
// Runs one of the product's own helpers (a search program) to its end and collects what it prints. No shell, no
// standard input, an empty environment but PATH and the locale, bounded output. Tasks do not go this way: they are the
// engine's.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace errand {

struct ProgramResult {
  std::string error;     // why it could not be run; the rest is then empty
  std::string out;       // at most the bound
  std::string err;       // at most 4 KiB
  bool cut = false;      // there was more: the program was ended
  bool stopped = false;  // a stop was requested: the program was ended
  std::optional<int> exit_code;
};

// argv[0] is an absolute path.
ProgramResult run_program(const std::vector<std::string>& argv, const std::string& folder, std::size_t most_bytes,
                          std::stop_token stop);

// The absolute path of a program in PATH, empty when there is none.
std::string find_program(const std::string& name);

}  // namespace errand
