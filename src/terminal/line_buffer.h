// SPDX-License-Identifier: Apache-2.0
// The line being edited: a text, a cursor that stands only between grapheme clusters, and the history. Passive; knows
// nothing of screens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "terminal/keys.h"

namespace errand::terminal {

class LineBuffer {
 public:
  const std::string& text() const { return text_; }
  std::size_t cursor() const { return cursor_; }
  bool empty() const { return text_.empty(); }

  // The cursor goes to the end.
  void set(std::string text);
  // Takes the text and leaves an empty line.
  std::string take();
  void insert(std::string_view text);
  // An editing key, history included. False when it means nothing to a line (enter, interrupt, ...).
  bool apply(const Key& key);

  // A line that was entered; empty ones and repetitions of the last are not kept.
  void remember(const std::string& line);

 private:
  std::size_t line_begin() const;
  std::size_t line_end() const;
  void erase(std::size_t from, std::size_t to);
  void move_vertically(int direction);
  void recall(std::size_t place);

  std::string text_;
  std::size_t cursor_ = 0;
  std::vector<std::string> history_;
  std::size_t place_ = 0;  // in history_; its size: the line that is being written
  std::string draft_;      // that line, while an older one is shown
};

}  // namespace errand::terminal
