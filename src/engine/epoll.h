// SPDX-License-Identifier: Apache-2.0
// A set of descriptors that one thread waits for. Any thread may add and remove; what is added is level-triggered
// unless its events say otherwise. A descriptor is to be removed before it is closed: while a forked copy of the
// process holds it open, closing it here does not take it out.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "base/fd.h"

namespace errand {

class Epoll {
 public:
  // 0 or errno.
  int open();
  // 0 or -errno. `key` comes back with each event.
  int add(int fd, std::uint32_t events, std::uint64_t key);
  void remove(int fd);
  // How many of `events` were filled in; none when nothing came within the time, or a signal did. -1: for ever.
  int wait(std::span<epoll_event> events, int timeout_ms);

 private:
  UniqueFd fd_;
};

}  // namespace errand
