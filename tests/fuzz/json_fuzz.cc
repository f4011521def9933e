// SPDX-License-Identifier: Apache-2.0
// Rooms: support
// Any bytes as JSON: what is read can be written, and is read back as the same. And any bytes as text: cleaning gives
// valid UTF-8, changes nothing that is valid, and no cut breaks a code point.
#include "base/utf8.h"
#include "fuzz.h"
#include "support/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace errand;
  const std::string_view text = as_text(data, size);
  std::string error;
  if (const auto value = parse_json(text, error)) {
    const std::string written = to_text(*value);
    CHECK_THAT(written.find('\n') == std::string::npos);
    const auto again = parse_json(written, error);
    CHECK_THAT(again.has_value());
    // Boost.JSON 1.81 may read a fraction as its neighbour, so only what has none is compared.
    if (written.find_first_of(".E") == std::string::npos) CHECK_THAT(to_text(*again) == written);
  } else {
    CHECK_THAT(!error.empty());
  }

  const std::string clean = clean_utf8(text);
  CHECK_THAT(is_valid_utf8(clean));
  if (is_valid_utf8(text)) CHECK_THAT(clean == text);
  const std::size_t at = size > 0 ? data[0] : 0;
  CHECK_THAT(is_valid_utf8(utf8_prefix(clean, at)) && utf8_prefix(clean, at).size() <= at);
  CHECK_THAT(is_valid_utf8(utf8_suffix(clean, at)) && utf8_suffix(clean, at).size() <= at);
  CHECK_THAT(is_valid_utf8(cut_middle(clean, at)));
  return 0;
}
