// SPDX-License-Identifier: Apache-2.0
// JSON for the whole product: Boost.JSON, with the limits and the cleaning that it needs from us.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace errand {

namespace json = boost::json;

// Depth limit 256. Nothing, and "line 3, column 7: expected ','" in `error`, when the text is no JSON or no valid
// UTF-8.
std::optional<json::value> parse_json(std::string_view text, std::string& error);

// The line on which the value at `pointer` begins ("/turns/2/tools/0/name", RFC 6901), in a text that parse_json()
// took; of a path that leads nowhere, the line of the last part that exists. For errors about the meaning of a value.
int json_line(std::string_view text, std::string_view pointer);

// One line, no trailing newline; strings must be valid UTF-8.
std::string to_text(const json::value& value);

// The member as the type, or nothing when it is missing or of another type.
std::optional<std::string> get_string(const json::object& object, std::string_view key);
std::optional<std::int64_t> get_int(const json::object& object, std::string_view key);
std::optional<bool> get_bool(const json::object& object, std::string_view key);
const json::object* get_object(const json::object& object, std::string_view key);
const json::array* get_array(const json::object& object, std::string_view key);

}  // namespace errand
