// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <cstdint>

namespace errand {
namespace {

struct Decoded {
  std::size_t size = 1;  // bytes consumed
  bool valid = false;
};

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// One code point, or the maximal subpart of an ill-formed sequence (Unicode 15, table 3-7).
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  std::size_t size = 1;
  while (size < length) {
    if (size == text.size()) return {size, false};
    const unsigned char next = byte(size);
    if (next < (size == 1 ? low : 0x80) || next > (size == 1 ? high : 0xBF)) return {size, false};
    ++size;
  }
  return {size, true};
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Decoded next = decode(text);
    if (!next.valid) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

std::string clean_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Decoded next = decode(bytes);
    if (next.valid) {
      text.append(bytes.substr(0, next.size));
    } else {
      text.append("\xEF\xBF\xBD");
    }
    bytes.remove_prefix(next.size);
  }
  return text;
}

std::string_view utf8_prefix(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && is_continuation(static_cast<unsigned char>(text[bytes]))) --bytes;
  return text.substr(0, bytes);
}

std::string_view utf8_suffix(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  std::size_t start = text.size() - bytes;
  while (start < text.size() && is_continuation(static_cast<unsigned char>(text[start]))) ++start;
  return text.substr(start);
}

std::size_t utf8_offset(std::string_view text, std::size_t index) {
  std::size_t seen = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (is_continuation(static_cast<unsigned char>(text[at]))) continue;
    if (seen++ == index) return at;
  }
  return text.size();
}

std::size_t utf8_length(std::string_view text) {
  std::size_t length = 0;
  for (const char c : text) length += is_continuation(static_cast<unsigned char>(c)) ? 0 : 1;
  return length;
}

std::string cut_middle(std::string_view text, std::size_t max) {
  const std::size_t length = utf8_length(text);
  if (length <= max) return std::string(text);
  // The note's own length depends on the count it holds; the count of what is cut is exact.
  std::size_t kept = max;
  std::string note;
  for (int round = 0; round < 3; ++round) {
    note = "... (" + std::to_string(length - kept) + " characters cut) ...";
    kept = max > note.size() ? max - note.size() : 0;
  }
  const std::size_t head = kept - kept / 2;
  const std::size_t tail = kept / 2;
  note = "... (" + std::to_string(length - head - tail) + " characters cut) ...";
  return std::string(text.substr(0, utf8_offset(text, head))) + note +
         std::string(text.substr(utf8_offset(text, length - tail)));
}

}  // namespace errand
