// SPDX-License-Identifier: Apache-2.0
// What a program printed, as a person at a terminal would see it line by line: the view for models and terminals.
//
// Within a line \r, backspace and the CSI sequences K, C, D and G act as in a terminal (terminal_line.h). All other
// escape sequences are removed, also unfinished ones; so are control characters but \t and \n. Invalid bytes become
// U+FFFD. Lines over 2,000 characters are cut in the middle with a count. A newline ends every escape sequence, and
// one that goes on for too long is given up, so that a broken one does not swallow what follows.
//
// Fed in pieces of any size, with the same result. Memory is bounded; most output takes a way that only copies it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/terminal_line.h"

namespace errand {

// Takes the complete lines of a view.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // Lines that look as they came, each with its newline.
  virtual void plain_lines(std::string_view lines) = 0;
  // A line without its newline, of so many raw bytes (the newline's included). `cut`: it is longer than is shown.
  virtual void line(std::string_view text, std::uint64_t raw_bytes, bool cut) = 0;
};

class View {
 public:
  void feed(std::string_view bytes, LineSink& sink);
  // Nothing follows: a code point that was cut off is a wrong one.
  void finish();

  // Where the unfinished line begins, in raw bytes. The line is empty, and not there, when that is all that came.
  std::uint64_t line_start() const { return line_start_; }
  bool unfinished() const { return line_start_ < bytes_; }
  std::string unfinished_text(bool* cut = nullptr) const { return line_.text(cut); }
  std::size_t most_unfinished_text() const { return line_.most_text(); }

 private:
  enum class State { ground, escape, escape_intermediate, csi, csi_ignored, string };
  static constexpr std::size_t kMaxSequence = 256;        // bytes of a CSI or of a two-byte sequence
  static constexpr std::size_t kMaxString = 1024 * 1024;  // bytes of an OSC, DCS, ...: images come in these

  void take_plain(std::string_view text, LineSink& sink);
  void put_text(std::string_view text);
  void end_line(LineSink& sink);
  // Bytes used, at least one.
  std::size_t step(std::string_view bytes, LineSink& sink);
  std::size_t decode(std::string_view bytes);
  void control(unsigned char byte, LineSink& sink);
  // False: the byte is not part of the sequence, which is over.
  bool in_sequence(unsigned char byte);
  void begin(State state);
  void csi_byte(unsigned char byte);
  void run_csi(unsigned char final);

  TerminalLine line_;
  std::uint64_t bytes_ = 0;  // taken so far
  std::uint64_t line_start_ = 0;
  State state_ = State::ground;
  std::size_t sequence_ = 0;       // bytes of the sequence so far
  std::uint32_t parameter_ = 0;    // the first of a CSI
  bool first_parameter_ = true;    // it is still being read
  std::array<char, 4> partial_{};  // the begin of a code point
  std::size_t partial_size_ = 0;
};

// The whole of a text at once; the last line stays without newline if it has none.
std::string view_text(std::string_view bytes);

}  // namespace errand
