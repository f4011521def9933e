// SPDX-License-Identifier: Apache-2.0
#include "engine/process_list.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/fd.h"
#include "base/utf8.h"
#include "engine/proc_files.h"

namespace errand {
namespace {

constexpr std::size_t kMaxCommand = 1000;  // characters of a command line that a list shows

std::string bracketed(const std::string& name) {
  std::string text(1, '[');
  text += clean_utf8(name);
  text += ']';
  return text;
}

// What the process was started as, or nothing when it is dead or past its exit. `folder` is that of a living thread.
std::optional<std::string> command_of(const std::string& folder, const proc::Stat& stat) {
  const auto arguments = proc::read_file(folder + "/cmdline");
  if (!arguments || arguments->empty()) {
    // No arguments: one that is exiting has given its memory back ("0 0 0 ..."); else it has overwritten them.
    const auto memory = proc::read_file(folder + "/statm");
    if (!memory || memory->starts_with("0 ")) return std::nullopt;
    return bracketed(stat.name);
  }
  std::string text = *arguments;
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  if (text.empty()) return bracketed(stat.name);
  return cut_middle(clean_utf8(text), kMaxCommand);
}

bool has_token(pid_t pid, const std::string& token) {
  const auto environment = proc::read_file(proc::path_of(pid, "environ"));
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

std::vector<pid_t> descendants(pid_t root) {
  std::vector<pid_t> found;
  std::set<pid_t> seen{root};
  std::unordered_map<pid_t, std::vector<pid_t>> by_parent;
  if (!proc::has_children_files()) {
    proc::for_each_pid([&](pid_t pid) {
      if (const auto stat = proc::read_stat(pid)) by_parent[stat->parent].push_back(pid);
    });
  }
  std::vector<pid_t> todo{root};
  while (!todo.empty()) {
    const pid_t pid = todo.back();
    todo.pop_back();
    for (const pid_t child : proc::has_children_files() ? proc::children_of(pid) : by_parent[pid]) {
      if (!seen.insert(child).second) continue;
      found.push_back(child);
      todo.push_back(child);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<ProcessInfo> living_descendants(pid_t root) {
  std::vector<ProcessInfo> living;
  if (root <= 0) return living;
  std::map<pid_t, std::vector<std::uint64_t>> sockets;
  ListeningPorts ports;
  for (const pid_t pid : descendants(root)) {
    const auto stat = proc::read_stat(pid);
    if (!stat || stat->dead()) continue;
    const std::string folder = proc::living_folder(pid, *stat);
    auto command = command_of(folder, *stat);
    if (!command) continue;
    living.push_back({pid, std::move(*command), {}});
    auto inodes = proc::socket_inodes(folder);
    if (!inodes || inodes->empty()) continue;
    ports.add_namespace_of(folder);
    sockets[pid] = std::move(*inodes);
  }
  for (ProcessInfo& process : living) {
    const auto its = sockets.find(process.pid);
    if (its != sockets.end()) process.ports = ports.among(its->second);
  }
  return living;
}

std::string why_left(pid_t pid) {
  if (::kill(pid, 0) != 0 && errno == EPERM) return "not permitted";
  const auto stat = proc::read_stat(pid);
  return stat && stat->state == 'D' ? "uninterruptible" : "still running";
}

std::vector<LeftProcess> left_processes(pid_t root) {
  std::vector<LeftProcess> left;
  for (ProcessInfo& process : living_descendants(root)) {
    std::string why = why_left(process.pid);
    left.push_back({std::move(process), std::move(why)});
  }
  return left;
}

std::vector<int> kill_by_token(const std::vector<std::string>& tokens) {
  std::vector<int> found(tokens.size(), 0);
  proc::for_each_pid([&](pid_t pid) {
    if (pid == ::getpid()) return;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!has_token(pid, tokens[i])) continue;
      // The pid is held by the pidfd before the environment is read again: what is signalled is what was read.
      const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
      if (!pidfd || !has_token(pid, tokens[i])) break;
      const auto stat = proc::read_stat(pid);
      if (!stat || stat->state == 'Z' || stat->state == 'X') break;
      ++found[i];
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
      break;
    }
  });
  return found;
}

}  // namespace errand
