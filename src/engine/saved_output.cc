// SPDX-License-Identifier: Apache-2.0
#include "engine/saved_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/utf8.h"
#include "engine/file_system.h"
#include "engine/line_store.h"
#include "engine/output.h"
#include "engine/view.h"

namespace errand {
namespace {

constexpr std::size_t kPiece = 64 * 1024;

class Storing : public LineSink {
 public:
  explicit Storing(std::size_t limit) : store(limit) {}
  void plain_lines(std::string_view lines) override { store.add_plain(lines); }
  void line(std::string_view text, std::uint64_t raw_bytes, bool cut) override {
    store.add(text, raw_bytes);
    any_cut = any_cut || cut;
  }
  LineStore store;
  bool any_cut = false;
};

// Takes lines until the text is full, and knows where in the raw output it is.
class Paging : public LineSink {
 public:
  Paging(std::size_t limit, std::uint64_t at) : next(at), limit_(limit) {}
  void plain_lines(std::string_view lines) override {
    while (!lines.empty() && !full) {
      const std::size_t newline = lines.find('\n');
      line(lines.substr(0, newline), newline + 1, false);
      lines.remove_prefix(newline + 1);
    }
  }
  void line(std::string_view line, std::uint64_t raw_bytes, bool) override {
    full = full || text.size() + line.size() + 1 > limit_;
    // One that does not fit alone is cut, so that there is no end to it.
    if (full && !text.empty()) return;
    text += full ? utf8_prefix(line, limit_ - 1) : line;
    text += '\n';
    next += raw_bytes;
  }
  std::string text;
  std::uint64_t next;
  bool full = false;

 private:
  const std::size_t limit_;
};

}  // namespace

SavedOutput::SavedOutput(OutputFile::Layout layout, std::uint64_t total, std::uint64_t line_end, std::size_t max_text)
    : layout_(std::move(layout)), total_(total), line_end_(line_end), max_text_(max_text) {
  if (layout_.marker == 0 && gap() == 0) {  // the end follows the head
    layout_.head += std::exchange(layout_.end, 0);
  }
}

template <class Feed>
void SavedOutput::read_file(std::uint64_t from, std::uint64_t to, Feed feed) const {
  if (layout_.path.empty()) return;
  // Somebody may have put anything in its place; nothing may hang on it.
  const UniqueFd fd(::open(layout_.path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (layout_.identity.inode != 0 && identity_of(fd.get()) != layout_.identity) return;
  std::vector<char> piece(kPiece);
  while (from < to) {
    const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, to - from));
    const ssize_t got = ::pread(fd.get(), piece.data(), want, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    from += static_cast<std::uint64_t>(got);
    if (!feed(std::string_view(piece.data(), static_cast<std::size_t>(got)))) return;
  }
}

OutputTail SavedOutput::tail(std::size_t lines) const {
  const std::uint64_t size = layout_.head + layout_.marker + layout_.end;
  const std::uint64_t from = size - std::min(size, kMostRead);
  Storing sink(max_text_);
  View view;
  std::uint64_t read = 0;
  bool within_line = from > 0;
  read_file(from, size, [&](std::string_view bytes) {
    read += bytes.size();
    if (within_line) {
      const std::size_t newline = bytes.find('\n');
      if (newline != std::string_view::npos) bytes.remove_prefix(newline + 1);
      within_line = false;
    }
    view.feed(bytes, sink);
    return true;
  });
  view.finish();
  OutputTail tail;
  tail.lines_cut = sink.any_cut;
  const std::string unfinished = view.unfinished_text(&tail.lines_cut);
  const std::string_view last = utf8_suffix(unfinished, max_text_);
  std::uint64_t first = 0;
  std::string text = sink.store.text(0, max_text_ - last.size(), first);
  text += last;
  tail.text = last_lines(text, lines);
  tail.truncated = from > 0 || read < size - from || gap() > 0 || first > 0 || last.size() < unfinished.size();
  return tail;
}

// Where the line of this offset of the head begins; the offset itself when that is farther away than a piece.
std::uint64_t SavedOutput::line_begin(std::uint64_t offset) const {
  const std::uint64_t from = offset - std::min<std::uint64_t>(offset, kPiece);
  std::uint64_t begin = from == 0 ? 0 : offset;
  std::uint64_t at = from;
  read_file(from, offset, [&](std::string_view bytes) {
    const std::size_t newline = bytes.rfind('\n');
    if (newline != std::string_view::npos) begin = at + newline + 1;
    at += bytes.size();
    return true;
  });
  return begin;
}

OutputRead SavedOutput::read(std::uint64_t cursor) const {
  cursor = std::min(cursor, line_end_);
  const bool in_head = cursor < layout_.head;
  const std::uint64_t end_begin = total_ - layout_.end;  // raw offset of what stands behind the marker
  const std::uint64_t from = in_head ? line_begin(cursor) : std::max(cursor, end_begin);
  const std::uint64_t to = in_head ? layout_.head : total_;
  const std::uint64_t file_offset = in_head ? from : from - end_begin + layout_.head + layout_.marker;

  Paging sink(max_text_, from);
  View view;
  std::uint64_t fed = 0;
  read_file(file_offset, file_offset + (to - from), [&](std::string_view bytes) {
    fed += bytes.size();
    view.feed(bytes, sink);
    return !sink.full && (fed < kMostRead || sink.text.empty());
  });
  OutputRead read;
  read.dropped = from > cursor ? from - cursor : 0;
  read.next_cursor = sink.next;
  read.ended = true;
  const bool whole = fed == to - from && !sink.full;
  if (fed == 0 && from < to) {  // the file is gone
    read.dropped = total_ - cursor;
    read.next_cursor = line_end_;
  } else if (whole) {
    view.finish();
    std::string last = view.unfinished_text();
    if (to == total_) {
      read.unfinished = utf8_prefix(last, max_text_);
    } else if (view.unfinished()) {  // the rest of the line has been left out
      sink.text += last + "\n";
      read.next_cursor = to;
    }
  }
  read.text = std::move(sink.text);
  return read;
}

}  // namespace errand
