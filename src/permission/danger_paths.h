// SPDX-License-Identifier: Apache-2.0
// How much hangs on a path: what it would mean to remove, move or overwrite it.
#pragma once

#include <string>
#include <vector>

#include "permission/shell_parse.h"

namespace errand {

enum class PathRank {
  none,
  notable,  // the project's own root, a mounted disk, keys: worth a question
  system,   // a file that the system or its boot stands on
  tree,     // a whole system tree, the root, a home
  disk,     // a disk, the memory, the kernel's own switches
};

struct PathContext {
  std::string project;               // absolute; may be empty
  std::string home;                  // absolute
  std::vector<std::string> folders;  // where relative paths may stand; empty: not known
  bool remote = false;               // not on this machine: links cannot be looked up
};

// Of a word as a command gets it: patterns count for what they may match, links for what they point to.
PathRank rank_of(const ShellWord& word, const PathContext& context);
// Of an absolute path, as it is written.
PathRank rank_of_absolute(const std::string& path, const PathContext& context);
// /dev/null and its like: writing there changes nothing.
bool is_harmless_sink(const std::string& path);

}  // namespace errand
