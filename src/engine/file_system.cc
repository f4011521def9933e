// SPDX-License-Identifier: Apache-2.0
#include "engine/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fd.h"

namespace errand {

FileIdentity identity_of(int fd) {
  struct statx status{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) return {};
  FileIdentity identity;
  identity.device = std::uint64_t{status.stx_dev_major} << 32 | status.stx_dev_minor;
  identity.inode = status.stx_ino;
  if ((status.stx_mask & STATX_BTIME) != 0) {
    identity.born_ns = status.stx_btime.tv_sec * 1'000'000'000 + status.stx_btime.tv_nsec;
  }
  return identity;
}

namespace {

class RealFileSystem : public FileSystem {
 public:
  int create(const std::string& path) override {
    // A FIFO is taken when somebody reads from it, never waited for; emptied is only what is surely ours.
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!fd) return errno == ENXIO ? -EEXIST : -errno;
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) return -errno;
    if (S_ISFIFO(status.st_mode)) {
      if (::fcntl(fd.get(), F_SETFL, O_APPEND) != 0) return -errno;
    } else if (!S_ISREG(status.st_mode) || status.st_nlink > 1) {
      return -EEXIST;
    } else if (status.st_size > 0 && ::ftruncate(fd.get(), 0) != 0) {
      return -errno;
    }
    return fd.release();
  }
  long write(int fd, std::string_view bytes) override {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    return written >= 0 ? written : -errno;
  }
  long links(int fd) override {
    struct stat status{};
    return ::fstat(fd, &status) == 0 ? static_cast<long>(status.st_nlink) : -errno;
  }
  FileIdentity identity(int fd) override { return identity_of(fd); }
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
