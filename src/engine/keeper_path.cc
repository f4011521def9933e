// SPDX-License-Identifier: Apache-2.0
#include "engine/keeper_path.h"

#include <unistd.h>

#include <climits>

// Defined in programs that use the engine as a package (cmake/package_keeper.cc), null elsewhere.
extern "C" [[gnu::weak]] const char* errand_package_keeper();

namespace errand {
namespace {

constexpr const char* kName = "/errand-keeper";

std::string folder_of_executable() {
  char self[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, size > 0 ? static_cast<std::size_t>(size) : 0);
  return path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
}

}  // namespace

std::string find_keeper(const EngineConfig& config) {
  if (!config.keeper_path.empty()) return config.keeper_path;
  const std::string folder = folder_of_executable();
  const std::string candidates[] = {
      folder + kName,
      folder + "/" ERRAND_KEEPER_FROM_BIN + kName,
      errand_package_keeper != nullptr ? errand_package_keeper() : "",
      std::string(ERRAND_KEEPER_INSTALLED) + kName,
  };
  for (const std::string& candidate : candidates) {
    if (!candidate.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return candidates[0];
}

}  // namespace errand
