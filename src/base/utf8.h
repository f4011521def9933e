// SPDX-License-Identifier: Apache-2.0
// Text from the outside is bytes; inside the product it is valid UTF-8. These make the one from the other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace errand {

// One step through bytes: a code point, or the maximal subpart of an ill-formed sequence (Unicode 15, table 3-7).
struct CodePoint {
  char32_t value = 0xFFFD;
  std::size_t size = 1;  // bytes consumed
  bool valid = false;
  bool unfinished = false;  // not valid, but more bytes could make it so
};
// The text is not empty.
CodePoint next_code_point(std::string_view bytes);
void append_utf8(std::string& text, char32_t code_point);

bool is_valid_utf8(std::string_view text);
// Every invalid byte (maximal subpart, as the WHATWG decoder has it) becomes one U+FFFD.
std::string clean_utf8(std::string_view bytes);
// The longest prefix of at most `bytes` bytes that cuts no code point; the text is valid.
std::string_view utf8_prefix(std::string_view text, std::size_t bytes);
// The longest suffix of at most `bytes` bytes that cuts no code point; the text is valid.
std::string_view utf8_suffix(std::string_view text, std::size_t bytes);
// Where the code point `index` of a valid text begins; its size when there is none.
std::size_t utf8_offset(std::string_view text, std::size_t index);
// Code points in a valid text.
std::size_t utf8_length(std::string_view text);
// At most `max` code points: the head and the tail of a longer text with "... (N characters cut) ..." between them.
std::string cut_middle(std::string_view text, std::size_t max);
// The same for a text that has lost `lost` characters between `head` and `tail` already, if lost is not 0.
std::string cut_middle(std::string_view head, std::size_t lost, std::string_view tail, std::size_t max);

}  // namespace errand
