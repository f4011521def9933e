// SPDX-License-Identifier: Apache-2.0
// Where a REPL's text goes: a stream of plain text whose last line may be unfinished.
#pragma once

#include <string>
#include <string_view>

namespace errand::repl {

class Output {
 public:
  virtual ~Output() = default;
  // Any piece of text; must be free of control characters other than newline and tab.
  void write(std::string_view text) {
    if (text.empty()) return;
    put(text);
    open_line_ = text.back() != '\n';
  }
  // One or more whole lines, on a line of their own.
  void line(std::string_view text) {
    end_line();
    write(std::string(text) + '\n');
  }
  void end_line() {
    if (open_line_) write("\n");
  }
  bool open_line() const { return open_line_; }

 protected:
  virtual void put(std::string_view text) = 0;

 private:
  bool open_line_ = false;
};

}  // namespace errand::repl
