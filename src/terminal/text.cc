// SPDX-License-Identifier: Apache-2.0
#include "terminal/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/utf8.h"

namespace errand::terminal {
namespace {

struct CodePoint {
  utf8proc_int32_t value = 0xFFFD;
  std::size_t length = 1;
};

CodePoint first_code_point(std::string_view text) {
  CodePoint point;
  const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &point.value);
  if (length <= 0) return {};
  point.length = static_cast<std::size_t>(length);
  return point;
}

bool is_regional_indicator(utf8proc_int32_t point) { return point >= 0x1F1E6 && point <= 0x1F1FF; }
bool is_control(utf8proc_int32_t point) { return point < 0x20 || (point >= 0x7F && point <= 0x9F); }
// Bidirectional overrides, isolates and marks, zero-width spaces and joiners, line separators, the byte-order mark.
bool is_hiding(utf8proc_int32_t point) {
  return (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069) ||
         (point >= 0x200B && point <= 0x200F) || point == 0x061C || point == 0x2028 || point == 0x2029 ||
         point == 0xFEFF || (point >= 0xE0000 && point <= 0xE007F);
}

constexpr std::string_view tab_cells = "    ";

}  // namespace

std::size_t cluster_length(std::string_view text) {
  if (text.empty()) return 0;
  CodePoint point = first_code_point(text);
  std::size_t length = point.length;
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    const CodePoint next = first_code_point(text.substr(length));
    if (utf8proc_grapheme_break_stateful(point.value, next.value, &state)) break;
    length += next.length;
    point = next;
  }
  return length;
}

std::size_t last_cluster_length(std::string_view text) {
  // A cluster never crosses a newline, so the walk may begin at the last line.
  const std::size_t newline = text.size() < 2 ? std::string_view::npos : text.rfind('\n', text.size() - 2);
  std::string_view rest = newline == std::string_view::npos ? text : text.substr(newline + 1);
  std::size_t length = 0;
  while (!rest.empty()) {
    length = cluster_length(rest);
    rest.remove_prefix(length);
  }
  return length;
}

int cluster_width(std::string_view cluster) {
  if (cluster.empty()) return 0;
  const CodePoint first = first_code_point(cluster);
  if (first.value == '\t') return static_cast<int>(tab_cells.size());
  if (is_control(first.value)) return 2;
  if (is_regional_indicator(first.value) && cluster.size() > first.length) return 2;
  return std::clamp(utf8proc_charwidth(first.value), 0, 2);
}

std::string shown_cluster(std::string_view cluster) {
  if (cluster.empty()) return {};
  const CodePoint first = first_code_point(cluster);
  if (first.value == '\t') return std::string(tab_cells);
  if (first.value == 0x7F) return "^?";
  if (first.value < 0x20) return {'^', static_cast<char>(first.value + 0x40)};
  if (is_control(first.value)) return "??";
  return std::string(cluster);
}

int text_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const std::size_t length = cluster_length(text);
    width += cluster_width(text.substr(0, length));
    text.remove_prefix(length);
  }
  return width;
}

bool has_doubtful_width(std::string_view cluster) {
  if (cluster.empty()) return false;
  const CodePoint first = first_code_point(cluster);
  return cluster.size() > first.length || first.value >= 0x1F000 || utf8proc_charwidth(first.value) == 0;
}

std::string TextFilter::feed(std::string_view bytes) {
  std::string input = std::move(partial_);
  partial_.clear();
  input += bytes;
  // Keep an unfinished character back: at most 3 bytes from the last lead byte on.
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, input.size()); ++back) {
    const auto byte = static_cast<unsigned char>(input[input.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t need = byte >= 0xF0 && byte <= 0xF4 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    if (byte >= 0xC2 && byte <= 0xF4 && need > back) {
      partial_ = input.substr(input.size() - back);
      input.erase(input.size() - back);
    }
    break;
  }
  const std::string clean = clean_utf8(input);
  std::string text;
  text.reserve(clean.size());
  for (std::string_view rest = clean; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    const std::string_view whole = rest.substr(0, point.length);
    rest.remove_prefix(point.length);
    switch (state_) {
      case State::ground:
        if (point.value == 0x1B) {
          state_ = State::escape;
        } else if (point.value == 0x9B) {
          state_ = State::csi;
        } else if (point.value == 0x90 || point.value == 0x98 || (point.value >= 0x9D && point.value <= 0x9F)) {
          state_ = State::string;
        } else if (point.value == '\n' || point.value == '\t' || !is_control(point.value)) {
          text += whole;
        }
        break;
      case State::escape:
        if (point.value == '[') {
          state_ = State::csi;
        } else if (point.value == ']' || point.value == 'P' || point.value == 'X' || point.value == '^' ||
                   point.value == '_') {
          state_ = State::string;
        } else if (point.value == 0x1B || (point.value >= 0x20 && point.value <= 0x2F)) {
          // Another ESC, or an intermediate byte: the sequence goes on.
        } else {
          state_ = State::ground;
          if (point.value == '\n' || (point.value > 0x7F && !is_control(point.value))) text += whole;
        }
        break;
      case State::csi:
        if (point.value == '\n') {  // a broken sequence must not swallow the lines after it
          state_ = State::ground;
          text += whole;
        } else if (point.value == 0x1B) {
          state_ = State::escape;
        } else if (point.value >= 0x40) {
          state_ = State::ground;
        }
        break;
      case State::string:
        if (point.value == 0x07 || point.value == 0x9C) {
          state_ = State::ground;
        } else if (point.value == 0x1B) {
          state_ = State::string_escape;
        } else if (point.value == '\n') {
          state_ = State::ground;
          text += whole;
        }
        break;
      case State::string_escape:
        state_ = point.value == '\\' ? State::ground : State::string;
        break;
    }
  }
  return text;
}

std::string plain_text(std::string_view bytes) {
  TextFilter filter;
  return filter.feed(clean_utf8(bytes));
}

std::string visible_text(std::string_view text) {
  const std::string clean = clean_utf8(text);
  std::string shown;
  for (std::string_view rest = clean; !rest.empty();) {
    const CodePoint point = first_code_point(rest);
    std::array<char, 16> escaped{};
    if (point.value == '\n') {
      shown += '\n';
    } else if (is_control(point.value)) {
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(point.value));
      shown += escaped.data();
    } else if (is_hiding(point.value)) {
      std::snprintf(escaped.data(), escaped.size(), "\\u%04x", static_cast<unsigned>(point.value));
      shown += escaped.data();
    } else {
      shown += rest.substr(0, point.length);
    }
    rest.remove_prefix(point.length);
  }
  return shown;
}

}  // namespace errand::terminal
