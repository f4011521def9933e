// SPDX-License-Identifier: Apache-2.0
// What the model is told before everything else. The same bytes for a whole session: it stands at the head of every
// request's cache.
#pragma once

#include <string>
#include <vector>

namespace errand {

struct InstructionFile {
  std::string path;
  std::string text;  // valid UTF-8, cut at 64 KiB with a note
};

// AGENTS.md from the repository's root (the first folder upwards that holds .git) down to `folder`, so that the nearest
// speaks last. Without a repository only the folder's own.
std::vector<InstructionFile> project_instructions(const std::string& folder);

std::string system_prompt(const std::string& project_folder, const std::string& date,
                          const std::vector<InstructionFile>& instructions);

}  // namespace errand
