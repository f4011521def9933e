// SPDX-License-Identifier: Apache-2.0
// A terminal for tests: as much of a VT100 as Screen uses, with deferred wrap and wide characters. No reflow; that is
// tested against a real one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace errand::terminal {

class TinyTerminal {
 public:
  TinyTerminal(int width, int height);
  void feed(std::string_view bytes);
  // Scrollback and screen, trailing blanks cut, wrapped rows joined, trailing empty rows dropped.
  std::vector<std::string> lines() const;
  // The screen's rows as they are.
  std::vector<std::string> rows() const;
  int row() const { return row_; }
  int column() const { return column_; }

 private:
  struct Row {
    std::vector<std::string> cells;
    bool wrapped = false;  // goes on in the next
  };
  void put(std::string_view cluster, int width);
  void line_feed();
  Row blank() const;
  static std::string text(const Row& row);

  int width_, height_, row_ = 0, column_ = 0;
  bool pending_wrap_ = false;
  std::vector<Row> scrollback_, screen_;
};

}  // namespace errand::terminal
