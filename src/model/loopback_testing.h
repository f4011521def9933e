// SPDX-License-Identifier: Apache-2.0
// A server for tests on 127.0.0.1 that answers each request with whatever bytes its handler sends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace errand {

class LoopbackServer {
 public:
  struct Request {
    std::string head;  // with its empty line
    std::string body;
  };
  // The connection of one request; the server closes it when the handler returns.
  class Client {
   public:
    explicit Client(int fd, int wake) : fd_(fd), wake_(wake) {}
    void send(std::string_view bytes);
    void send_bytewise(std::string_view bytes);
    // Until the client closes its side; false when the server is destroyed first.
    bool wait_gone();

   private:
    int fd_, wake_;
  };
  using Handler = std::function<void(const Request&, Client&)>;

  LoopbackServer();
  ~LoopbackServer();

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void push(Handler handler);
  void push_bytes(std::string bytes);
  // Those received so far; waits until there are `count`, or fails after 30 s.
  std::vector<Request> wait_requests(std::size_t count);

 private:
  void serve();
  void answer(int fd);

  UniqueFd listener_, wake_read_, wake_write_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Handler> handlers_;
  std::vector<Request> requests_;
  std::jthread thread_;
};

// "HTTP/1.1 200 OK" with a content type and the body's length; the connection is closed.
std::string http_answer(int status, const std::string& type, const std::string& body, const std::string& headers = "");
// The head of an event stream that ends with its connection.
std::string stream_head();
std::string sse(const std::string& type, const std::string& json);

}  // namespace errand
