// SPDX-License-Identifier: Apache-2.0
// Rooms: engine
// Any bytes as output: the view is what a slow terminal makes of them, whole or cut into pieces, valid and bounded.
#include "engine/view.h"

#include "base/utf8.h"
#include "fuzz.h"
#include "terminal_reference.h"

namespace {

class Lines : public errand::LineSink {
 public:
  void plain_lines(std::string_view lines) override {
    CHECK_THAT(lines.ends_with('\n'));
    text += lines;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i] == '\n') ends.push_back(raw + i + 1);
    }
    raw += lines.size();
  }
  void line(std::string_view line, std::uint64_t raw_bytes, bool) override {
    CHECK_THAT(line.find('\n') == std::string_view::npos);
    text.append(line) += '\n';
    raw += raw_bytes;
    ends.push_back(raw);
  }
  std::string text;
  std::uint64_t raw = 0;
  std::vector<std::size_t> ends;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  const std::string_view bytes = as_text(data, size);
  const std::string whole = view_text(bytes);
  CHECK_THAT(is_valid_utf8(whole));
  for (const char c : whole) CHECK_THAT(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t newline = std::min(rest.find('\n'), rest.size());
    CHECK_THAT(utf8_length(rest.substr(0, newline)) <= TerminalLine::kMaxShown);
    rest.remove_prefix(std::min(newline + 1, rest.size()));
  }

  // In pieces, whose sizes the bytes themselves give.
  Lines lines;
  View view;
  for (std::size_t at = 0, i = 0; at < bytes.size(); ++i) {
    const std::size_t piece = 1 + data[i % size] % 41;
    view.feed(bytes.substr(at, piece), lines);
    CHECK_THAT(is_valid_utf8(view.unfinished_text()));
    CHECK_THAT(view.unfinished_text().size() <= view.most_unfinished_text());
    at += piece;
  }
  view.finish();
  CHECK_THAT(lines.text + view.unfinished_text() == whole);
  CHECK_THAT(lines.raw == view.line_start());

  const auto screen = reference::screen_of(bytes);
  if (!screen) return 0;
  std::string expected;
  for (const std::u32string& line : screen->lines) expected += reference::shown(line) + "\n";
  expected += reference::shown(screen->unfinished);
  CHECK_THAT(expected == whole);
  CHECK_THAT(lines.ends == screen->ends);
  return 0;
}
