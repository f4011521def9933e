// SPDX-License-Identifier: Apache-2.0
// Real listeners for tests: commands for a task, and a socket of the test's own.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"

namespace errand::testing {

// False: python3, which the commands below use, is not there.
bool has_python();
// Whether a command can be given a network namespace of its own (`unshare -rn`).
bool can_unshare_network();

// A shell command that listens on `host` (":: " as "::") and a port that the kernel chooses, or `port`; prints the
// port, then sleeps. `before` is a line of Python that runs first.
std::string listen_command(const std::string& host = "127.0.0.1", std::uint16_t port = 0,
                           const std::string& before = "pass");

// A socket of this process that listens on a port of the kernel's choice.
class OwnListener {
 public:
  OwnListener();
  std::uint16_t port() const { return port_; }
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::uint16_t port_ = 0;
};

// Whether this process can bind and listen on the port now, on all addresses, without SO_REUSEADDR.
bool can_listen(std::uint16_t port);

}  // namespace errand::testing
