// SPDX-License-Identifier: Apache-2.0
#include "engine/process_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/fd.h"
#include "base/utf8.h"

namespace errand {
namespace {

constexpr std::size_t kMaxCommand = 1000;  // characters of a command line that a list shows

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

template <typename Number>
std::optional<Number> parse(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// Calls visit with the name of each entry.
template <typename Visit>
bool for_each_entry(const std::string& folder, Visit visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  if (!directory) return false;
  while (const dirent* entry = ::readdir(directory.get())) visit(std::string_view(entry->d_name));
  return true;
}

std::string proc(pid_t pid, std::string_view file) { return "/proc/" + std::to_string(pid) + "/" + std::string(file); }

struct Stat {
  char state = '?';
  pid_t parent = 0;
  std::string name;
};

std::optional<Stat> read_stat(pid_t pid) {
  const auto text = read_file(proc(pid, "stat"));
  if (!text) return std::nullopt;
  // "4711 (any text, with ) too) S 4710 ...": the name ends at the last parenthesis.
  const std::size_t open = text->find('(');
  const std::size_t close = text->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 > text->size()) return std::nullopt;
  const auto parent = parse<pid_t>(std::string_view(*text).substr(close + 4));
  if (!parent) return std::nullopt;
  return Stat{(*text)[close + 2], *parent, text->substr(open + 1, close - open - 1)};
}

bool has_children_files() {
  static const bool has = ::access("/proc/thread-self/children", R_OK) == 0;
  return has;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = proc(pid, "task");
  for_each_entry(tasks, [&](std::string_view thread) {
    if (thread.front() == '.') return;
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

std::vector<pid_t> descendants(pid_t root) {
  std::vector<pid_t> found;
  std::set<pid_t> seen{root};
  std::unordered_map<pid_t, std::vector<pid_t>> by_parent;
  if (!has_children_files()) {
    for_each_entry("/proc", [&](std::string_view name) {
      const auto pid = parse<pid_t>(name);
      const auto stat = pid ? read_stat(*pid) : std::nullopt;
      if (stat) by_parent[stat->parent].push_back(*pid);
    });
  }
  std::vector<pid_t> todo{root};
  while (!todo.empty()) {
    const pid_t pid = todo.back();
    todo.pop_back();
    for (const pid_t child : has_children_files() ? children_of(pid) : by_parent[pid]) {
      if (!seen.insert(child).second) continue;
      found.push_back(child);
      todo.push_back(child);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string bracketed(const std::string& name) {
  std::string text(1, '[');
  text += clean_utf8(name);
  text += ']';
  return text;
}

// What the process was started as, or nothing when it is a zombie or past its exit.
std::optional<std::string> command_of(pid_t pid) {
  const auto stat = read_stat(pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
  const auto arguments = read_file(proc(pid, "cmdline"));
  if (!arguments || arguments->empty()) {
    // No arguments: one that is exiting has given its memory back ("0 0 0 ..."); else it has overwritten them.
    const auto memory = read_file(proc(pid, "statm"));
    if (!memory || memory->starts_with("0 ")) return std::nullopt;
    return bracketed(stat->name);
  }
  std::string text = *arguments;
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  if (text.empty()) return bracketed(stat->name);
  return cut_middle(clean_utf8(text), kMaxCommand);
}

using PortsByInode = std::unordered_map<std::uint64_t, std::uint16_t>;

PortsByInode listening_ports(pid_t pid) {
  PortsByInode ports;
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    const auto text = read_file(proc(pid, table));  // of the process's own network namespace
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      // "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 ..."
      std::array<std::string_view, 10> fields;
      std::size_t count = 0;
      while (count < fields.size()) {
        line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
        if (line.empty()) break;
        fields[count] = line.substr(0, line.find(' '));
        line.remove_prefix(fields[count++].size());
      }
      if (count < fields.size() || fields[3] != "0A") continue;
      const std::size_t colon = fields[1].rfind(':');
      if (colon == std::string_view::npos) continue;
      const auto port = parse<std::uint16_t>(fields[1].substr(colon + 1), 16);
      const auto inode = parse<std::uint64_t>(fields[9]);
      if (port && inode) ports[*inode] = *port;
    }
  }
  return ports;
}

std::vector<std::uint64_t> socket_inodes(pid_t pid) {
  std::vector<std::uint64_t> inodes;
  const std::string folder = proc(pid, "fd");
  for_each_entry(folder, [&](std::string_view name) {
    if (name.front() == '.') return;
    char target[64];
    const ssize_t size = ::readlink((folder + "/" + std::string(name)).c_str(), target, sizeof target);
    const std::string_view link(target, size > 0 ? static_cast<std::size_t>(size) : 0);
    if (!link.starts_with("socket:[")) return;
    if (const auto inode = parse<std::uint64_t>(link.substr(8))) inodes.push_back(*inode);
  });
  return inodes;
}

bool has_token(pid_t pid, const std::string& token) {
  const auto environment = read_file(proc(pid, "environ"));
  if (!environment) return false;
  const std::string wanted = "ERRAND_TASK_TOKEN=" + token;
  std::string_view rest = *environment;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry == wanted) return true;
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return false;
}

}  // namespace

std::vector<ProcessInfo> living_descendants(pid_t root) {
  std::vector<ProcessInfo> living;
  if (root <= 0) return living;
  std::map<pid_t, std::vector<std::uint64_t>> sockets;
  for (const pid_t pid : descendants(root)) {
    auto command = command_of(pid);
    if (!command) continue;
    living.push_back({pid, std::move(*command), {}});
    auto inodes = socket_inodes(pid);
    if (!inodes.empty()) sockets[pid] = std::move(inodes);
  }
  if (sockets.empty()) return living;
  // One table serves all: a task seldom has processes in several network namespaces, and those of the first count.
  const PortsByInode ports = listening_ports(sockets.begin()->first);
  for (ProcessInfo& process : living) {
    const auto its = sockets.find(process.pid);
    if (its == sockets.end()) continue;
    std::set<std::uint16_t> listening;
    for (const std::uint64_t inode : its->second) {
      if (const auto port = ports.find(inode); port != ports.end()) listening.insert(port->second);
    }
    process.ports.assign(listening.begin(), listening.end());
  }
  return living;
}

std::string why_left(pid_t pid) {
  if (::kill(pid, 0) != 0 && errno == EPERM) return "not permitted";
  const auto stat = read_stat(pid);
  return stat && stat->state == 'D' ? "uninterruptible" : "still running";
}

std::vector<int> kill_by_token(const std::vector<std::string>& tokens) {
  std::vector<int> found(tokens.size(), 0);
  for_each_entry("/proc", [&](std::string_view name) {
    const auto pid = parse<pid_t>(name);
    if (!pid || *pid == ::getpid()) return;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!has_token(*pid, tokens[i])) continue;
      // The pid is held by the pidfd before the environment is read again: what is signalled is what was read.
      const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
      if (!pidfd || !has_token(*pid, tokens[i])) break;
      const auto stat = read_stat(*pid);
      if (!stat || stat->state == 'Z' || stat->state == 'X') break;
      ++found[i];
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      break;
    }
  });
  return found;
}

}  // namespace errand
