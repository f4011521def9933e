// SPDX-License-Identifier: Apache-2.0
#include "engine/line_store.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace errand {
namespace {

constexpr char kZero = 0x10;  // the digit 0 of base 16; the digits are below the space and apart from \t and \n

bool is_digit(char byte) { return byte >= kZero && byte < kZero + 16; }

void append_digits(std::string& text, std::int64_t difference) {
  auto value = static_cast<std::uint64_t>(difference) << 1;
  if (difference < 0) value = ~value;
  for (; value != 0; value >>= 4) text += static_cast<char>(kZero + static_cast<char>(value & 15));
}

// Of one line, without its newline: the text and what its raw size is more.
std::int64_t take_digits(std::string_view& line) {
  std::uint64_t value = 0;
  while (!line.empty() && is_digit(line.back())) {
    value = value << 4 | static_cast<std::uint64_t>(line.back() - kZero);
    line.remove_suffix(1);
  }
  const auto half = static_cast<std::int64_t>(value >> 1);
  return (value & 1) != 0 ? ~half : half;
}

// The size of a line with its newline, in the raw output.
std::uint64_t raw_size(std::string_view line) {
  line.remove_suffix(1);
  const std::int64_t more = take_digits(line);
  return line.size() + 1 + static_cast<std::uint64_t>(more);
}

}  // namespace

// A line's end is the first newline at or behind the offset.
void LineStore::drop_lines(std::size_t bytes) {
  const std::size_t end = bytes_.find('\n', start_ + bytes - 1) + 1;
  std::string_view dropped = std::string_view(bytes_).substr(start_, end - start_);
  start_ = end;
  while (marked_ > 0 && !dropped.empty()) {
    const std::size_t size = dropped.find('\n') + 1;
    begin_ += raw_size(dropped.substr(0, size));
    if (size > 1 && is_digit(dropped[size - 2])) --marked_;
    dropped.remove_prefix(size);
  }
  begin_ += dropped.size();
}

// For so many bytes that come, at most the limit.
void LineStore::make_room(std::size_t bytes) {
  if (size() + bytes > limit_) drop_lines(size() + bytes - limit_);
  if (bytes_.size() + bytes <= bytes_.capacity()) return;
  // Grown by doubling up to the limit and a quarter, which is moved out of the front now and then.
  const std::size_t most = limit_ + limit_ / 4;
  if (bytes_.size() + bytes > most || start_ > bytes_.size() / 2) {
    bytes_.erase(0, start_);
    start_ = 0;
  }
  const std::size_t needed = bytes_.size() + bytes;
  if (needed > bytes_.capacity()) bytes_.reserve(std::min(most, std::max(needed, 2 * bytes_.capacity())));
}

void LineStore::add_plain(std::string_view lines) {
  if (partial_) drop();
  end_ += lines.size();
  if (lines.size() > limit_) {
    // A plain line is short, but the limit may be shorter yet.
    const std::size_t cut = lines.size() - limit_;
    const std::size_t newline = lines.find('\n', cut - 1);
    if (newline + 1 < lines.size()) {
      drop();
      begin_ = end_ - (lines.size() - newline - 1);
      lines.remove_prefix(newline + 1);
    } else {
      const std::size_t last = lines.substr(0, lines.size() - 1).rfind('\n') + 1;
      drop();
      end_ = begin_ = end_ - (lines.size() - last);
      return add(lines.substr(last, lines.size() - last - 1), lines.size() - last);
    }
  }
  make_room(lines.size());
  bytes_ += lines;
}

void LineStore::add(std::string_view line, std::uint64_t raw_bytes) {
  if (partial_) drop();
  std::string digits;
  append_digits(digits, static_cast<std::int64_t>(raw_bytes) - static_cast<std::int64_t>(line.size()) - 1);
  end_ += raw_bytes;
  if (line.size() + digits.size() + 1 > limit_) {
    drop();
    partial_ = true;
    const std::size_t room = limit_ - 24;  // digits have at most 16 places
    line = utf8_suffix(line, room);
    // Something counts as dropped, even if the begin was made of less bytes than the end.
    begin_ = end_ - std::min<std::uint64_t>(raw_bytes - 1, line.size() + 1);
    digits.clear();
    append_digits(digits, static_cast<std::int64_t>(end_ - begin_) - static_cast<std::int64_t>(line.size()) - 1);
  }
  make_room(line.size() + digits.size() + 1);
  bytes_ += line;
  bytes_ += digits;
  if (!digits.empty()) ++marked_;
  bytes_ += '\n';
}

std::string LineStore::text(std::uint64_t after, std::size_t most, std::uint64_t& from) const {
  std::string_view lines = std::string_view(bytes_).substr(start_);
  from = begin_;
  if (marked_ == 0) {
    if (after > begin_) {
      // A line whose newline stands before the offset is not asked for; one that goes on behind it comes whole.
      const auto before = static_cast<std::size_t>(std::min<std::uint64_t>(after - begin_, lines.size()));
      const void* const newline = ::memrchr(lines.data(), '\n', before);
      if (newline != nullptr) {
        lines.remove_prefix(static_cast<std::size_t>(static_cast<const char*>(newline) - lines.data()) + 1);
      }
    }
    if (lines.size() > most) lines.remove_prefix(lines.find('\n', lines.size() - most - 1) + 1);
    from = end_ - lines.size();
    return std::string(lines);
  }
  std::size_t left = lines.size() - static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), is_digit));
  std::string text;
  text.reserve(std::min(left, most));
  while (!lines.empty()) {
    const std::string_view whole = lines.substr(0, lines.find('\n') + 1);
    std::string_view line = whole.substr(0, whole.size() - 1);
    take_digits(line);
    lines.remove_prefix(whole.size());
    if (text.empty() && (left > most || from + raw_size(whole) <= after)) {
      from += raw_size(whole);
      left -= line.size() + 1;
      continue;
    }
    text.append(line) += '\n';
  }
  return text;
}

void LineStore::drop() {
  bytes_.clear();
  start_ = marked_ = 0;
  begin_ = end_;
  partial_ = false;
}

void LineStore::shrink() {
  bytes_.erase(0, start_);
  start_ = 0;
  bytes_.shrink_to_fit();
}

}  // namespace errand
