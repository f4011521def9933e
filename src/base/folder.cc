// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <sys/stat.h>

#include <cerrno>

namespace errand {

int make_private_folder(const std::string& path) {
  struct stat info{};
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    // An existing parent may be one that we could not make (read-only, automounted), so ask first.
    if (::stat(folder.c_str(), &info) != 0) {
      if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return -errno;
      if (::stat(folder.c_str(), &info) != 0) return -errno;
    }
    if (!S_ISDIR(info.st_mode)) return -ENOTDIR;
    if (end == std::string::npos) break;
  }
  if ((info.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0) return -errno;
  return 0;
}

}  // namespace errand
