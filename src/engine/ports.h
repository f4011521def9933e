// SPDX-License-Identifier: Apache-2.0
// Who listens on which TCP port, from /proc alone: a socket's inode stands in the tables of its network namespace and
// behind the descriptors of those who hold it. IPv4 and IPv6 are one: a port is a port.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace errand {

// The listening sockets of one or several network namespaces.
class ListeningPorts {
 public:
  // Reads the tables of the namespace of the process with this folder ("/proc/4711"), unless they have been read.
  void add_namespace_of(const std::string& folder);
  // The ports of those of these sockets that listen, ascending, each once.
  std::vector<std::uint16_t> among(const std::vector<std::uint64_t>& inodes) const;
  // The sockets that listen on it.
  std::set<std::uint64_t> listeners(std::uint16_t port) const;

 private:
  void read_table(const std::string& path);

  std::set<std::uint64_t> read_;                            // inodes of the namespaces
  std::unordered_map<std::uint64_t, std::uint16_t> ports_;  // by inode, which no two namespaces share
};

// The port and the inode, when the line of /proc/net/tcp is of a socket that listens.
struct ListenLine {
  std::uint16_t port = 0;
  std::uint64_t inode = 0;
};
std::optional<ListenLine> parse_listen_line(std::string_view line);

enum class PortState {
  closed,    // nobody listens
  own,       // a process of the tree does; survivors count
  stranger,  // another process does
  unknown,   // somebody does whose descriptors cannot be read
};

// Whether the tree below `keeper` listens on the port. Looked at are the network namespaces in which its processes
// stand; our own, when there are none (keeper 0: it never started, or is over).
PortState port_state(pid_t keeper, std::uint16_t port);

}  // namespace errand
