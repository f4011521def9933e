// SPDX-License-Identifier: Apache-2.0
// Rooms: terminal
// Any bytes from a keyboard: the line stays valid UTF-8 with the cursor inside. Any bytes from a task: no control
// character but newline and tab reaches the terminal, wherever the bytes are cut.
#include "base/utf8.h"
#include "fuzz.h"
#include "terminal/keys.h"
#include "terminal/line_buffer.h"
#include "terminal/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  using namespace errand::terminal;
  const std::string_view bytes = as_text(data, size);

  KeyDecoder decoder;
  LineBuffer line;
  const auto apply = [&](const std::vector<Key>& keys) {
    for (const Key& key : keys) {
      if (!line.apply(key) && key.code == KeyCode::enter) line.remember(line.take());
      CHECK_THAT(is_valid_utf8(line.text()));
      CHECK_THAT(line.cursor() <= line.text().size());
      CHECK_THAT(utf8_prefix(line.text(), line.cursor()).size() == line.cursor());
    }
  };
  const std::size_t cut = size > 0 ? data[0] % size : 0;
  apply(decoder.feed(bytes.substr(0, cut)));
  apply(decoder.feed(bytes.substr(cut)));
  if (decoder.waiting()) apply(decoder.flush());

  TextFilter filter;
  std::string shown = filter.feed(bytes.substr(0, cut));
  shown += filter.feed(bytes.substr(cut));
  TextFilter whole;
  CHECK_THAT(shown == whole.feed(bytes));
  CHECK_THAT(is_valid_utf8(shown));
  for (const char c : shown) CHECK_THAT(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t');
  CHECK_THAT(shown.find("\xC2\x9B") == std::string::npos);

  const std::string visible = visible_text(clean_utf8(bytes));
  CHECK_THAT(is_valid_utf8(visible));
  std::size_t clusters = 0;
  for (std::string_view rest = visible; !rest.empty(); ++clusters) {
    const std::size_t length = cluster_length(rest);
    CHECK_THAT(length > 0 && length <= rest.size());
    rest.remove_prefix(length);
  }
  CHECK_THAT(clusters <= visible.size());
  return 0;
}
