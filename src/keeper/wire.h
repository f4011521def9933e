// SPDX-License-Identifier: Apache-2.0
// One packet of the protocol from the socket, with the descriptors and the sender's pid that came along.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/fd.h"
#include "protocol.h"

namespace errand::keeper {

struct Packet {
  static constexpr std::size_t kMaxBytes = 64;
  static constexpr int kMaxFds = 4;

  std::size_t size = 0;  // as sent; more than kMaxBytes is nobody's packet
  pid_t sender = 0;      // 0: the kernel put no stamp on it
  int fd_count = 0;
  UniqueFd fds[kMaxFds];
  alignas(8) unsigned char bytes[kMaxBytes] = {};

  // False unless the packet has exactly the size of the struct.
  template <class T>
  bool read(T& out) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxBytes);
    if (size != sizeof(T)) return false;
    std::memcpy(&out, bytes, sizeof(T));
    return true;
  }
};

enum class Receive { packet, nothing, closed };

// Never waits.
Receive receive(int socket, Packet& packet);
// Never waits: a host that reads nothing must not keep a keeper from its duty. False: there was no room or no memory,
// so try again; one that nobody is there to read counts as sent.
bool send(int socket, const KeeperEvent& event);
// The process that made the pair which the socket belongs to; 0 when the kernel cannot tell.
pid_t maker_of(int socket);
void ask_for_sender(int socket);

}  // namespace errand::keeper
