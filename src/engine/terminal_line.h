// SPDX-License-Identifier: Apache-2.0
// One line as a terminal has it: cells and a cursor. What is printed overwrites what stands there.
//
// The model: a line as wide as it needs to be, without wrapping. A character takes its columns (char_width()); the half
// of a wide one that is left when the other is overwritten becomes blank. A combining character joins the cell before
// the cursor. A tab that is printed at the line's end is kept as a tab, over text it only moves the cursor. A jump to
// the right goes at most to column kFarthest, or to the line's end if that is farther.
//
// Memory is bounded: of a line of more than some thousand columns the begin and the end are kept, and what is lost
// between them is counted. It comes to at most 2,000 characters anyway: a longer line is shown cut in the middle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace errand {

class TerminalLine {
 public:
  static constexpr std::size_t kMaxShown = 2000;  // characters
  static constexpr std::size_t kFarthest = 2000;  // column of a jump, counted from 1
  static constexpr std::size_t kMaxMarks = 8;     // combining characters of a cell; more are dropped
  // A line of so many bytes loses nothing, whatever it holds (a tab takes up to eight columns).
  static constexpr std::size_t kSurelyWhole = 750;

  // Printable ASCII.
  void put_ascii(std::string_view text);
  // A printable code point.
  void put(char32_t c);
  void tab();
  void carriage_return() { column_ = 0; }
  void backspace() { left(1); }
  void left(std::size_t columns) { column_ -= columns < column_ ? columns : column_; }
  void right(std::size_t columns) { go(column_ + columns); }
  // From 1 on.
  void go_to(std::size_t column) { go(column > 0 ? column - 1 : 0); }
  // As CSI K has it: 0 from the cursor to the end, 1 from the begin to the cursor, 2 all.
  void erase(int what);
  void clear();

  // No cell stands in it (the cursor may stand anywhere).
  bool empty() const { return cells_.empty(); }
  // What a reader is shown: at most kMaxShown characters. Blanks at the end that nobody printed are not shown. `cut`,
  // if given, becomes true when the line is longer.
  std::string text(bool* cut = nullptr) const;
  // Not less than the size of text().
  std::size_t most_text() const;

 private:
  // A code point; kBlank; kPart, a further column of the cell before; or kMarked and an index of marked_.
  using Cell = std::uint32_t;
  static constexpr Cell kBlank = 0;
  static constexpr Cell kPart = 0xFFFFFFFF;
  static constexpr Cell kMarked = 0x80000000;
  static constexpr std::size_t kHead = 2048;    // columns that are never lost
  static constexpr std::size_t kWindow = 4096;  // columns kept behind what is lost, and at least half of it

  std::size_t length() const { return cells_.size() + lost_columns_; }
  // The column's cell; null: it is one of the lost, or behind the end.
  Cell* at(std::size_t column);
  void go(std::size_t column);
  // The columns are about to be overwritten: what is left of cells that reach into or out of them is blank.
  void detach(std::size_t from, std::size_t to);
  void put_cell(Cell cell, std::size_t width);
  void add_mark(char32_t c);
  // Cut at the column, or filled with blanks up to it.
  void resize(std::size_t columns);
  void lose_middle();
  void collect_marked();
  std::size_t characters(std::size_t from, std::size_t to) const;
  void render(std::string& text, std::size_t from, std::size_t to) const;

  std::vector<Cell> cells_;          // columns below kHead, then those behind the lost ones
  std::vector<std::string> marked_;  // characters with their marks, as UTF-8
  std::size_t column_ = 0;           // the cursor's
  std::size_t lost_columns_ = 0;
  std::size_t lost_characters_ = 0;
};

}  // namespace errand
