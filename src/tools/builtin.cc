// SPDX-License-Identifier: Apache-2.0
#include "tools/builtin.h"

#include <stdexcept>
#include <utility>

#include "tools/registry.h"

namespace errand {

ToolSpec make_spec(std::string name, std::string description, std::string_view schema) {
  std::string error;
  std::optional<json::value> value = parse_json(schema, error);
  if (!value || !value->is_object()) throw std::logic_error("schema of " + name + ": " + error);
  return ToolSpec{std::move(name), std::move(description), std::move(value->get_object())};
}

std::int64_t int_argument(const json::object& input, std::string_view key, std::int64_t otherwise) {
  const json::value* value = input.if_contains(key);
  if (!value) return otherwise;
  if (value->is_double()) return static_cast<std::int64_t>(value->get_double());
  boost::system::error_code fault;
  const auto number = value->to_number<std::int64_t>(fault);
  return fault ? otherwise : number;
}

std::string string_argument(const json::object& input, std::string_view key) {
  return get_string(input, key).value_or(std::string());
}

bool flag_argument(const json::object& input, std::string_view key) { return get_bool(input, key).value_or(false); }

ToolResult error_result(std::string text) { return ToolResult{std::move(text), true, {}}; }

std::string command_fault(std::string_view command) {
  if (command.find('\0') != std::string_view::npos) return "command must not contain NUL bytes";
  return {};
}

std::optional<PermissionQuery> command_query(const std::string& tool, const std::string& command,
                                             const std::string& folder, const ToolContext& context) {
  const bool blank = command.find_first_not_of(" \t\r\n\v\f") == std::string::npos;
  if (blank || !command_fault(command).empty()) return std::nullopt;
  return PermissionQuery{ActionKind::command, tool, command, folder, context.owner, context.project_folder};
}

void register_builtin_tools(Registry& registry) {
  registry.add(make_bash_tool());
  registry.add(make_background_bash_tool());
  registry.add(make_background_output_tool());
  registry.add(make_background_wait_tool());
  registry.add(make_background_stop_tool());
  registry.add(make_background_list_tool());
  registry.add(make_read_tool());
  registry.add(make_grep_tool());
}

}  // namespace errand
