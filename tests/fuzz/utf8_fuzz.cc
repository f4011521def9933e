// SPDX-License-Identifier: Apache-2.0
// Rooms: engine
// Any bytes as UTF-8, step by step and cut at every place: each wrong sequence is one U+FFFD, nothing valid changes.
#include "base/utf8.h"

#include "engine/view.h"
#include "fuzz.h"
#include "terminal_reference.h"

namespace {

class Nothing : public errand::LineSink {
 public:
  void plain_lines(std::string_view) override {}
  void line(std::string_view, std::uint64_t, bool) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  const std::string_view bytes = as_text(data, size);
  std::string steps;
  bool all_valid = true;
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint next = next_code_point(bytes.substr(at));
    std::size_t length = 0;
    const auto expected = reference::code_point(bytes, at, length);
    CHECK_THAT(next.size == length && next.valid == expected.has_value());
    CHECK_THAT(next.value == expected.value_or(0xFFFD));
    CHECK_THAT(!next.unfinished || at + next.size == bytes.size());
    all_valid = all_valid && next.valid;
    append_utf8(steps, next.value);
    at += next.size;
  }
  CHECK_THAT(clean_utf8(bytes) == steps);
  CHECK_THAT(is_valid_utf8(steps));
  CHECK_THAT(is_valid_utf8(bytes) == all_valid);
  if (all_valid) CHECK_THAT(steps == bytes);

  const std::size_t most = size > 0 ? data[0] : 0;
  const std::string cut = cut_middle(steps, most);
  CHECK_THAT(is_valid_utf8(cut));
  if (most > 60) CHECK_THAT(utf8_length(cut) <= most);
  const std::size_t middle = utf8_offset(steps, utf8_length(steps) / 2);
  const std::string lost = cut_middle(steps.substr(0, middle), most, steps.substr(middle), 100);
  CHECK_THAT(is_valid_utf8(lost));
  if (most > 0) CHECK_THAT(lost.find(" characters cut) ...") != std::string::npos);

  // Text without control characters comes through the view as it is, cut anywhere.
  std::string text;
  for (const char c : bytes.substr(0, 200)) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) text += c;
  }
  const std::string whole = view_text(text);
  for (std::size_t at = 0; at <= text.size(); ++at) {
    Nothing sink;
    View view;
    view.feed(std::string_view(text).substr(0, at), sink);
    CHECK_THAT(is_valid_utf8(view.unfinished_text()));
    view.feed(std::string_view(text).substr(at), sink);
    view.finish();
    CHECK_THAT(view.unfinished_text() == whole);
  }
  return 0;
}
