// SPDX-License-Identifier: Apache-2.0
#include "support/trust.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/utf8.h"
#include "support/paths.h"
#include "support/text_file.h"

namespace errand {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Two changes at a time must not lose one. The folder is the lock, since the file is replaced. Where a file system has
// no locks the change is made without.
UniqueFd lock(const std::string& state_home) {
  UniqueFd folder(::open(state_home.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  while (folder && ::flock(folder.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  return folder;
}

}  // namespace

std::string trust_file(const std::string& state_home) { return state_home + "/trusted_folders"; }

std::variant<std::vector<std::string>, std::string> trusted_folders(const std::string& state_home) {
  std::string error;
  const std::string text = read_text_file(trust_file(state_home), true, error);
  if (!error.empty()) return error;
  std::vector<std::string> folders = lines_of(text);
  std::erase_if(folders, [](const std::string& folder) { return !folder.starts_with('/'); });
  return folders;
}

std::variant<bool, std::string> set_trust(const std::string& state_home, const std::string& real_folder, bool trusted) {
  // In a file with a path a line it would be two, and the second somebody else's folder.
  if (real_folder.find('\n') != std::string::npos) {
    return fmt::format("cannot trust \"{}\": its name has a line break; rename it", clean_utf8(real_folder));
  }
  if (std::string why = ensure_private_folder(state_home); !why.empty()) return why;
  const UniqueFd locked = lock(state_home);
  std::string error;
  std::vector<std::string> lines = lines_of(read_text_file(trust_file(state_home), true, error));
  if (!error.empty()) return error;
  const bool is_there = std::find(lines.begin(), lines.end(), real_folder) != lines.end();
  if (is_there == trusted) return false;
  if (trusted) {
    lines.push_back(real_folder);
  } else {
    std::erase(lines, real_folder);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  if (std::string why = replace_private_file(trust_file(state_home), text); !why.empty()) return why;
  return true;
}

}  // namespace errand
