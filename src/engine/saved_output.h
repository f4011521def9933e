// SPDX-License-Identifier: Apache-2.0
// Reads an ended task's output back from its file, as the view shows it, once its memory has been freed.
//
// The file has the head of the output and, if some was left out, a marker line and the end. Reads block on the disk.
#pragma once

#include <cstdint>
#include <string>

#include "engine/output_file.h"
#include "errand/engine.h"

namespace errand {

class SavedOutput {
 public:
  // `total` raw bytes were printed, the last complete line ends at `line_end`; an answer has at most `max_text` bytes.
  SavedOutput(OutputFile::Layout layout, std::uint64_t total, std::uint64_t line_end, std::size_t max_text);

  // The last lines, of the file's last kMostRead bytes. The marker is a line of the text.
  OutputTail tail(std::size_t lines) const;
  // As Engine::read(): at the gap an answer ends, the next one tells how much was dropped.
  OutputRead read(std::uint64_t cursor) const;

 private:
  static constexpr std::uint64_t kMostRead = 8 * 1024 * 1024;

  std::uint64_t gap() const { return total_ - layout_.head - layout_.end; }
  // Reads the file from there on into `feed`, in pieces, until that answers false.
  template <class Feed>
  void read_file(std::uint64_t from, std::uint64_t to, Feed feed) const;
  std::uint64_t line_begin(std::uint64_t offset) const;

  OutputFile::Layout layout_;
  std::uint64_t total_;
  std::uint64_t line_end_;
  std::size_t max_text_;
};

}  // namespace errand
