// SPDX-License-Identifier: Apache-2.0
// Rooms: support
// Any bytes as a configuration file: entries with lines of the file, or an error.
#include <algorithm>

#include "base/utf8.h"
#include "fuzz.h"
#include "support/toml_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text(data, size);
  const auto parsed = errand::parse_toml(text);
  if (const auto* error = std::get_if<std::string>(&parsed)) {
    CHECK_THAT(!error->empty());
    CHECK_THAT(errand::is_valid_utf8(*error));
    return 0;
  }
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  for (const errand::TomlEntry& entry : std::get<std::vector<errand::TomlEntry>>(parsed)) {
    CHECK_THAT(entry.line >= 1 && entry.line <= lines);
  }
  return 0;
}
