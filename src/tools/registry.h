// SPDX-License-Identifier: Apache-2.0
// The tools of one host, by name. The registry guards the border between a model's words and a tool: it looks up,
// checks the input against the tool's schema and turns whatever a tool throws into a failed result.
//
// The agent's loop calls prepare() for every tool_use, lets the pipeline decide on what it asks for, then calls run().
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tool.h"

namespace errand {

// What is known of a tool_use before it runs. Either `refused` holds its result already, or `tool` may be run.
struct PreparedCall {
  Tool* tool = nullptr;
  bool read_only = false;
  std::optional<PermissionQuery> permission;  // to be decided before run()
  std::optional<ToolResult> refused;          // unknown tool, bad arguments, broken JSON: an error
};

// Filled once, before it is used; afterwards its const members are safe from any thread.
class Registry {
 public:
  Registry();
  ~Registry();
  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;

  // A later tool of the same name takes the earlier one's place.
  void add(std::unique_ptr<Tool> tool);
  Tool* find(std::string_view name) const;
  // In the order of registration, the same bytes each time: they stand at the head of every request's cache.
  std::vector<ToolSpec> specs() const;

  PreparedCall prepare(std::string_view name, const json::object& input, const ToolContext& context) const;
  // prepare(), then the tool; asks nobody. Never throws: an exception becomes "the tool failed: <what>".
  ToolResult run(std::string_view name, const json::object& input, ToolContext& context,
                 std::stop_token stop = {}) const;
  // The same for what prepare() has found good.
  ToolResult run(const PreparedCall& call, const json::object& input, ToolContext& context,
                 std::stop_token stop = {}) const;

 private:
  std::vector<std::unique_ptr<Tool>> tools_;
};

// Checks an input against the subset of JSON Schema that tools use: properties with type, enum, minimum, maximum,
// required; other arguments are refused. Nothing when it is good, else a line for every fault:
// "missing required argument: command (string)", "wrong type of argument: timeout_ms (expected integer, got string)".
std::optional<std::string> validate_input(const json::object& schema, const json::object& input);

// bash, background_bash, background_output, background_wait, background_stop, background_list, read, grep.
void register_builtin_tools(Registry& registry);

}  // namespace errand
