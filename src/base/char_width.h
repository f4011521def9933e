// SPDX-License-Identifier: Apache-2.0
// How many columns of a terminal a character takes, for code that must not depend on the locale.
#pragma once

#include <cstddef>

namespace errand {

// 0: joins the character before it; 1; or 2. Of a printable code point.
int char_width(char32_t c);

}  // namespace errand
