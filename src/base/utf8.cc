// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <algorithm>

namespace errand {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

CodePoint next_code_point(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {0xFFFD, 1, false, false};
  }
  std::size_t size = 1;
  while (size < length) {
    if (size == bytes.size()) return {0xFFFD, size, false, true};
    const unsigned char next = byte(size);
    if (next < (size == 1 ? low : 0x80) || next > (size == 1 ? high : 0xBF)) return {0xFFFD, size, false, false};
    value = value << 6 | (next & 0x3F);
    ++size;
  }
  return {value, size, true, false};
}

void append_utf8(std::string& text, char32_t c) {
  const auto add = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x80) return add(c);
  if (c < 0x800) {
    add(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      add(0xE0 | c >> 12);
    } else {
      add(0xF0 | c >> 18);
      add(0x80 | (c >> 12 & 0x3F));
    }
    add(0x80 | (c >> 6 & 0x3F));
  }
  add(0x80 | (c & 0x3F));
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint next = next_code_point(text);
    if (!next.valid) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

std::string clean_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const CodePoint next = next_code_point(bytes);
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

std::string cut_middle(std::string_view text, std::size_t max) { return cut_middle(text, 0, {}, max); }

std::string cut_middle(std::string_view before, std::size_t lost, std::string_view after, std::size_t max) {
  const std::size_t before_length = utf8_length(before);
  const std::size_t after_length = utf8_length(after);
  const std::size_t length = before_length + lost + after_length;
  if (lost == 0 && length <= max) return std::string(before) + std::string(after);
  // The note's own length depends on the count it holds; the count of what is cut is exact.
  std::size_t kept = std::min(max, length - lost);
  std::string note;
  for (int round = 0; round < 3; ++round) {
    note = "... (" + std::to_string(length - kept) + " characters cut) ...";
    kept = std::min(max > note.size() ? max - note.size() : 0, length - lost);
  }
  std::size_t head = kept - kept / 2;
  std::size_t tail = kept / 2;
  if (lost > 0) {  // what is lost stays between them
    head = std::min(head, before_length);
    tail = std::min(tail, after_length);
  }
  note = "... (" + std::to_string(length - head - tail) + " characters cut) ...";
  std::string text(before.substr(0, utf8_offset(before, head)));
  if (head > before_length) text += after.substr(0, utf8_offset(after, head - before_length));
  text += note;
  if (tail > after_length) {
    text += before.substr(utf8_offset(before, before_length - (tail - after_length)));
    tail = after_length;
  }
  text += after.substr(utf8_offset(after, after_length - tail));
  return text;
}

}  // namespace errand
