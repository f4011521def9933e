// SPDX-License-Identifier: Apache-2.0
#include "engine/view.h"

#include <algorithm>
#include <cstring>

#include "base/char_width.h"
#include "base/utf8.h"

namespace errand {
namespace {

constexpr unsigned char kEscape = 0x1B;
constexpr unsigned char kCancel = 0x18;
constexpr unsigned char kSubstitute = 0x1A;
constexpr unsigned char kDelete = 0x7F;

// 0: printable ASCII, tab or newline. Without a branch, so that loops over this become wide instructions.
unsigned char is_special(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return static_cast<unsigned char>((static_cast<unsigned char>(byte - 0x20) >= 0x5F) & (byte != '\n') &
                                    (byte != '\t'));
}

std::size_t plain_ascii_prefix(std::string_view bytes) {
  constexpr std::size_t kBlock = 64;
  std::size_t at = 0;
  // Blocks are worth it only where they are not broken off at once.
  while (at < bytes.size() && at < 16) {
    if (is_special(bytes[at]) != 0) return at;
    ++at;
  }
  for (; at + kBlock <= bytes.size(); at += kBlock) {
    unsigned char special = 0;
    for (std::size_t i = 0; i < kBlock; ++i) special |= is_special(bytes[at + i]);
    if (special != 0) break;
  }
  while (at < bytes.size() && is_special(bytes[at]) == 0) ++at;
  return at;
}

// The bytes at the begin that only have to be copied: printable characters that take columns, tabs and newlines.
std::size_t plain_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    at += plain_ascii_prefix(bytes.substr(at));
    if (at == bytes.size() || static_cast<unsigned char>(bytes[at]) < 0xC2) return at;
    do {
      const CodePoint next = next_code_point(bytes.substr(at, 4));
      if (!next.valid || next.value < 0xA0 || char_width(next.value) == 0) return at;
      at += next.size;
    } while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) >= 0xC2);
  }
  return at;
}

bool is_c1(char32_t c) { return c >= 0x80 && c < 0xA0; }

}  // namespace

void View::feed(std::string_view bytes, LineSink& sink) {
  while (!bytes.empty()) {
    const std::size_t plain = state_ == State::ground && partial_size_ == 0 ? plain_prefix(bytes) : 0;
    if (plain > 0) take_plain(bytes.substr(0, plain), sink);
    bytes.remove_prefix(plain);
    if (!bytes.empty()) bytes.remove_prefix(step(bytes, sink));
  }
}

void View::finish() {
  if (partial_size_ > 0) line_.put(0xFFFD);
  partial_size_ = 0;
  state_ = State::ground;
}

void View::take_plain(std::string_view text, LineSink& sink) {
  while (!text.empty()) {
    if (line_start_ == bytes_) {
      // As many lines as are surely short: newlines are sought from the far end of what the next may take.
      std::size_t block = 0;
      while (block < text.size()) {
        const std::string_view next = text.substr(block, TerminalLine::kSurelyWhole + 1);
        const void* const newline = ::memrchr(next.data(), '\n', next.size());
        if (newline == nullptr) break;
        block = static_cast<std::size_t>(static_cast<const char*>(newline) - text.data()) + 1;
      }
      if (block > 0) {
        sink.plain_lines(text.substr(0, block));
        line_start_ = bytes_ += block;
        text.remove_prefix(block);
        continue;
      }
    }
    const std::size_t newline = text.find('\n');
    const std::string_view part = text.substr(0, newline);
    put_text(part);
    bytes_ += part.size();
    text.remove_prefix(part.size());
    if (text.empty()) break;
    ++bytes_;
    text.remove_prefix(1);
    end_line(sink);
  }
}

void View::put_text(std::string_view text) {
  while (!text.empty()) {
    std::size_t ascii = 0;
    while (ascii < text.size() && text[ascii] >= ' ') ++ascii;  // the bytes of longer code points are negative
    line_.put_ascii(text.substr(0, ascii));
    text.remove_prefix(ascii);
    if (text.empty()) break;
    const CodePoint next = next_code_point(text);
    if (next.value == U'\t') {
      line_.tab();
    } else {
      line_.put(next.value);
    }
    text.remove_prefix(next.size);
  }
}

void View::end_line(LineSink& sink) {
  bool cut = false;
  const std::string text = line_.text(&cut);
  sink.line(text, bytes_ - line_start_, cut);
  line_.clear();
  line_start_ = bytes_;
}

std::size_t View::step(std::string_view bytes, LineSink& sink) {
  const auto byte = static_cast<unsigned char>(bytes.front());
  if (state_ != State::ground) {
    if (!in_sequence(byte)) {
      state_ = State::ground;
      return 0;
    }
    ++bytes_;
    return 1;
  }
  if (partial_size_ > 0 || byte >= 0x80) {
    const std::size_t used = decode(bytes);
    bytes_ += used;
    return used;
  }
  ++bytes_;
  control(byte, sink);
  return 1;
}

std::size_t View::decode(std::string_view bytes) {
  std::array<char, 4> begin = partial_;
  std::size_t size = partial_size_;
  while (size < begin.size() && size - partial_size_ < bytes.size()) {
    begin[size] = bytes[size - partial_size_];
    ++size;
  }
  const CodePoint next = next_code_point({begin.data(), size});
  const std::size_t used = next.size - partial_size_;
  if (next.unfinished) {
    partial_ = begin;
    partial_size_ = next.size;
    return used;
  }
  partial_size_ = 0;
  if (!is_c1(next.value)) line_.put(next.value);
  return used;
}

void View::control(unsigned char byte, LineSink& sink) {
  if (byte == '\n') end_line(sink);
  if (byte == '\r') line_.carriage_return();
  if (byte == '\b') line_.backspace();
  if (byte == '\t') line_.tab();
  if (byte == kEscape) begin(State::escape);
}

void View::begin(State state) {
  state_ = state;
  sequence_ = 0;
  parameter_ = 0;
  first_parameter_ = true;
}

bool View::in_sequence(unsigned char byte) {
  if (byte == kEscape) {
    begin(State::escape);
    return true;
  }
  const bool string = state_ == State::string;
  if (++sequence_ > (string ? kMaxString : kMaxSequence) || byte == '\n') return false;
  if (byte == kCancel || byte == kSubstitute || (string && byte == '\a')) {
    state_ = State::ground;
    return true;
  }
  if (string || byte == kDelete) return true;
  if (byte < 0x20 || byte >= 0x80) return false;
  switch (state_) {
    case State::escape:
    case State::escape_intermediate:
      if (byte < 0x30) {
        state_ = State::escape_intermediate;
      } else if (state_ == State::escape && byte == '[') {
        begin(State::csi);
      } else if (state_ == State::escape && std::strchr("]PX^_", byte) != nullptr) {
        begin(State::string);
      } else {
        state_ = State::ground;
      }
      break;
    case State::csi:
    case State::csi_ignored:
      csi_byte(byte);
      break;
    default:
      break;
  }
  return true;
}

void View::csi_byte(unsigned char byte) {
  if (byte >= 0x40) {
    if (state_ == State::csi) run_csi(byte);
    state_ = State::ground;
  } else if (byte >= '0' && byte <= '9') {
    if (!first_parameter_) return;
    parameter_ = std::min<std::uint32_t>(parameter_ * 10 + (byte - '0'), 100'000);
  } else if (byte == ';' || byte == ':') {
    first_parameter_ = false;
  } else {
    state_ = State::csi_ignored;  // another family of sequences
  }
}

void View::run_csi(unsigned char final) {
  const std::size_t count = parameter_ == 0 ? 1 : parameter_;
  if (final == 'K') line_.erase(static_cast<int>(parameter_));
  if (final == 'C') line_.right(count);
  if (final == 'D') line_.left(count);
  if (final == 'G') line_.go_to(count);
}

std::string view_text(std::string_view bytes) {
  class Text : public LineSink {
   public:
    void plain_lines(std::string_view lines) override { text += lines; }
    void line(std::string_view line, std::uint64_t, bool) override { text.append(line) += '\n'; }
    std::string text;
  } sink;
  View view;
  view.feed(bytes, sink);
  view.finish();
  return sink.text + view.unfinished_text();
}

}  // namespace errand
