// SPDX-License-Identifier: Apache-2.0
// Searching files for a regular expression without a search program: what grep does where ripgrep is not installed.
// RE2, so a pattern of any form takes linear time.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>

namespace errand {

struct SearchRequest {
  enum class Mode { content, files, count };
  std::string pattern;
  std::string folder;  // absolute: paths in the answer are relative to it
  std::string path;    // file or folder, relative to `folder`, or absolute
  std::string glob;    // of names when it has no slash, else of paths; empty: every file
  bool ignore_case = false;
  int context = 0;  // lines before and after a match
  Mode mode = Mode::content;
};

struct SearchResult {
  std::string error;  // a bad pattern, a missing path
  std::string out;    // "path:3:text", context "path-2-text", "--" between groups; as ripgrep prints it
  bool cut = false;   // there was more than the bound
  bool stopped = false;
};

// Files in the order of their paths. Left out: hidden ones, binary ones, links.
SearchResult search_files(const SearchRequest& request, std::size_t most_bytes, std::stop_token stop);

}  // namespace errand
