// SPDX-License-Identifier: Apache-2.0
// A project in a folder of its own, an engine and the built-in tools: what a tool's test needs.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "tools/registry.h"

namespace errand::testing {

class ToolFixture {
 public:
  explicit ToolFixture(int max_concurrent = 5);
  ~ToolFixture();
  ToolFixture(const ToolFixture&) = delete;
  ToolFixture& operator=(const ToolFixture&) = delete;

  // The input is JSON text.
  ToolResult run(const std::string& tool, const std::string& input, std::stop_token stop = {});
  ToolResult run(const std::string& tool, const json::object& input, std::stop_token stop = {});
  // bash with this command.
  ToolResult bash(const std::string& command, std::stop_token stop = {});
  // Starts a task past the tools and returns its id.
  std::string launch(const std::string& command);
  TaskSnapshot await_ended(const std::string& id);
  bool await_output(const std::string& id, const std::string& text);

  std::string write(const std::string& name, const std::string& text);  // in the project; the path
  std::string project() const { return context->project_folder; }
  const std::string& root() const { return root_; }

  std::unique_ptr<Engine> engine;
  std::unique_ptr<ToolContext> context;
  Registry registry;

 private:
  std::string root_;
};

constexpr std::chrono::seconds kDeadline{30};
bool eventually(const std::function<bool()>& condition);
bool process_exists(pid_t pid);
int open_descriptors();
std::string read_file(const std::string& path);

}  // namespace errand::testing
