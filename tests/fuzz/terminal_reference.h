// SPDX-License-Identifier: Apache-2.0
// The view's rules a second time, slow and plain, over the whole of the output at once: what the fuzz targets compare
// the engine's view with. Nothing of the engine is used but the widths of characters.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/char_width.h"

namespace reference {

struct Cell {
  std::u32string text;  // empty: a blank that nobody printed
  bool part = false;    // a further column of the cell before it
};

class Line {
 public:
  static constexpr std::size_t kTooLong = 6000;  // columns; beyond them the view may forget what stood in the middle

  void put(char32_t c) {
    const int width = errand::char_width(c);
    if (width == 0 && column_ > 0 && column_ <= cells_.size()) return mark(c);
    write(c, width == 2 ? 2 : 1);
  }
  void tab() {
    const std::size_t to = column_ - column_ % 8 + 8;
    if (column_ >= cells_.size()) {
      write(U'\t', to - column_);
    } else {
      column_ = to;
    }
  }
  void move_to(std::size_t column) { column_ = std::min(column, std::max<std::size_t>(1999, cells_.size())); }
  std::size_t column() const { return column_; }
  void erase(int what) {
    if (what == 0 && column_ < cells_.size()) {
      break_at(column_);
      cells_.resize(column_);
    }
    if (what == 1) {
      break_at(column_ + 1);
      for (std::size_t i = 0; i <= column_ && i < cells_.size(); ++i) cells_[i] = {};
    }
    if (what == 2) cells_.clear();
    while (!cells_.empty() && what == 1 && column_ + 1 >= cells_.size()) cells_.clear();
    move_to(column_);
  }
  bool too_long() const { return cells_.size() > kTooLong; }
  std::u32string text() const {
    std::size_t end = cells_.size();
    while (end > 0 && cells_[end - 1].text.empty() && !cells_[end - 1].part) --end;
    std::u32string all;
    for (std::size_t i = 0; i < end; ++i) {
      if (!cells_[i].part) all += cells_[i].text.empty() ? U" " : cells_[i].text;
    }
    return all;
  }

 private:
  // A cell that lies across the border of two columns falls apart into blanks.
  void break_at(std::size_t column) {
    if (column >= cells_.size() || !cells_[column].part) return;
    std::size_t first = column, end = column;
    while (cells_[first].part) --first;
    while (end < cells_.size() && cells_[end].part) ++end;
    for (std::size_t i = first; i < end; ++i) cells_[i] = {};
  }
  void write(char32_t c, std::size_t width) {
    if (cells_.size() < column_) cells_.resize(column_);
    break_at(column_);
    break_at(column_ + width);
    if (cells_.size() < column_ + width) cells_.resize(column_ + width);
    for (std::size_t i = 0; i < width; ++i)
      cells_[column_ + i] = {i == 0 ? std::u32string(1, c) : std::u32string(), i > 0};
    column_ += width;
  }
  void mark(char32_t c) {
    std::size_t at = column_ - 1;
    while (cells_[at].part) --at;
    if (cells_[at].text.empty()) cells_[at].text = U" ";
    if (cells_[at].text.size() <= 8) cells_[at].text += c;
  }

  std::vector<Cell> cells_;
  std::size_t column_ = 0;
};

struct Screen {
  std::vector<std::u32string> lines;  // complete ones, before the long ones are cut
  std::vector<std::size_t> ends;      // their ends in the raw bytes
  std::u32string unfinished;
};

// The end of the escape sequence at `at`; `final` and `number` when it is a CSI that could move.
inline std::size_t escape_end(std::string_view b, std::size_t at, char& final, std::size_t& number) {
  final = 0;
  number = 0;
  std::size_t i = at + 1;
  const auto byte = [&] { return static_cast<unsigned char>(b[i]); };
  enum { two, csi, text } kind = two;
  std::size_t used = 0;
  bool plain = true, first = true, intermediate = false;
  for (; i < b.size(); ++i) {
    if (byte() == 0x1B) return i;
    if (++used > (kind == text ? 1048576u : 256u) || byte() == '\n') return i;
    if (byte() == 0x18 || byte() == 0x1A || (kind == text && byte() == 7)) return i + 1;
    if (kind == text || byte() == 0x7F) continue;
    if (byte() < 0x20 || byte() >= 0x80) return i;
    if (kind == two) {
      if (byte() < 0x30) {
        intermediate = true;
      } else if (!intermediate && byte() == '[') {
        kind = csi;
        used = 0;
      } else if (!intermediate && std::string_view("]PX^_").find(b[i]) != std::string_view::npos) {
        kind = text;
        used = 0;
      } else {
        return i + 1;
      }
    } else if (byte() >= 0x40) {
      if (plain) final = b[i];
      return i + 1;
    } else if (byte() >= '0' && byte() <= '9') {
      if (first) number = std::min<std::size_t>(number * 10 + byte() - '0', 100000);
    } else if (byte() == ';' || byte() == ':') {
      first = false;
    } else {
      plain = false;
    }
  }
  return i;
}

// The number of bytes and the code point, or nothing for a maximal subpart of a wrong one. From the table of the
// Unicode standard (3-7), row by row.
inline std::optional<char32_t> code_point(std::string_view b, std::size_t at, std::size_t& size) {
  struct Row {
    unsigned char first_low, first_high, second_low, second_high;
    std::size_t length;
  };
  constexpr Row kRows[] = {{0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
                           {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
                           {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(b[at + i]); };
  size = 1;
  if (byte(0) < 0x80) return byte(0);
  for (const Row& row : kRows) {
    if (byte(0) < row.first_low || byte(0) > row.first_high) continue;
    char32_t value = byte(0) & (0xFF >> (row.length + 1));
    for (std::size_t i = 1; i < row.length; ++i) {
      if (at + i >= b.size()) return std::nullopt;
      if (byte(i) < (i == 1 ? row.second_low : 0x80) || byte(i) > (i == 1 ? row.second_high : 0xBF))
        return std::nullopt;
      value = value * 64 + (byte(i) & 0x3F);
      ++size;
    }
    return value;
  }
  return std::nullopt;
}

// Nothing when a line is too long to be compared.
inline std::optional<Screen> screen_of(std::string_view bytes) {
  Screen screen;
  Line line;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    if (byte == 0x1B) {
      char final = 0;
      std::size_t number = 0;
      at = escape_end(bytes, at, final, number);
      const std::size_t count = std::max<std::size_t>(number, 1);
      if (final == 'K') line.erase(static_cast<int>(number));
      if (final == 'C') line.move_to(line.column() + count);
      if (final == 'D') line.move_to(line.column() - std::min(line.column(), count));
      if (final == 'G') line.move_to(count - 1);
    } else if (byte >= 0x80) {
      std::size_t size = 0;
      const auto c = code_point(bytes, at, size);
      at += size;
      if (!c || *c >= 0xA0) line.put(c.value_or(0xFFFD));
    } else {
      ++at;
      if (byte == '\n') {
        screen.lines.push_back(line.text());
        screen.ends.push_back(at);
        line = {};
      } else if (byte == '\t') {
        line.tab();
      } else if (byte == '\r') {
        line.move_to(0);
      } else if (byte == '\b') {
        line.move_to(line.column() - (line.column() > 0 ? 1 : 0));
      } else if (byte >= 0x20 && byte < 0x7F) {
        line.put(byte);
      }
    }
    if (line.too_long()) return std::nullopt;
  }
  screen.unfinished = line.text();
  return screen;
}

inline std::string utf8(const std::u32string& text) {
  std::string bytes;
  for (const char32_t c : text) {
    const auto add = [&](char32_t x) { bytes += static_cast<char>(static_cast<unsigned char>(x)); };
    if (c < 0x80) {
      add(c);
    } else if (c < 0x800) {
      add(0xC0 + c / 64), add(0x80 + c % 64);
    } else if (c < 0x10000) {
      add(0xE0 + c / 4096), add(0x80 + c / 64 % 64), add(0x80 + c % 64);
    } else {
      add(0xF0 + c / 262144), add(0x80 + c / 4096 % 64), add(0x80 + c / 64 % 64), add(0x80 + c % 64);
    }
  }
  return bytes;
}

// As shown: a line of more than 2,000 characters keeps its begin and its end around a note.
inline std::string shown(const std::u32string& line) {
  if (line.size() <= 2000) return utf8(line);
  // The note is as long as the number in it; 3 of the possible lengths agree with themselves or none does.
  std::size_t cut = line.size() - 2000;
  std::string note;
  for (int i = 0; i < 3; ++i) {
    note = "... (" + std::to_string(cut) + " characters cut) ...";
    cut = line.size() - (2000 - note.size());
  }
  note = "... (" + std::to_string(cut) + " characters cut) ...";
  const std::size_t kept = line.size() - cut;
  return utf8(line.substr(0, kept - kept / 2)) + note + utf8(line.substr(line.size() - kept / 2));
}

}  // namespace reference
