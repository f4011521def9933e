// SPDX-License-Identifier: Apache-2.0
// Server-sent events out of a byte stream, cut anywhere (WHATWG HTML, 9.2.6). Passive: its owner feeds it what arrives.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace errand {

struct SseEvent {
  std::string name;  // "message" when the stream gave none
  std::string data;  // the data lines joined by newlines; raw bytes, not checked for UTF-8
};

// Lines end in CRLF, LF or CR; comments, `id` and `retry` are dropped; an event without data is none; what stands after
// the last empty line is no event, since the stream may have broken there.
class SseParser {
 public:
  static constexpr std::size_t kMaxEvent = 32u << 20;

  // Appends the events that are complete now. After an event or line over kMaxEvent the rest is dropped: too_large().
  void feed(std::string_view bytes, std::vector<SseEvent>& events);
  bool too_large() const { return too_large_; }
  // An event has begun and its empty line has not come.
  bool unfinished() const { return !line_.empty() || has_data_; }

 private:
  void end_line(std::vector<SseEvent>& events);
  void field(std::string_view name, std::string_view value);

  std::string line_;
  std::string name_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // the LF of a CRLF may be the next chunk's first byte
  bool at_start_ = true;   // where a byte order mark may stand
  bool too_large_ = false;
};

}  // namespace errand
