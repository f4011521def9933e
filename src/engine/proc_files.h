// SPDX-License-Identifier: Apache-2.0
// Single files of /proc, read and taken apart. Each answer is of one moment: the process may be gone, or be another one
// under the same pid, when the next file is read. Nothing here signals anybody.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace errand::proc {

// The number at the begin of a text; nothing when there is none.
template <typename Number>
std::optional<Number> parse(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// Calls visit with the name of each entry but "." and "..". False: the folder cannot be read.
template <typename Visit>
bool for_each_entry(const std::string& folder, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  if (!directory) return false;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
  return true;
}

// Calls visit with each pid that /proc shows.
template <typename Visit>
void for_each_pid(Visit visit) {
  for_each_entry("/proc", [&](std::string_view name) {
    if (const auto pid = parse<pid_t>(name)) visit(*pid);
  });
}

// The whole file, or nothing when it cannot be opened or read.
std::optional<std::string> read_file(const std::string& path);

// "/proc/PID/file"
std::string path_of(pid_t pid, std::string_view file);

// What /proc/PID/stat says. A leader that has left its other threads behind is a zombie with threads > 1, and alive.
struct Stat {
  char state = '?';
  pid_t parent = 0;
  std::uint64_t own_ticks = 0;     // user and system time
  std::uint64_t reaped_ticks = 0;  // the same of the children that it has waited for, and of theirs
  long threads = 0;
  std::uint64_t start_ticks = 0;   // since boot; with the pid it names a process for ever
  std::uint64_t memory_bytes = 0;  // virtual
  std::uint64_t rss_bytes = 0;
  std::string name;

  bool dead() const { return state == 'X' || (state == 'Z' && threads <= 1); }
  // One that exits has given its memory back. (Of a leader that has gone before its threads nothing is known.)
  bool past_exit() const { return memory_bytes == 0 && state != 'Z'; }
};

std::optional<Stat> read_stat(pid_t pid);
// The same from the text of the file.
std::optional<Stat> parse_stat(std::string_view text);

double seconds_of(std::uint64_t ticks);

// Whether the kernel tells a thread's children in a file.
bool has_children_files();
// Children of all its threads. Empty without such files.
std::vector<pid_t> children_of(pid_t pid);

// Its folder below /proc, through a thread that lives: of a dead leader nothing but the threads can be read.
std::string living_folder(pid_t pid, const Stat& stat);

// Inodes of the sockets that it has open. Nothing when we may not know (another user's, or one that hides itself).
std::optional<std::vector<std::uint64_t>> socket_inodes(const std::string& folder);

// The inode of its network namespace, or nothing when we may not know.
std::optional<std::uint64_t> network_namespace(const std::string& folder);

}  // namespace errand::proc
