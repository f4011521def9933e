// SPDX-License-Identifier: Apache-2.0
#include "model/loopback_testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>

namespace errand {

void LoopbackServer::Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void LoopbackServer::Client::send_bytewise(std::string_view bytes) {
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (std::size_t i = 0; i < bytes.size(); ++i) send(bytes.substr(i, 1));
}

bool LoopbackServer::Client::wait_gone() {
  for (;;) {
    pollfd fds[] = {{fd_, POLLIN, 0}, {wake_, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return false;
    char buffer[4096];
    if (fds[0].revents != 0 && ::recv(fd_, buffer, sizeof buffer, 0) <= 0) return true;
  }
}

LoopbackServer::LoopbackServer() {
  int pipe_fds[2];
  EXPECT_EQ(::pipe2(pipe_fds, O_CLOEXEC), 0);
  wake_read_.reset(pipe_fds[0]);
  wake_write_.reset(pipe_fds[1]);
  listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener_.get(), 16), 0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::jthread([this] { serve(); });
}

LoopbackServer::~LoopbackServer() {
  wake_write_.reset();
  thread_.join();
}

void LoopbackServer::push(Handler handler) {
  const std::lock_guard lock(mutex_);
  handlers_.push_back(std::move(handler));
}

void LoopbackServer::push_bytes(std::string bytes) {
  push([bytes = std::move(bytes)](const Request&, Client& client) { client.send(bytes); });
}

std::vector<LoopbackServer::Request> LoopbackServer::wait_requests(std::size_t count) {
  std::unique_lock lock(mutex_);
  EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return requests_.size() >= count; }));
  return requests_;
}

void LoopbackServer::serve() {
  for (;;) {
    pollfd fds[] = {{listener_.get(), POLLIN, 0}, {wake_read_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    const UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection) answer(connection.get());
  }
}

void LoopbackServer::answer(int fd) {
  Request request;
  std::string data;
  std::size_t wanted = std::string::npos;
  while (data.size() < wanted) {
    char buffer[16384];
    pollfd fds[] = {{fd, POLLIN, 0}, {wake_read_.get(), POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    data.append(buffer, static_cast<std::size_t>(got));
    const std::size_t end = data.find("\r\n\r\n");
    if (end == std::string::npos || !request.head.empty()) continue;
    request.head = data.substr(0, end + 4);
    const std::size_t length = request.head.find("Content-Length: ");
    wanted = end + 4 + (length == std::string::npos ? 0 : std::stoul(request.head.substr(length + 16)));
  }
  request.body = data.substr(request.head.size());
  Handler handler;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    if (!handlers_.empty()) {
      handler = std::move(handlers_.front());
      handlers_.pop_front();
    }
    changed_.notify_all();
  }
  Client client(fd, wake_read_.get());
  if (handler) handler(request, client);
}

std::string http_answer(int status, const std::string& type, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) + " Reason\r\nContent-Type: " + type + "\r\n" + headers +
         "Connection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string stream_head() { return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"; }

std::string sse(const std::string& type, const std::string& json) {
  return "event: " + type + "\ndata: {\"type\": \"" + type + "\"" + (json.empty() ? "" : ", " + json) + "}\n\n";
}

}  // namespace errand
