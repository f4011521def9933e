// SPDX-License-Identifier: Apache-2.0
#include "terminal/keys.h"

#include <array>
#include <cstddef>
#include <optional>

#include "base/utf8.h"

namespace errand::terminal {
namespace {

constexpr std::string_view paste_begin = "\x1b[200~";
constexpr std::string_view paste_end = "\x1b[201~";

// The length that the lead byte announces; 1 for what cannot lead, so that it is cleaned on its own.
std::size_t sequence_length(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 1;
}

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

KeyCode control_key(unsigned char byte) {
  switch (byte) {
    case 0x01:
      return KeyCode::home;
    case 0x02:
      return KeyCode::left;
    case 0x03:
      return KeyCode::interrupt;
    case 0x04:
      return KeyCode::end_of_input;
    case 0x05:
      return KeyCode::end;
    case 0x06:
      return KeyCode::right;
    case 0x08:
      return KeyCode::backspace;
    case 0x09:
      return KeyCode::tab;
    case 0x0A:
      return KeyCode::enter;
    case 0x0B:
      return KeyCode::kill_to_end;
    case 0x0C:
      return KeyCode::clear_screen;
    case 0x0D:
      return KeyCode::enter;
    case 0x0E:
      return KeyCode::down;
    case 0x10:
      return KeyCode::up;
    case 0x15:
      return KeyCode::kill_to_start;
    case 0x17:
      return KeyCode::kill_word;
    case 0x1A:
      return KeyCode::suspend;
    case 0x7F:
      return KeyCode::backspace;
    default:
      return KeyCode::unknown;
  }
}

// A complete CSI or SS3 sequence: what stands between the introducer and the final byte, and the final byte.
KeyCode sequence_key(std::string_view parameters, char final_byte) {
  const bool modified = parameters.size() > 2 && parameters.substr(0, 2) == "1;" && parameters != "1;2";
  switch (final_byte) {
    case 'A':
      return KeyCode::up;
    case 'B':
      return KeyCode::down;
    case 'C':
      return modified ? KeyCode::word_right : KeyCode::right;
    case 'D':
      return modified ? KeyCode::word_left : KeyCode::left;
    case 'H':
      return KeyCode::home;
    case 'F':
      return KeyCode::end;
    case 'M':
      return KeyCode::enter;  // SS3: the keypad's Enter
    case '~':
      if (parameters == "1" || parameters == "7") return KeyCode::home;
      if (parameters == "4" || parameters == "8") return KeyCode::end;
      if (parameters == "3") return KeyCode::remove;
      return KeyCode::unknown;
    default:
      return KeyCode::unknown;
  }
}

std::string unify_newlines(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '\r') {
      text += bytes[i];
    } else {
      text += '\n';
      if (i + 1 < bytes.size() && bytes[i + 1] == '\n') ++i;
    }
  }
  return clean_utf8(text);
}

}  // namespace

std::vector<Key> KeyDecoder::feed(std::string_view bytes) {
  held_ += bytes;
  std::vector<Key> keys;
  while (!held_.empty() && take(keys, false)) {
  }
  return keys;
}

std::vector<Key> KeyDecoder::flush() {
  std::vector<Key> keys;
  while (!pasting_ && !held_.empty() && take(keys, true)) {
  }
  return keys;
}

bool KeyDecoder::take(std::vector<Key>& keys, bool complete) {
  if (pasting_) return take_paste(keys);
  const auto first = static_cast<unsigned char>(held_[0]);
  if (first == 0x1B) return take_escape(keys, complete);
  if (first < 0x20 || first == 0x7F) {
    keys.push_back({control_key(first), {}});
    held_.erase(0, 1);
    return true;
  }
  // A run of characters is one key, so that a fast typist or a plain paste costs one repaint.
  std::size_t taken = 0;
  while (taken < held_.size()) {
    const auto lead = static_cast<unsigned char>(held_[taken]);
    if (lead < 0x20 || lead == 0x7F) break;
    const std::size_t length = sequence_length(lead);
    std::size_t have = 1;
    while (have < length && taken + have < held_.size() &&
           is_continuation(static_cast<unsigned char>(held_[taken + have])))
      ++have;
    if (have < length && taken + have == held_.size() && !complete) break;
    taken += have;
  }
  if (taken == 0) return false;
  std::string text = clean_utf8(std::string_view(held_).substr(0, taken));
  held_.erase(0, taken);
  keys.push_back({KeyCode::text, std::move(text)});
  return true;
}

bool KeyDecoder::take_escape(std::vector<Key>& keys, bool complete) {
  const auto emit = [&](KeyCode code, std::size_t length) {
    keys.push_back({code, {}});
    held_.erase(0, length);
    return true;
  };
  if (held_.size() == 1) return complete ? emit(KeyCode::escape, 1) : false;
  const char second = held_[1];
  if (second == '[' || second == 'O') {
    std::size_t i = 2;
    while (i < held_.size() && held_[i] >= 0x20 && held_[i] <= 0x3F) ++i;
    if (i == held_.size()) return complete ? emit(KeyCode::unknown, held_.size()) : false;
    if (held_[i] < 0x40 || held_[i] == 0x7F) return emit(KeyCode::unknown, i);  // broken off by another key
    const std::string_view sequence = std::string_view(held_).substr(0, i + 1);
    if (sequence == paste_begin) {
      held_.erase(0, i + 1);
      pasting_ = true;
      return true;
    }
    return emit(sequence_key(sequence.substr(2, i - 2), held_[i]), i + 1);
  }
  switch (second) {
    case '\r':
    case '\n':
      return emit(KeyCode::newline, 2);
    case 'b':
      return emit(KeyCode::word_left, 2);
    case 'f':
      return emit(KeyCode::word_right, 2);
    case 0x7F:
    case 0x08:
      return emit(KeyCode::kill_word, 2);
    case 0x1B:
      return emit(KeyCode::escape, 1);
    default:
      break;
  }
  // Any other key quickly after an ESC: two keys, in order.
  return emit(KeyCode::escape, 1);
}

bool KeyDecoder::take_paste(std::vector<Key>& keys) {
  const std::size_t end = held_.find(paste_end);
  if (end == std::string::npos) return false;
  keys.push_back({KeyCode::paste, unify_newlines(std::string_view(held_).substr(0, end))});
  held_.erase(0, end + paste_end.size());
  pasting_ = false;
  return true;
}

}  // namespace errand::terminal
