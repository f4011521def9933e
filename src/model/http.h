// SPDX-License-Identifier: Apache-2.0
// One HTTP request at a time, its answer streamed to a sink as it arrives. The caller's thread does everything; a stop
// request ends it at once in every phase: resolving, connecting, sending, waiting, reading.
//
// Dangers: headers hold keys. Nothing of a request's headers or of its URL's user, path and query ever gets into a
// failure's text.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace errand {

struct HttpRequest {
  std::string url;  // http or https; redirects are not followed, they would carry the key elsewhere
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // POST
};

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  // The first value of that name, or empty.
  std::string_view header(std::string_view name) const;
};

class HttpSink {
 public:
  virtual ~HttpSink() = default;
  virtual void on_head(const HttpHead& head) = 0;
  // False ends the exchange: HttpEnd::Kind::ended_by_sink.
  virtual bool on_body(std::string_view bytes) = 0;
  // On the clock of monotonic_ms(); asked again after every step. When it has passed: Kind::timed_out.
  virtual std::int64_t deadline_ms() const = 0;
};

struct HttpEnd {
  enum class Kind {
    complete,  // the whole answer was received
    ended_by_sink,
    aborted,     // stop was requested
    timed_out,   // the sink's deadline
    lost,        // could not connect, or the connection broke: trying again may help
    impossible,  // a bad URL, a certificate that is not trusted: trying again will not help
  };
  Kind kind = Kind::complete;
  std::string message;  // of lost and impossible: "cannot connect to 127.0.0.1:80: Connection refused"
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual HttpEnd post(const HttpRequest& request, HttpSink& sink, std::stop_token stop) = 0;
};

// libcurl: proxies as the environment names them (never for loopback hosts), HTTP/2, the system's certificates,
// connections kept for the next request. Initialised at the first request, not at the program's start.
std::unique_ptr<HttpClient> make_http_client();

}  // namespace errand
