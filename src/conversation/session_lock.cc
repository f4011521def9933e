// SPDX-License-Identifier: Apache-2.0
#include "conversation/session_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

namespace errand {

std::string SessionLock::acquire(const std::string& path) {
  if (fd_) return {};
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return "cannot open \"" + path + "\": " + std::strerror(errno);
  struct flock whole{};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_OFD_SETLK, &whole) != 0) {
    if (errno != EAGAIN && errno != EACCES) return "cannot lock \"" + path + "\": " + std::strerror(errno);
    char text[32] = {};
    const ssize_t size = ::pread(fd.get(), text, sizeof text - 1, 0);
    std::string pid(text, size > 0 ? static_cast<std::size_t>(size) : 0);
    pid.erase(std::find_if(pid.begin(), pid.end(), [](unsigned char c) { return !std::isdigit(c); }), pid.end());
    return "session is in use by process " + (pid.empty() ? "?" : pid);
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  // The lock counts without its text, so a full disk does not refuse the session.
  if (::ftruncate(fd.get(), 0) == 0) (void)!::pwrite(fd.get(), pid.data(), pid.size(), 0);
  fd_ = std::move(fd);
  return {};
}

}  // namespace errand
