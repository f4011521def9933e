// SPDX-License-Identifier: Apache-2.0
#include "group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>

#include "proc.h"

namespace errand::keeper {
namespace {

constexpr const char* kPrefix = "errand-";
constexpr long kCgroup2Magic = 0x63677270;
constexpr int kRemoveTries = 20;

// errand-ZYGOTE-NUMBER. The name only has to be free; that another namespace has the same pid does no harm.
ProcPath name_of(std::uint32_t number) {
  ProcPath name;
  name.word(kPrefix).number(::getpid()).word("-").number(static_cast<pid_t>(number));
  return name;
}

bool write_word(int folder, const char* file, const char* word) {
  const UniqueFd fd(::openat(folder, file, O_WRONLY | O_CLOEXEC));
  const auto size = static_cast<ssize_t>(std::strlen(word));
  return fd && ::write(fd.get(), word, static_cast<std::size_t>(size)) == size;
}

// A manager gives a group to a user by its ownership. Root owns them all, so there the manager's mark counts.
bool is_delegated(int folder) {
  struct stat info{};
  if (::fstat(folder, &info) != 0) return false;
  if (::geteuid() != 0) return info.st_uid == ::geteuid();
  for (const char* mark : {"trusted.delegate", "user.delegate"}) {
    char value = 0;
    if (::fgetxattr(folder, mark, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

UniqueFd open_folder(const char* path) { return UniqueFd(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

UniqueFd own_group() {
  char text[2048];
  const UniqueFd file(::open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC));
  const ssize_t size = file ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (size <= 0) return {};
  text[size] = '\0';
  // The line of version 2 is "0::/path".
  const char* line = std::strncmp(text, "0::/", 4) == 0 ? text : std::strstr(text, "\n0::/");
  if (line == nullptr) return {};
  const char* own = std::strchr(line, '/') + 1;
  const std::size_t length = std::strcspn(own, "\n");
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    struct statfs info{};
    if (::statfs(root, &info) != 0 || static_cast<long>(info.f_type) != kCgroup2Magic) continue;
    char path[2200];
    const std::size_t before = std::strlen(root);
    std::memcpy(path, root, before);
    path[before] = '/';
    std::memcpy(path + before + 1, own, length);
    path[before + 1 + length] = '\0';
    return open_folder(path);
  }
  return {};
}

}  // namespace

bool kill_group(int group) { return write_word(group, "cgroup.kill", "1"); }

bool leave_group(int group) { return write_word(group, "../cgroup.procs", "0"); }

void leave_and_remove_group(int group) {
  char path[4096];
  const ssize_t size = ::readlink(ProcPath().word("/proc/self/fd/").number(group).text(), path, sizeof path - 1);
  if (size <= 0 || !leave_group(group)) return;
  path[size] = '\0';
  ::rmdir(path);
}

void Groups::open(const char* folder) {
  if (folder != nullptr) {
    folder_ = open_folder(folder);
    return;
  }
  folder_ = own_group();
  if (folder_ && !is_delegated(folder_.get())) folder_.reset();
}

void Groups::sweep() {
  if (!folder_) return;
  const UniqueFd list(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  alignas(dirent64) char buffer[2048];
  for (ssize_t size = 0; list && (size = ::getdents64(list.get(), buffer, sizeof buffer)) > 0;) {
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      if (std::strncmp(entry->d_name, kPrefix, std::strlen(kPrefix)) != 0) continue;
      const UniqueFd group(::openat(folder_.get(), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!group || ::flock(group.get(), LOCK_EX | LOCK_NB) != 0) continue;
      kill_group(group.get());
      for (int i = 0; ::unlinkat(folder_.get(), entry->d_name, AT_REMOVEDIR) != 0 && i < kRemoveTries; ++i) {
        sleep_us(1000);
      }
    }
  }
}

UniqueFd Groups::make(std::uint32_t number) {
  const ProcPath name = name_of(number);
  if (::mkdirat(folder_.get(), name.text(), 0755) != 0) {
    if (errno != EEXIST && errno != EAGAIN && errno != ENOMEM) folder_.reset();
    return {};
  }
  UniqueFd group(::openat(folder_.get(), name.text(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Somebody who sweeps may be faster; then it is gone.
  if (!group || ::flock(group.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return group;
}

pid_t Groups::fork_into(std::uint32_t& number, UniqueFd& group) {
  number = kNone;
  if (!folder_) return ::fork();
  UniqueFd made = make(++last_);
  if (made) {
    clone_args arguments{};
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = SIGCHLD;
    arguments.cgroup = static_cast<__aligned_u64>(made.get());
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
    if (pid == 0) group = static_cast<UniqueFd&&>(made);
    if (pid > 0) number = last_;
    if (pid >= 0) return pid;
  }
  const int error = errno;
  // Without a group it may be possible. If groups cannot be had here, nobody tries again.
  if (made) ::unlinkat(folder_.get(), name_of(last_).text(), AT_REMOVEDIR);
  if (made && error != EAGAIN && error != ENOMEM) folder_.reset();
  return ::fork();
}

void Groups::kill(std::uint32_t number) {
  if (number == kNone || !folder_) return;
  const UniqueFd group(::openat(folder_.get(), name_of(number).text(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (group) kill_group(group.get());
}

void Groups::remove(std::uint32_t number) {
  if (!folder_) return;
  if (number != kNone) busy_.append(number);
  for (std::size_t i = 0; i < busy_.size();) {
    if (::unlinkat(folder_.get(), name_of(busy_[i]).text(), AT_REMOVEDIR) != 0 && errno == EBUSY) {
      ++i;
    } else {
      busy_.remove(i);
    }
  }
  if (busy_.empty()) busy_.clear();
}

}  // namespace errand::keeper
