// SPDX-License-Identifier: Apache-2.0
#include "engine/ports.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/fd.h"
#include "engine/proc_files.h"
#include "engine/process_list.h"

namespace errand {
namespace {

// Calls visit with each line, without its newline, until it says false.
template <typename Visit>
void for_each_line(const std::string& path, Visit visit) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[8192];
  while (fd) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    text.append(buffer, static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (!visit(std::string_view(text).substr(begin, end - begin))) return;
    }
    text.erase(0, begin);
  }
}

constexpr std::string_view kListens = "0A";

// The fields up to the inode: "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345".
constexpr std::size_t kFields = 10;
std::size_t split(std::string_view line, std::array<std::string_view, kFields>& fields) {
  std::size_t count = 0;
  while (count < kFields) {
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    if (line.empty()) break;
    fields[count] = line.substr(0, line.find(' '));
    line.remove_prefix(fields[count++].size());
  }
  return count;
}

bool is_being_accepted(std::string_view line) {
  std::array<std::string_view, kFields> fields;
  return split(line, fields) == kFields && fields[3] == "03";
}

enum class Holds { yes, no, unknown };

Holds holds(pid_t pid, const std::set<std::uint64_t>& sockets) {
  const auto stat = proc::read_stat(pid);
  if (!stat || stat->dead()) return Holds::no;
  const auto inodes = proc::socket_inodes(proc::living_folder(pid, *stat));
  if (!inodes) return Holds::unknown;
  return std::any_of(inodes->begin(), inodes->end(), [&](std::uint64_t inode) { return sockets.contains(inode); })
             ? Holds::yes
             : Holds::no;
}

std::set<std::uint64_t> listeners_near(pid_t keeper, std::uint16_t port) {
  ListeningPorts ports;
  bool any = false;
  for (const pid_t pid : keeper > 0 ? descendants(keeper) : std::vector<pid_t>()) {
    const auto stat = proc::read_stat(pid);
    if (!stat || stat->dead()) continue;
    any = true;
    ports.add_namespace_of(proc::living_folder(pid, *stat));
  }
  if (!any) ports.add_namespace_of("/proc/self");
  return ports.listeners(port);
}

bool any_holds(const std::vector<pid_t>& pids, const std::set<std::uint64_t>& sockets) {
  return std::any_of(pids.begin(), pids.end(), [&](pid_t pid) { return holds(pid, sockets) == Holds::yes; });
}

}  // namespace

std::optional<ListenLine> parse_listen_line(std::string_view line) {
  std::array<std::string_view, kFields> fields;
  if (split(line, fields) < kFields || fields[3] != kListens) return std::nullopt;
  const std::size_t colon = fields[1].rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = proc::parse<std::uint16_t>(fields[1].substr(colon + 1), 16);
  const auto inode = proc::parse<std::uint64_t>(fields[9]);
  if (!port || !inode) return std::nullopt;
  return ListenLine{*port, *inode};
}

void ListeningPorts::read_table(const std::string& path) {
  bool heading = true;
  for_each_line(path, [&](std::string_view line) {
    if (std::exchange(heading, false)) return true;
    // The kernel lists those that listen first (old ones with what is being accepted among them), and a busy machine
    // has very many others.
    const auto listens = parse_listen_line(line);
    if (listens) ports_[listens->inode] = listens->port;
    return listens || is_being_accepted(line);
  });
}

void ListeningPorts::add_namespace_of(const std::string& folder) {
  // One that we may not know may be any: its tables can be read all the same.
  const auto name = proc::network_namespace(folder);
  if (name && !read_.insert(*name).second) return;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) read_table(folder + table);
}

std::vector<std::uint16_t> ListeningPorts::among(const std::vector<std::uint64_t>& inodes) const {
  std::set<std::uint16_t> found;
  for (const std::uint64_t inode : inodes) {
    if (const auto port = ports_.find(inode); port != ports_.end()) found.insert(port->second);
  }
  return {found.begin(), found.end()};
}

std::set<std::uint64_t> ListeningPorts::listeners(std::uint16_t port) const {
  std::set<std::uint64_t> inodes;
  for (const auto& [inode, its_port] : ports_) {
    if (its_port == port) inodes.insert(inode);
  }
  return inodes;
}

PortState port_state(pid_t keeper, std::uint16_t port) {
  const std::set<std::uint64_t> sockets = listeners_near(keeper, port);
  if (sockets.empty()) return PortState::closed;
  // The tree is looked at again: a process that was started meanwhile may be the one.
  if (keeper > 0 && any_holds(descendants(keeper), sockets)) return PortState::own;
  pid_t stranger = 0;
  proc::for_each_pid([&](pid_t pid) {
    if (stranger == 0 && holds(pid, sockets) == Holds::yes) stranger = pid;
  });
  if (keeper > 0) {
    // So may one that was born since, or that has been given the socket.
    const std::vector<pid_t> tree = descendants(keeper);
    if (stranger != 0 ? std::binary_search(tree.begin(), tree.end(), stranger) : any_holds(tree, sockets)) {
      return PortState::own;
    }
  }
  if (stranger != 0) return PortState::stranger;
  // Nobody has it any more, or somebody whom we may not look at.
  return listeners_near(keeper, port).empty() ? PortState::closed : PortState::unknown;
}

}  // namespace errand
