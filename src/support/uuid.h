// SPDX-License-Identifier: Apache-2.0
// Names that nobody else has: from the kernel's random source, never from a seeded generator (a copied process would
// repeat it).
#pragma once

#include <cstddef>
#include <string>

namespace errand {

std::string new_uuid();                     // version 4, lower case
std::string random_hex(std::size_t bytes);  // two digits a byte

}  // namespace errand
