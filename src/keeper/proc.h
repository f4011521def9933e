// SPDX-License-Identifier: Apache-2.0
// What /proc tells about processes. Only small buffers on the stack; no heap.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>

#include "base/fd.h"
#include "sys.h"

namespace errand::keeper {

struct Stat {
  pid_t parent = 0;
  char state = '?';
  long threads = 0;
};

// Puts decimal numbers and words together to a path.
class ProcPath {
 public:
  ProcPath& word(const char* text) {
    while (*text != '\0' && size_ + 1 < sizeof text_) text_[size_++] = *text++;
    text_[size_] = '\0';
    return *this;
  }
  ProcPath& number(pid_t value) {
    char digits[12];
    std::size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    return word(digits + at);
  }
  const char* text() const { return text_; }

 private:
  char text_[64] = {};
  std::size_t size_ = 0;
};

// False: there is no such process, or it is hidden from us.
bool read_stat(pid_t pid, Stat& stat);

// Calls visit(pid) for each child of one thread until visit says false. False: the file could not be read.
template <class Visit>
bool read_children(pid_t pid, pid_t thread, Visit visit) {
  const UniqueFd file(
      ::open(ProcPath().word("/proc/").number(pid).word("/task/").number(thread).word("/children").text(),
             O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  char buffer[1024];
  pid_t value = 0;
  for (;;) {
    const ssize_t size = ::read(file.get(), buffer, sizeof buffer);
    if (size < 0) return false;
    if (size == 0) return value == 0 || visit(value);
    for (ssize_t i = 0; i < size; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        value = value * 10 + (buffer[i] - '0');
      } else if (value != 0) {
        if (!visit(value)) return true;
        value = 0;
      }
    }
  }
}

// Calls visit(number) for each entry of the directory that is a number. False: it could not be read.
template <class Visit>
bool each_number(const char* directory, Visit visit) {
  const UniqueFd folder(::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return false;
  alignas(dirent64) char buffer[2048];
  for (;;) {
    const ssize_t size = ::getdents64(folder.get(), buffer, sizeof buffer);
    if (size < 0) return false;
    if (size == 0) return true;
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      pid_t value = 0;
      for (const char* c = entry->d_name; *c >= '0' && *c <= '9'; ++c) value = value * 10 + (*c - '0');
      if (value != 0) visit(value);
    }
  }
}

template <class Visit>
bool each_process(Visit visit) {
  return each_number("/proc", visit);
}

template <class Visit>
bool each_thread(pid_t pid, Visit visit) {
  return each_number(ProcPath().word("/proc/").number(pid).word("/task").text(), visit);
}

}  // namespace errand::keeper
