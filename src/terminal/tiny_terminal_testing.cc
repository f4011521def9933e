// SPDX-License-Identifier: Apache-2.0
#include "terminal/tiny_terminal_testing.h"

#include <algorithm>
#include <cstddef>

#include "terminal/text.h"

namespace errand::terminal {

TinyTerminal::TinyTerminal(int width, int height)
    : width_(width), height_(height), screen_(static_cast<std::size_t>(height), blank()) {}

TinyTerminal::Row TinyTerminal::blank() const {
  Row row;
  row.cells.assign(static_cast<std::size_t>(width_), " ");
  return row;
}

void TinyTerminal::line_feed() {
  if (row_ + 1 < height_) {
    ++row_;
    return;
  }
  scrollback_.push_back(screen_.front());
  screen_.erase(screen_.begin());
  screen_.push_back(blank());
}

void TinyTerminal::put(std::string_view cluster, int width) {
  if (pending_wrap_ || column_ + width > width_) {
    screen_[static_cast<std::size_t>(row_)].wrapped = true;
    line_feed();
    column_ = 0;
    pending_wrap_ = false;
  }
  auto& cells = screen_[static_cast<std::size_t>(row_)].cells;
  cells[static_cast<std::size_t>(column_)] = std::string(cluster);
  if (width == 2) cells[static_cast<std::size_t>(column_ + 1)].clear();
  column_ += width;
  if (column_ == width_) {
    column_ = width_ - 1;
    pending_wrap_ = true;
  }
}

void TinyTerminal::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (bytes[0] == '\r') {
      column_ = 0;
      pending_wrap_ = false;
      bytes.remove_prefix(1);
    } else if (bytes[0] == '\n') {
      pending_wrap_ = false;
      line_feed();
      bytes.remove_prefix(1);
    } else if (bytes.substr(0, 2) == "\x1b[") {
      std::size_t i = 2;
      while (i < bytes.size() && (bytes[i] < 0x40)) ++i;
      const std::string parameters(bytes.substr(2, i - 2));
      const int number = parameters.empty() || parameters[0] == '?' ? 0 : std::stoi(parameters);
      const char final_byte = bytes[i];
      bytes.remove_prefix(i + 1);
      auto& row = screen_[static_cast<std::size_t>(row_)];
      if (final_byte != 'h' && final_byte != 'l') pending_wrap_ = false;
      switch (final_byte) {
        case 'A':
          row_ = std::max(0, row_ - std::max(1, number));
          break;
        case 'B':
          row_ = std::min(height_ - 1, row_ + std::max(1, number));
          break;
        case 'C':
          column_ = std::min(width_ - 1, column_ + std::max(1, number));
          break;
        case 'G':
          column_ = std::clamp(number - 1, 0, width_ - 1);
          break;
        case 'H':
          row_ = column_ = 0;
          break;
        case 'K':
          row = blank();
          break;  // only 2K is used
        case 'J':
          if (number == 2) {
            std::fill(screen_.begin(), screen_.end(), blank());
          } else {
            std::fill(row.cells.begin() + column_, row.cells.end(), " ");
            row.wrapped = false;
            std::fill(screen_.begin() + row_ + 1, screen_.end(), blank());
          }
          break;
        default:
          break;
      }
    } else {
      const std::size_t length = cluster_length(bytes);
      put(bytes.substr(0, length), cluster_width(bytes.substr(0, length)));
      bytes.remove_prefix(length);
    }
  }
}

std::string TinyTerminal::text(const Row& row) {
  std::string joined;
  for (const std::string& cell : row.cells) joined += cell;
  if (!row.wrapped) joined.erase(joined.find_last_not_of(' ') + 1);
  return joined;
}

std::vector<std::string> TinyTerminal::rows() const {
  std::vector<std::string> all;
  for (const Row& row : screen_) all.push_back(text(row));
  return all;
}

std::vector<std::string> TinyTerminal::lines() const {
  std::vector<std::string> all;
  bool joined = false;
  for (const auto* part : {&scrollback_, &screen_}) {
    for (const Row& row : *part) {
      if (joined) {
        all.back() += text(row);
      } else {
        all.push_back(text(row));
      }
      joined = row.wrapped;
    }
  }
  while (!all.empty() && all.back().empty()) all.pop_back();
  return all;
}

}  // namespace errand::terminal
