// SPDX-License-Identifier: Apache-2.0
#include "engine/listener_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

namespace errand::testing {
namespace {

// A listening socket on the port (0: any), or none.
UniqueFd listen_on(std::uint32_t address, std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(address);
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return {};
  if (::listen(fd.get(), 1) != 0) return {};
  return fd;
}

}  // namespace

bool has_python() {
  static const bool has = std::system("command -v python3 >/dev/null 2>&1") == 0;
  return has;
}

bool can_unshare_network() {
  static const bool can = std::system("unshare -rn true >/dev/null 2>&1") == 0;
  return can;
}

std::string listen_command(const std::string& host, std::uint16_t port, const std::string& before) {
  return "python3 -c 'import socket,time\n" + before + "\ns=socket.socket(socket.AF_INET6 if \":\" in \"" + host +
         "\" else socket.AF_INET)\ns.bind((\"" + host + "\"," + std::to_string(port) +
         "))\ns.listen()\nprint(str(s.getsockname()[1])+\"\\n\",end=\"\",flush=True)\ntime.sleep(1000)'";
}

OwnListener::OwnListener() : fd_(listen_on(INADDR_LOOPBACK, 0)) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  if (!fd_ || ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) std::abort();
  port_ = ntohs(name.sin_port);
}

bool can_listen(std::uint16_t port) { return static_cast<bool>(listen_on(INADDR_ANY, port)); }

}  // namespace errand::testing
