// SPDX-License-Identifier: Apache-2.0
#include "engine/terminal_line.h"

#include <algorithm>

#include "base/char_width.h"
#include "base/utf8.h"

namespace errand {

TerminalLine::Cell* TerminalLine::at(std::size_t column) {
  if (column >= kHead) {
    if (column < kHead + lost_columns_) return nullptr;
    column -= lost_columns_;
  }
  return column < cells_.size() ? &cells_[column] : nullptr;
}

void TerminalLine::go(std::size_t column) { column_ = std::min(column, std::max(kFarthest - 1, length())); }

void TerminalLine::detach(std::size_t from, std::size_t to) {
  if (const Cell* cell = at(from); cell != nullptr && *cell == kPart) {
    for (std::size_t column = from; column > 0;) {
      Cell* const before = at(--column);
      if (before == nullptr) break;
      const bool first = *before != kPart;
      *before = kBlank;
      if (first) break;
    }
  }
  for (Cell* cell = at(to); cell != nullptr && *cell == kPart; cell = at(++to)) *cell = kBlank;
}

void TerminalLine::lose_middle() {
  if (cells_.size() <= kHead + kWindow) return;
  constexpr std::size_t kLost = kWindow / 2;
  lost_characters_ += characters(kHead, kHead + kLost);
  lost_columns_ += kLost;
  cells_.erase(cells_.begin() + kHead, cells_.begin() + kHead + kLost);
}

void TerminalLine::put_ascii(std::string_view text) {
  if (text.empty()) return;
  if (column_ > length()) resize(column_);
  if (column_ < length()) {
    const std::size_t over = std::min(text.size(), length() - column_);
    detach(column_, column_ + over);
    if (lost_columns_ == 0 || column_ + over <= kHead) {
      std::copy_n(text.begin(), over, cells_.begin() + static_cast<std::ptrdiff_t>(column_));
    } else {
      for (std::size_t i = 0; i < over; ++i) {
        if (Cell* const cell = at(column_ + i)) *cell = static_cast<unsigned char>(text[i]);
      }
    }
    column_ += over;
    text.remove_prefix(over);
  }
  while (!text.empty()) {
    const std::size_t part = std::min(text.size(), kHead + kWindow + 1 - cells_.size());
    cells_.insert(cells_.end(), text.begin(), text.begin() + part);
    lose_middle();
    column_ += part;
    text.remove_prefix(part);
  }
}

void TerminalLine::put_cell(Cell cell, std::size_t width) {
  if (column_ > length()) resize(column_);
  detach(column_, column_ + width);
  for (std::size_t i = 0; i < width; ++i) {
    if (column_ + i == length()) {
      cells_.push_back(cell);
    } else if (Cell* const place = at(column_ + i)) {
      *place = cell;
    }
    cell = kPart;
  }
  column_ += width;
  lose_middle();
}

void TerminalLine::put(char32_t c) {
  const int width = char_width(c);
  if (width == 0 && column_ > 0 && column_ <= length()) return add_mark(c);
  if (width == 2) return put_cell(c, 2);
  if (column_ != length()) return put_cell(c, 1);
  cells_.push_back(c);
  ++column_;
  lose_middle();
}

void TerminalLine::add_mark(char32_t c) {
  std::size_t column = column_ - 1;
  while (column > 0 && at(column) != nullptr && *at(column) == kPart) --column;
  Cell* const cell = at(column);
  if (cell == nullptr) return;
  if (*cell == kPart) *cell = kBlank;  // its begin has been lost
  if (*cell < kMarked) {
    if (marked_.size() > 2 * cells_.size() + 64) collect_marked();
    std::string text;
    append_utf8(text, *cell == kBlank ? U' ' : static_cast<char32_t>(*cell));
    marked_.push_back(std::move(text));
    *cell = kMarked | static_cast<Cell>(marked_.size() - 1);
  }
  std::string& text = marked_[*cell & ~kMarked];
  if (utf8_length(text) <= kMaxMarks) append_utf8(text, c);
}

// Texts of cells that were overwritten stay behind in marked_.
void TerminalLine::collect_marked() {
  std::vector<std::string> used;
  for (Cell& cell : cells_) {
    if (cell < kMarked || cell == kPart) continue;
    used.push_back(std::move(marked_[cell & ~kMarked]));
    cell = kMarked | static_cast<Cell>(used.size() - 1);
  }
  marked_ = std::move(used);
}

void TerminalLine::tab() {
  const std::size_t to = (column_ / 8 + 1) * 8;
  if (column_ < length()) {
    column_ = to;
  } else {
    put_cell(U'\t', to - column_);
  }
}

void TerminalLine::resize(std::size_t columns) {
  if (columns < kHead + lost_columns_) {
    cells_.resize(std::min(columns, kHead), kBlank);
    lost_columns_ = columns - cells_.size();
    lost_characters_ = std::min(lost_characters_, lost_columns_);
  } else {
    cells_.resize(columns - lost_columns_, kBlank);
  }
}

void TerminalLine::erase(int what) {
  if (what == 0 && column_ < length()) {
    detach(column_, length());
    resize(column_);
  } else if (what == 1 && column_ + 1 < length()) {
    detach(0, column_ + 1);
    for (std::size_t column = 0; column <= column_; ++column) {
      if (Cell* const cell = at(column)) *cell = kBlank;
    }
  } else if (what == 1 || what == 2) {
    resize(0);
  }
  go(column_);  // a cursor far out in a line that is short now would make it long again
}

void TerminalLine::clear() {
  if (cells_.capacity() > kHead) cells_ = {};  // long lines are rare, tasks may be many
  cells_.clear();
  marked_.clear();
  column_ = lost_columns_ = lost_characters_ = 0;
}

std::size_t TerminalLine::characters(std::size_t from, std::size_t to) const {
  std::size_t count = 0;
  for (std::size_t i = from; i < to; ++i) {
    const Cell cell = cells_[i];
    if (cell == kPart) continue;
    count += cell < kMarked ? 1 : utf8_length(marked_[cell & ~kMarked]);
  }
  return count;
}

void TerminalLine::render(std::string& text, std::size_t from, std::size_t to) const {
  for (std::size_t i = from; i < to; ++i) {
    const Cell cell = cells_[i];
    if (cell == kPart) continue;
    if (cell == kBlank) {
      text += ' ';
    } else if (cell < 0x80) {
      text += static_cast<char>(cell);
    } else if (cell < kMarked) {
      append_utf8(text, cell);
    } else {
      text += marked_[cell & ~kMarked];
    }
  }
}

std::string TerminalLine::text(bool* cut) const {
  std::size_t end = cells_.size();
  while (end > 0 && cells_[end - 1] == kBlank) --end;
  std::string head, tail;
  if (lost_columns_ == 0) {
    head.reserve(end);
    render(head, 0, end);
    const bool whole = head.size() <= kMaxShown || utf8_length(head) <= kMaxShown;
    if (whole) return head;
  } else {
    end = std::max(end, kHead);
    render(head, 0, kHead);
    render(tail, kHead, end);
  }
  if (cut != nullptr) *cut = true;
  return cut_middle(head, lost_characters_, tail, kMaxShown);
}

std::size_t TerminalLine::most_text() const {
  return std::min(4 * kMaxShown,
                  4 * cells_.size() + 4 * (kMaxMarks + 1) * marked_.size() + (lost_columns_ > 0 ? 64 : 0));
}

}  // namespace errand
