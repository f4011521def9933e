// SPDX-License-Identifier: Apache-2.0
// The makers of the built-in tools, and what they share. register_builtin_tools() is the way in from outside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/tool.h"

namespace errand {

std::unique_ptr<Tool> make_bash_tool();
std::unique_ptr<Tool> make_background_bash_tool();
std::unique_ptr<Tool> make_background_output_tool();
std::unique_ptr<Tool> make_background_wait_tool();
std::unique_ptr<Tool> make_background_stop_tool();
std::unique_ptr<Tool> make_background_list_tool();
std::unique_ptr<Tool> make_read_tool();
std::unique_ptr<Tool> make_grep_tool();

// A spec whose schema is written as JSON text in the source; a text that is no object is a fault of the program and
// throws at the tool's making.
ToolSpec make_spec(std::string name, std::string description, std::string_view schema);

// Validated arguments; the default when one is missing.
std::int64_t int_argument(const json::object& input, std::string_view key, std::int64_t otherwise);
std::string string_argument(const json::object& input, std::string_view key);
bool flag_argument(const json::object& input, std::string_view key);

ToolResult error_result(std::string text);

// What needs permission before a command runs; nothing for one that is refused anyway.
std::optional<PermissionQuery> command_query(const std::string& tool, const std::string& command,
                                             const std::string& folder, const ToolContext& context);
// Empty, or why the command cannot be run as it was given. A NUL would cut it: what runs would not be what was asked
// about. Blank commands are refused by the engine, in its words.
std::string command_fault(std::string_view command);

}  // namespace errand
