// SPDX-License-Identifier: Apache-2.0
#include "model/sse.h"

#include <utility>

namespace errand {

void SseParser::feed(std::string_view bytes, std::vector<SseEvent>& events) {
  while (!bytes.empty() && !too_large_) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    if (line_.size() + data_.size() > kMaxEvent) {
      too_large_ = true;
      return;
    }
    if (end == std::string_view::npos) return;
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line(events);
    line_.clear();
  }
}

void SseParser::end_line(std::vector<SseEvent>& events) {
  std::string_view line = line_;
  if (std::exchange(at_start_, false) && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  if (line.empty()) {
    if (has_data_) events.push_back({name_.empty() ? "message" : std::move(name_), std::move(data_)});
    name_.clear();
    data_.clear();
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == 0) return;  // a comment
  if (colon == std::string_view::npos) {
    field(line, {});
    return;
  }
  std::string_view value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  field(line.substr(0, colon), value);
}

void SseParser::field(std::string_view name, std::string_view value) {
  if (name == "event") {
    name_ = value;
  } else if (name == "data") {
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
}

}  // namespace errand
