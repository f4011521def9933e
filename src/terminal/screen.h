// SPDX-License-Identifier: Apache-2.0
// The lower end of a terminal: a block that is always last on the screen (unfinished streamed text, questions, the line
// being edited) and, above it, everything that was printed, which belongs to the terminal's own scrollback.
//
// Every change erases the block, writes what is new above it and draws the block again, in one write. Lines are never
// broken by us: the terminal wraps them, so that it can join them again when it is resized.
//
// A resize is seen late: the terminal has reflowed before we learn of it, and may not have told its new size yet. So
// after resized() nothing is drawn for settle_ms; what is printed meanwhile waits. Then the block's top is found by
// laying out what was drawn last at the new width.
//
// Passive: the owner passes the clock, asks pending_output() for bytes to write and deadline() for the time to call
// update() again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace errand::terminal {

struct Block {
  std::vector<std::string> lines;  // at least one; logical lines without newlines, already plain text
  std::size_t cursor_line = 0;
  std::size_t cursor_byte = 0;  // in that line, at a cluster border
  bool operator==(const Block&) const = default;
};

struct Extent {
  int rows = 1;
  int cursor_row = 0;
  int cursor_column = 0;
  bool operator==(const Extent&) const = default;
};

// How a terminal of that width lays the block out.
Extent lay_out(const Block& block, int width);

class Screen {
 public:
  static constexpr std::int64_t settle_ms = 350;

  Screen(int width, int height);

  int width() const { return width_; }
  // Whole lines, plain text, to stand above the block; a missing last newline is added.
  void print(std::string_view text);
  void set_block(Block block);
  void clear();  // Ctrl+L

  // SIGWINCH came; the size may be old as yet.
  void resized(std::int64_t now_ms);
  // Draws what has changed, unless a resize is settling. `width` and `height` are the terminal's as it says now.
  void update(std::int64_t now_ms, int width, int height);
  // When a settling resize is over.
  std::optional<std::int64_t> deadline() const { return settled_at_; }
  // Erases the block and shows nothing more: for leaving, suspending, and programs that take the terminal over.
  // The line itself stays on the screen when `keep` is set.
  void leave(bool keep);

  // What is to be written to the terminal; the owner clears what it wrote.
  std::string& pending_output() { return output_; }

 private:
  void erase_block(std::string& to) const;
  void draw_block(std::string& to);

  int width_, height_;
  std::string above_;  // to be printed
  Block block_;
  std::optional<Block> drawn_;  // what stands on the screen
  bool dirty_ = true;
  bool clear_ = false;
  std::optional<std::int64_t> settled_at_;
  std::string output_;
};

}  // namespace errand::terminal
