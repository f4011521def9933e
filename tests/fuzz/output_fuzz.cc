// SPDX-License-Identifier: Apache-2.0
// Rooms: engine
// Any bytes as a task's output, with a small limit: what is retained does not depend on how it came, is within its
// bound and valid, and cursors give each line once.
#include "engine/output.h"

#include "base/utf8.h"
#include "fuzz.h"
#include "terminal_reference.h"

namespace {

constexpr std::size_t kLimit = 1024;

class Listener : public errand::LineListener {
 public:
  void on_line(std::string_view text) override {
    lines.append(text) += "\n";
    unfinished.clear();
  }
  void on_unfinished(std::string_view text) override { unfinished = text; }
  void on_end() override { ++ends; }
  std::string lines, unfinished;
  int ends = 0;
};

void check_bounds(const errand::Output& output) {
  const std::string text = output.tail(0).text;
  CHECK_THAT(errand::is_valid_utf8(text));
  CHECK_THAT(text.size() <= kLimit);
  CHECK_THAT(output.retained_bytes() <= kLimit + 8000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  if (size < 4) return 0;
  const std::string_view bytes = as_text(data + 4, size - 4);
  const auto screen = reference::screen_of(bytes);

  Output whole(kLimit, nullptr), pieces(kLimit, nullptr);
  const auto early = std::make_shared<Listener>();
  pieces.listen(early);
  whole.append(bytes, 1, false);
  std::uint64_t cursor = 0, dropped = 0;
  std::string paged;
  for (std::size_t at = 0, i = 0; at < bytes.size(); ++i) {
    const std::size_t piece = 1 + data[i % 4] + (i % 7 == 0 ? data[i % size] : 0);
    pieces.append(bytes.substr(at, piece), 1, false);
    at += piece;
    if (i % 3 == data[0] % 3u) {
      check_bounds(pieces);
      const OutputRead read = pieces.read(cursor);
      CHECK_THAT(read.next_cursor >= cursor && read.next_cursor <= at);
      CHECK_THAT(read.text.empty() == (read.next_cursor == cursor) || read.dropped > 0);
      cursor = read.next_cursor;
      dropped += read.dropped;
      paged += read.text;
    }
  }
  whole.finish();
  pieces.finish();
  check_bounds(whole);
  CHECK_THAT(whole.tail(0).text == pieces.tail(0).text);
  CHECK_THAT(whole.tail(0).truncated == pieces.tail(0).truncated);
  CHECK_THAT(whole.tail(0).lines_cut == pieces.tail(0).lines_cut);
  TaskRecord record;
  pieces.describe(record);
  CHECK_THAT(record.output_truncated == pieces.tail(0).truncated);
  CHECK_THAT(record.output_bytes == bytes.size());

  const OutputRead last = pieces.read(cursor);
  paged += last.text;
  if (dropped + last.dropped == 0) CHECK_THAT(paged == early->lines);
  CHECK_THAT(early->ends == 1);
  CHECK_THAT(early->lines + early->unfinished == view_text(bytes));
  const auto late = std::make_shared<Listener>();
  pieces.listen(late);
  CHECK_THAT(late->ends == 1);
  CHECK_THAT(late->lines + late->unfinished == pieces.tail(0).text);

  if (!screen) return 0;
  for (std::size_t i = 0; i <= screen->ends.size(); ++i) {
    const std::uint64_t at = i == 0 ? 0 : screen->ends[i - 1];
    const OutputRead read = pieces.read(at), again = whole.read(at);
    CHECK_THAT(read.text == again.text && read.unfinished == again.unfinished);
    CHECK_THAT(read.dropped == again.dropped && read.next_cursor == again.next_cursor);
    CHECK_THAT(read.next_cursor == (screen->ends.empty() ? 0 : screen->ends.back()));
    if (read.dropped > 0) continue;
    std::string expected;
    for (std::size_t k = i; k < screen->lines.size(); ++k) expected += reference::shown(screen->lines[k]) + "\n";
    CHECK_THAT(read.text == expected);
  }
  return 0;
}
