// SPDX-License-Identifier: Apache-2.0
#include "support/toml_file.h"

#define TOML_EXCEPTIONS 0
#include <toml++/impl/forward_declarations.h>
// toml++ 3.3 promises the compiler that is_non_ascii_horizontal_whitespace() never sees most of what it does see: a
// letter like U+00E8 outside a string was undefined behaviour. There, what is promised not to happen answers "no". And
// it asserts (or promises, by build type) what its own error messages then treat as possible: "[=".
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#pragma push_macro("TOML_UNREACHABLE")
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#include <toml++/impl/unicode.h>
#pragma pop_macro("TOML_UNREACHABLE")
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

namespace errand {
namespace {

TomlValue convert(const toml::node& node) {
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* string = node.as_string()) return string->get();
  if (const auto* array = node.as_array()) {
    std::vector<std::string> list;
    for (const toml::node& item : *array) {
      if (const auto* string = item.as_string()) list.push_back(string->get());
    }
    if (list.size() == array->size()) return list;
  }
  if (node.is_table() || node.is_array_of_tables()) return OtherToml{"a table"};
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  return OtherToml{text.str()};
}

}  // namespace

std::variant<std::vector<TomlEntry>, std::string> parse_toml(std::string_view text) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    const toml::source_position at = error.source().begin;
    return "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": " +
           std::string(error.description());
  }
  std::vector<TomlEntry> entries;
  for (const auto& [key, node] : parsed.table()) {
    // The key's own place: a value may begin some lines below it.
    entries.push_back({std::string(key.str()), static_cast<int>(key.source().begin.line), convert(node)});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TomlEntry& a, const TomlEntry& b) { return a.line < b.line; });
  return entries;
}

}  // namespace errand
