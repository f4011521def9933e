// SPDX-License-Identifier: Apache-2.0
#include "engine/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace errand {
namespace {

class RealFileSystem : public FileSystem {
 public:
  int create(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : -errno;
  }
  long write(int fd, std::string_view bytes) override {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    return written >= 0 ? written : -errno;
  }
  long links(int fd) override {
    struct stat status{};
    return ::fstat(fd, &status) == 0 ? static_cast<long>(status.st_nlink) : -errno;
  }
  long long free_bytes(int fd) override {
    struct statvfs status{};
    if (::fstatvfs(fd, &status) != 0) return -errno;
    return static_cast<long long>(status.f_bavail) * static_cast<long long>(status.f_frsize);
  }
  int rename(const std::string& from, const std::string& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : -errno;
  }
  int remove(const std::string& path) override { return ::unlink(path.c_str()) == 0 ? 0 : -errno; }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem* const system = new RealFileSystem;  // never destroyed: a hung write may outlive main()
  return *system;
}

}  // namespace errand
