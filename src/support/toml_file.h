// SPDX-License-Identifier: Apache-2.0
// The flat part of TOML that our configuration uses, with the line of every key. toml++ is behind this header and
// included nowhere else: it costs seconds to compile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace errand {

// What no key of ours can have (tables, floats, dates, mixed lists): how it is written.
struct OtherToml {
  std::string text;
};
using TomlValue = std::variant<bool, std::int64_t, std::string, std::vector<std::string>, OtherToml>;

struct TomlEntry {
  std::string key;
  int line = 0;
  TomlValue value;
};

// The top-level entries in the order of the file, or "line 3, column 7: ..." .
std::variant<std::vector<TomlEntry>, std::string> parse_toml(std::string_view text);

}  // namespace errand
