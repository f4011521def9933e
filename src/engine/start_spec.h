// SPDX-License-Identifier: Apache-2.0
// What a start needs to know. Kept until the keeper has said that the shell runs: a start that nobody has read is made
// anew from it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace errand {

struct StartSpec {
  std::string cwd;
  std::string shell;
  std::string command;
  std::vector<std::string> environment;
  std::chrono::milliseconds grace{2000};
};

}  // namespace errand
