// SPDX-License-Identifier: Apache-2.0
#include "engine/epoll.h"

#include <cerrno>

namespace errand {

int Epoll::open() {
  fd_.reset(::epoll_create1(EPOLL_CLOEXEC));
  return fd_ ? 0 : errno;
}

int Epoll::add(int fd, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  return ::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void Epoll::remove(int fd) { ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

int Epoll::wait(std::span<epoll_event> events, int timeout_ms) {
  return ::epoll_wait(fd_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
}

}  // namespace errand
