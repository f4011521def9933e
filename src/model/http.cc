// SPDX-License-Identifier: Apache-2.0
#include "model/http.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <mutex>

#include "base/clock.h"
#include "base/utf8.h"

namespace errand {
namespace {

constexpr long kConnectMs = 30'000;
constexpr std::int64_t kMaxPollMs = 60'000;

// libcurl does without signals (NOSIGNAL), and so without ignoring SIGPIPE; a TLS library that writes to a closed
// socket must not end the host. A SIGPIPE is directed at the thread that wrote, so it can be taken back here.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalBlocked() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
struct EasyDeleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct MultiDeleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

struct Host {
  std::string name;  // for failures: "127.0.0.1:8080"
  bool loopback = false;
};

std::string url_part(CURLU* url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  std::string result = text;
  curl_free(text);
  return result;
}

Host host_of(const std::string& address) {
  const std::unique_ptr<CURLU, UrlDeleter> url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, address.c_str(), 0) != CURLUE_OK) return {};
  const std::string name = url_part(url.get(), CURLUPART_HOST);
  const std::string port = url_part(url.get(), CURLUPART_PORT);
  return {port.empty() ? name : name + ":" + port, name == "localhost" || name == "[::1]" || name.starts_with("127.")};
}

class CurlClient : public HttpClient {
 public:
  HttpEnd post(const HttpRequest& request, HttpSink& sink, std::stop_token stop) override {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    if (!multi_) multi_.reset(curl_multi_init());
    const std::unique_ptr<CURL, EasyDeleter> easy(curl_easy_init());
    if (!multi_ || !easy) return {HttpEnd::Kind::impossible, "out of memory"};
    const Host host = host_of(request.url);
    if (host.name.empty()) return {HttpEnd::Kind::impossible, "the server's address is no URL"};

    const PipeSignalBlocked blocked;
    Exchange exchange{sink, {}, false, false};
    char detail[CURL_ERROR_SIZE] = "";
    const auto headers = make_headers(request);
    set_options(easy.get(), request, headers.get(), host, exchange, detail);
    if (curl_multi_add_handle(multi_.get(), easy.get()) != CURLM_OK)
      return {HttpEnd::Kind::impossible, "out of memory"};
    HttpEnd end = drive(easy.get(), exchange, stop, host, detail);
    // Without it an abort while the name is being resolved would wait for the resolver's thread.
    if (end.kind == HttpEnd::Kind::aborted) curl_easy_setopt(easy.get(), CURLOPT_QUICK_EXIT, 1L);
    curl_multi_remove_handle(multi_.get(), easy.get());
    return end;
  }

 private:
  struct Exchange {
    HttpSink& sink;
    HttpHead head;
    bool head_told = false;
    bool refused = false;  // by the sink
  };
  using Headers = std::unique_ptr<curl_slist, ListDeleter>;

  static Headers make_headers(const HttpRequest& request) {
    Headers list;
    const auto add = [&](const std::string& line) {
      if (curl_slist* longer = curl_slist_append(list.get(), line.c_str())) {
        (void)list.release();
        list.reset(longer);
      }
    };
    for (const auto& [name, value] : request.headers) add(name + ": " + value);
    add("Expect:");  // no waiting for "100 Continue" before a long body
    return list;
  }

  static void set_options(CURL* easy, const HttpRequest& request, curl_slist* headers, const Host& host,
                          Exchange& exchange, char* detail) {
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    if (host.loopback) curl_easy_setopt(easy, CURLOPT_PROXY, "");
    // A task or tool that is started meanwhile must not inherit the connection.
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &open_socket);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  }

  HttpEnd drive(CURL* easy, Exchange& exchange, const std::stop_token& stop, const Host& host, const char* detail) {
    CURLM* multi = multi_.get();
    const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
    for (;;) {
      if (stop.stop_requested()) return {HttpEnd::Kind::aborted, ""};
      int running = 0;
      if (const CURLMcode code = curl_multi_perform(multi, &running); code != CURLM_OK) {
        return {HttpEnd::Kind::impossible, curl_multi_strerror(code)};
      }
      int left = 0;
      while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
        if (message->msg == CURLMSG_DONE && message->easy_handle == easy) {
          return ending(easy, message->data.result, exchange, host, detail);
        }
      }
      const std::int64_t rest = exchange.sink.deadline_ms() - monotonic_ms();
      if (rest <= 0) return {HttpEnd::Kind::timed_out, ""};
      if (stop.stop_requested()) continue;
      curl_multi_poll(multi, nullptr, 0, static_cast<int>(std::min(rest, kMaxPollMs)), nullptr);
    }
  }

  static HttpEnd ending(CURL* easy, CURLcode code, Exchange& exchange, const Host& host, const char* detail) {
    using Kind = HttpEnd::Kind;
    if (exchange.refused) return {Kind::ended_by_sink, ""};
    if (code == CURLE_OK) {
      tell_head(exchange);  // an answer without a body
      return {Kind::complete, ""};
    }
    long number = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
    const std::string reason = number != 0 ? std::strerror(static_cast<int>(number)) : curl_easy_strerror(code);
    switch (code) {
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
        return {Kind::lost, fmt::format("cannot connect to {}: {}", host.name, reason)};
      case CURLE_OPERATION_TIMEDOUT:
        return {Kind::lost, fmt::format("cannot connect to {}: no answer within {} s", host.name, kConnectMs / 1000)};
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_URL_MALFORMAT:
        return {Kind::impossible, "the server's address is no http or https URL"};
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
      case CURLE_SSL_CERTPROBLEM:
        return {Kind::impossible, fmt::format("{}: {}", host.name, clean_utf8(*detail ? detail : reason))};
      default:
        return {Kind::lost, fmt::format("connection to {} lost: {}", host.name, curl_easy_strerror(code))};
    }
  }

  static curl_socket_t open_socket(void*, curlsocktype, curl_sockaddr* address) {
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
  }

  static std::size_t take_header(char* data, std::size_t size, std::size_t count, void* user) {
    HttpHead& head = static_cast<Exchange*>(user)->head;
    std::string_view line(data, size * count);
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {  // also after "100 Continue" and a proxy's own answer
      head = {};
      const std::size_t space = line.find(' ');
      if (space != std::string_view::npos) {
        for (const char c : line.substr(space + 1, 3))
          head.status = head.status * 10 + (c >= '0' && c <= '9' ? c - '0' : 0);
      }
    } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
      std::string name(line.substr(0, colon));
      for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      std::string_view value = line.substr(colon + 1);
      while (value.starts_with(' ') || value.starts_with('\t')) value.remove_prefix(1);
      while (value.ends_with(' ') || value.ends_with('\t')) value.remove_suffix(1);
      head.headers.emplace_back(std::move(name), value);
    }
    return size * count;
  }

  static void tell_head(Exchange& exchange) {
    if (!std::exchange(exchange.head_told, true)) exchange.sink.on_head(exchange.head);
  }

  static std::size_t take_body(char* data, std::size_t size, std::size_t count, void* user) {
    Exchange& exchange = *static_cast<Exchange*>(user);
    tell_head(exchange);
    if (exchange.sink.on_body({data, size * count})) return size * count;
    exchange.refused = true;
    return size * count + 1;  // any other number than what was given ends the transfer
  }

  std::unique_ptr<CURLM, MultiDeleter> multi_;
};

}  // namespace

std::string_view HttpHead::header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::unique_ptr<HttpClient> make_http_client() { return std::make_unique<CurlClient>(); }

}  // namespace errand
