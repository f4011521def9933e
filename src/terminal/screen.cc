// SPDX-License-Identifier: Apache-2.0
#include "terminal/screen.h"

#include <algorithm>
#include <utility>

#include "terminal/text.h"

namespace errand::terminal {
namespace {

std::string move(int count, char direction) {
  return count > 0 ? "\x1b[" + std::to_string(count) + direction : std::string();
}

// Walks one logical line as the terminal does. `place` is called with each cluster and the cell that it begins in.
template <typename Place>
void walk(std::string_view line, int width, int& row, int& column, Place place) {
  std::size_t at = 0;
  while (at < line.size()) {
    const std::size_t length = std::max<std::size_t>(1, cluster_length(line.substr(at)));
    const std::string_view cluster = line.substr(at, length);
    int cells = cluster_width(cluster);
    // A tab is drawn as single spaces, which wrap one by one; a wide character goes to the next row whole.
    if (cells <= 2) {
      if (column + cells > width && column > 0) {
        ++row;
        column = 0;
      }
      place(at, row, column);
      column += cells;
    } else {
      place(at, row, column);
      for (; cells > 0; --cells) {
        if (column + 1 > width) {
          ++row;
          column = 0;
        }
        ++column;
      }
    }
    at += length;
  }
  // A full row: a blank is drawn after it, so that the cursor gets a row of its own.
  if (column >= width) {
    ++row;
    column = 0;
  }
  place(line.size(), row, column);
}

// The rows of the block as texts, for a block that is taller than the screen; `cursor_row` names the cursor's.
std::vector<std::string> rows_of(const Block& block, int width) {
  std::vector<std::string> rows;
  for (const std::string& line : block.lines) {
    int row = 0, column = 0, last = -1;
    walk(line, width, row, column, [&](std::size_t at, int in_row, int) {
      while (last < in_row) {
        rows.emplace_back();
        ++last;
      }
      if (at < line.size())
        rows.back() +=
            shown_cluster(std::string_view(line).substr(at, cluster_length(std::string_view(line).substr(at))));
    });
  }
  return rows;
}

// ESC[J with the cursor at the top left makes some terminals push the whole screen into their history, and cells
// cleared by a partial erase count as used in a later reflow. A row cleared whole and a blank before it avoid both.
constexpr std::string_view erase_below = "\r\x1b[2K \x1b[J\r";

}  // namespace

Extent lay_out(const Block& block, int width) {
  Extent extent;
  int row = 0;
  for (std::size_t i = 0; i < block.lines.size(); ++i) {
    if (i > 0) ++row;
    int column = 0;
    walk(block.lines[i], width, row, column, [&](std::size_t at, int in_row, int in_column) {
      if (i != block.cursor_line || at > block.cursor_byte) return;
      extent.cursor_row = in_row;
      extent.cursor_column = in_column;
    });
  }
  extent.rows = row + 1;
  return extent;
}

Screen::Screen(int width, int height) : width_(std::max(width, 2)), height_(std::max(height, 2)) {
  block_.lines.emplace_back();
}

void Screen::print(std::string_view text) {
  above_ += text;
  if (!above_.empty() && above_.back() != '\n') above_ += '\n';
}

void Screen::set_block(Block block) {
  if (block.lines.empty()) block.lines.emplace_back();
  if (block == block_) return;
  block_ = std::move(block);
  dirty_ = true;
}

void Screen::clear() {
  clear_ = true;
  dirty_ = true;
}

void Screen::resized(std::int64_t now_ms) { settled_at_ = now_ms + settle_ms; }

void Screen::update(std::int64_t now_ms, int width, int height) {
  if (settled_at_ && now_ms < *settled_at_) return;
  if (settled_at_) dirty_ = true;
  settled_at_.reset();
  width = std::max(width, 2);
  height = std::max(height, 2);
  if (width != width_ || height != height_) dirty_ = true;
  width_ = width;
  height_ = height;
  if (!dirty_ && above_.empty()) return;

  std::string bytes = "\x1b[?25l";
  erase_block(bytes);
  if (clear_) bytes += "\x1b[H\x1b[2J";
  clear_ = false;
  for (const char c : std::exchange(above_, {})) {
    if (c == '\n') bytes += '\r';
    bytes += c;
  }
  draw_block(bytes);
  bytes += "\x1b[?25h";
  output_ += bytes;
  dirty_ = false;
}

void Screen::leave(bool keep) {
  if (keep && drawn_) {
    const Extent extent = lay_out(*drawn_, width_);
    output_ += move(std::min(extent.rows, height_ - 1) - 1 - std::min(extent.cursor_row, height_ - 2), 'B') + "\r\n";
  } else {
    erase_block(output_);
  }
  drawn_.reset();
  for (const char c : std::exchange(above_, {})) {
    if (c == '\n') output_ += '\r';
    output_ += c;
  }
  dirty_ = true;
}

void Screen::erase_block(std::string& to) const {
  if (!drawn_) return;
  const Extent extent = lay_out(*drawn_, width_);
  // What has scrolled out at the top cannot be reached; the screen's first row is the best there is.
  to += '\r' + move(std::min(extent.cursor_row, height_ - 1), 'A');
  to += erase_below;
}

void Screen::draw_block(std::string& to) {
  const Extent extent = lay_out(block_, width_);
  const int most = height_ - 1;
  if (extent.rows > most) {
    // Only the rows around the cursor, each a line of its own; remembered like that, for the next erase.
    const std::vector<std::string> rows = rows_of(block_, width_);
    const int last = static_cast<int>(rows.size());
    const int first = std::clamp(extent.cursor_row - most + 1, 0, std::max(0, last - most));
    Block part;
    for (int row = first; row < std::min(first + most, last); ++row) {
      if (row > first) to += "\r\n";
      to += rows[static_cast<std::size_t>(row)];
      // A row that is exactly full would otherwise be laid out as two.
      part.lines.emplace_back(
          static_cast<std::size_t>(std::min(text_width(rows[static_cast<std::size_t>(row)]), width_ - 1)), 'x');
    }
    part.cursor_line = static_cast<std::size_t>(extent.cursor_row - first);
    part.cursor_byte =
        std::min<std::size_t>(static_cast<std::size_t>(extent.cursor_column), part.lines[part.cursor_line].size());
    to += move(static_cast<int>(part.lines.size()) - 1 - static_cast<int>(part.cursor_line), 'A') + '\r' +
          move(extent.cursor_column, 'C');
    drawn_ = std::move(part);
    return;
  }
  int row = 0;
  for (std::size_t i = 0; i < block_.lines.size(); ++i) {
    if (i > 0) {
      to += "\r\n";
      ++row;
    }
    const std::string& line = block_.lines[i];
    int column = 0;
    const int line_row = row;
    bool doubtful = false;
    walk(line, width_, row, column, [&](std::size_t at, int in_row, int in_column) {
      // The cursor is set where it is believed to be, so that a wrong belief stays inside its cluster.
      if (doubtful && in_column > 0 && in_row >= line_row) to += "\x1b[" + std::to_string(in_column + 1) + "G";
      doubtful = false;
      if (at == line.size()) return;
      const std::string_view cluster =
          std::string_view(line).substr(at, cluster_length(std::string_view(line).substr(at)));
      to += shown_cluster(cluster);
      doubtful = has_doubtful_width(cluster);
    });
    if (column == 0 && row > line_row) to += " \r";
  }
  // Mostly the cursor stands there already: at the end of the last line.
  const bool at_end = block_.cursor_line + 1 == block_.lines.size() && block_.cursor_byte == block_.lines.back().size();
  if (!at_end) to += move(extent.rows - 1 - extent.cursor_row, 'A') + '\r' + move(extent.cursor_column, 'C');
  drawn_ = block_;
}

}  // namespace errand::terminal
