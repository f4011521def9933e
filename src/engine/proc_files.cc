// SPDX-License-Identifier: Apache-2.0
#include "engine/proc_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/fd.h"

namespace errand::proc {
namespace {

// The target of a link as "socket:[12345]", without its prefix and brackets.
std::optional<std::uint64_t> inode_of_link(const std::string& path, std::string_view prefix, bool* readable) {
  char target[64];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  if (readable != nullptr) *readable = size >= 0 || errno == ENOENT;  // closed meanwhile
  const std::string_view link(target, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!link.starts_with(prefix)) return std::nullopt;
  return parse<std::uint64_t>(link.substr(prefix.size()));
}

}  // namespace

std::optional<std::string> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

std::string path_of(pid_t pid, std::string_view file) {
  std::string path = "/proc/" + std::to_string(pid) + "/";
  path += file;
  return path;
}

std::optional<Stat> parse_stat(std::string_view text) {
  // "4711 (any text, with ) too) S 4710 ...": the name ends at the last parenthesis.
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  Stat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  text.remove_prefix(close + 1);
  std::array<std::string_view, 22> fields;  // from the state on, which proc(5) numbers 3
  for (std::string_view& field : fields) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
    field = text.substr(0, text.find_first_of(" \n"));
    if (field.empty()) return std::nullopt;
    text.remove_prefix(field.size());
  }
  const auto number = [&](int field) { return parse<std::uint64_t>(fields[static_cast<std::size_t>(field - 3)]); };
  const auto parent = parse<pid_t>(fields[1]);
  const auto user = number(14), system = number(15), reaped_user = number(16), reaped_system = number(17);
  const auto threads = number(20), start = number(22), memory = number(23), pages = number(24);
  if (!parent || !user || !system || !reaped_user || !reaped_system || !threads || !start || !memory || !pages)
    return std::nullopt;
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  stat.state = fields[0].front();
  stat.parent = *parent;
  stat.own_ticks = *user + *system;
  stat.reaped_ticks = *reaped_user + *reaped_system;
  stat.threads = static_cast<long>(*threads);
  stat.start_ticks = *start;
  stat.memory_bytes = *memory;
  stat.rss_bytes = *pages * page_bytes;
  return stat;
}

std::optional<Stat> read_stat(pid_t pid) {
  char path[32] = "/proc/";
  char* const end = std::to_chars(path + 6, path + 20, pid).ptr;
  std::copy_n("/stat", 6, end);
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  char buffer[1024];  // the name is 15 bytes at most (a kernel thread's 63), and the kernel makes it in one go
  const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
  if (got <= 0) return std::nullopt;
  return parse_stat({buffer, static_cast<std::size_t>(got)});
}

double seconds_of(std::uint64_t ticks) {
  static const auto ticks_a_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(ticks) / ticks_a_second;
}

bool has_children_files() {
  static const bool has = ::access("/proc/thread-self/children", R_OK) == 0;
  return has;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = path_of(pid, "task");
  for_each_entry(tasks, [&](std::string_view thread) {
    const auto text = read_file(tasks + "/" + std::string(thread) + "/children");
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (!rest.empty()) {
      if (const auto child = parse<pid_t>(rest)) children.push_back(*child);
      const std::size_t space = rest.find(' ');
      rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
    }
  });
  return children;
}

std::string living_folder(pid_t pid, const Stat& stat) {
  std::string folder = "/proc/" + std::to_string(pid);
  if (stat.state != 'Z') return folder;
  const std::string leader = std::to_string(pid);
  const std::string tasks = folder + "/task";
  for_each_entry(tasks, [&](std::string_view thread) {
    if (thread != leader) folder = tasks + "/" + std::string(thread);
  });
  return folder;
}

std::optional<std::vector<std::uint64_t>> socket_inodes(const std::string& folder) {
  std::vector<std::uint64_t> inodes;
  bool readable = true;
  const std::string descriptors = folder + "/fd";
  const bool listed = for_each_entry(descriptors, [&](std::string_view name) {
    bool known = true;
    if (const auto inode = inode_of_link(descriptors + "/" + std::string(name), "socket:[", &known)) {
      inodes.push_back(*inode);
    }
    readable = readable && known;
  });
  if (!listed) readable = errno == ENOENT || errno == ESRCH;  // it is gone, and has none
  if (!readable) return std::nullopt;
  return inodes;
}

std::optional<std::uint64_t> network_namespace(const std::string& folder) {
  return inode_of_link(folder + "/ns/net", "net:[", nullptr);
}

}  // namespace errand::proc
