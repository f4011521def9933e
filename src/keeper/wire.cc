// SPDX-License-Identifier: Apache-2.0
#include "wire.h"

#include <errno.h>
#include <sys/socket.h>

namespace errand::keeper {

Receive receive(int socket, Packet& packet) {
  static_assert(Packet::kMaxBytes >= sizeof(StartRequest) && Packet::kMaxBytes >= sizeof(StopRequest));
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * Packet::kMaxFds) + CMSG_SPACE(sizeof(ucred))];
  iovec bytes{packet.bytes, sizeof packet.bytes};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;

  ssize_t size = -1;
  do {
    // ECONNRESET (the peer went with something unread) is told once and before the packets that it had sent.
    size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return errno == EAGAIN ? Receive::nothing : Receive::closed;
  if (size == 0) return Receive::closed;

  packet.size = static_cast<std::size_t>(size);
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      packet.sender = sender.pid;
    } else if (part->cmsg_type == SCM_RIGHTS) {
      const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
        UniqueFd owned(fd);
        if (packet.fd_count < Packet::kMaxFds) packet.fds[packet.fd_count++] = static_cast<UniqueFd&&>(owned);
      }
    }
  }
  return Receive::packet;
}

bool send(int socket, const KeeperEvent& event) {
  while (socket >= 0 && ::send(socket, &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS) return false;
    if (errno != EINTR) break;
  }
  return true;
}

pid_t maker_of(int socket) {
  ucred maker{};
  socklen_t size = sizeof maker;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 ? maker.pid : 0;
}

void ask_for_sender(int socket) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

}  // namespace errand::keeper
