// SPDX-License-Identifier: Apache-2.0
// Text from the outside is bytes; inside the product it is valid UTF-8. These make the one from the other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace errand {

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

}  // namespace errand
