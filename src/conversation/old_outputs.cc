// SPDX-License-Identifier: Apache-2.0
#include "conversation/old_outputs.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "conversation/session_lock.h"

namespace errand {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

// The names in a folder, or none. A link is no folder.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!is_folder(folder)) return found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    found.push_back(it->path());
  }
  return found;
}

bool is_output(const fs::path& path) {
  std::error_code error;
  return path.extension() == ".output" && fs::is_regular_file(fs::symlink_status(path, error));
}

std::vector<fs::path> outputs_before(const fs::path& folder, fs::file_time_type limit) {
  std::vector<fs::path> old;
  for (const fs::path& path : entries(folder)) {
    std::error_code error;
    if (is_output(path) && fs::last_write_time(path, error) < limit && !error) old.push_back(path);
  }
  return old;
}

}  // namespace

std::size_t remove_old_outputs(const std::string& state_home, std::chrono::seconds age, const std::stop_token& stop) {
  const fs::file_time_type limit = fs::file_time_type::clock::now() - age;
  std::size_t removed = 0;
  for (const fs::path& project : entries(fs::path(state_home) / "projects")) {
    for (const fs::path& session : entries(project)) {
      const fs::path folder = session / "tasks";
      if (!is_folder(session) || outputs_before(folder, limit).empty()) continue;
      SessionLock lock;
      if (!lock.acquire((session / "lock").string()).empty()) continue;
      // Looked at again: until the lock was ours the session may have lived, and written.
      for (const fs::path& path : outputs_before(folder, limit)) {
        if (stop.stop_requested() || removed == kMostRemovedOutputs) return removed;
        std::error_code error;
        if (fs::remove(path, error)) ++removed;
      }
      std::error_code error;
      fs::remove(folder, error);  // only if nothing is left in it
    }
    if (stop.stop_requested()) break;
  }
  return removed;
}

void remove_outputs(const std::string& folder) {
  std::error_code error;
  for (const fs::path& path : entries(folder)) {
    if (is_output(path)) fs::remove(path, error);
  }
  if (!folder.empty()) fs::remove(folder, error);
}

}  // namespace errand
