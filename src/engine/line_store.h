// SPDX-License-Identifier: Apache-2.0
// The last complete lines of a view, in bounded memory, and where each stood in the raw output.
//
// The oldest lines go when the text is over its limit; of a line that is longer than that the end stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace errand {

class LineStore {
 public:
  explicit LineStore(std::size_t limit) : limit_(limit) {}

  // Lines that look as they came, each with its newline.
  void add_plain(std::string_view lines);
  // A line without its newline, which took so many raw bytes, the newline's included.
  void add(std::string_view line, std::uint64_t raw_bytes);

  // Bytes of memory that the lines take.
  std::size_t size() const { return bytes_.size() - start_; }
  // Where the retained lines begin and end in the raw output.
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  // The last lines of at most `most` bytes that end behind the raw offset, each with its newline. `from` becomes the
  // raw offset of the first.
  std::string text(std::uint64_t after, std::size_t most, std::uint64_t& from) const;

  // Drops all lines; the raw offsets go on.
  void drop();
  // Gives back memory that is not used: nothing will be added.
  void shrink();

 private:
  void make_room(std::size_t bytes);
  void drop_lines(std::size_t bytes);

  // A line whose raw size is not that of its text has the difference written before its newline, in digits that are
  // control characters and so stand in no text.
  std::string bytes_;
  std::size_t start_ = 0;
  std::size_t limit_;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
  std::size_t marked_ = 0;  // lines with digits
  bool partial_ = false;    // all there is is the end of a line, which goes when the next comes
};

}  // namespace errand
