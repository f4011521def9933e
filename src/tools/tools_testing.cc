// SPDX-License-Identifier: Apache-2.0
#include "tools/tools_testing.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace errand::testing {

namespace fs = std::filesystem;

ToolFixture::ToolFixture(int max_concurrent) {
  std::string name = (fs::temp_directory_path() / "errand-tools-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
  root_ = fs::canonical(name).string();
  fs::create_directories(root_ + "/project/sub/deep");
  fs::create_directories(root_ + "/session");
  EngineConfig config;
  config.max_concurrent_background = max_concurrent;
  config.output_folder = root_ + "/session/tasks";
  config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
  config.min_free_bytes = 0;  // a full machine fails other tests than these
  config.stop_grace = std::chrono::milliseconds(500);
  engine = std::make_unique<Engine>(config);
  context = std::make_unique<ToolContext>(
      ToolContext{*engine, "main", root_ + "/project", root_ + "/project", root_ + "/session"});
  register_builtin_tools(registry);
}

ToolFixture::~ToolFixture() {
  engine.reset();
  std::error_code error;
  fs::remove_all(root_, error);
}

ToolResult ToolFixture::run(const std::string& tool, const json::object& input, std::stop_token stop) {
  return registry.run(tool, input, *context, stop);
}

ToolResult ToolFixture::run(const std::string& tool, const std::string& input, std::stop_token stop) {
  std::string error;
  const auto value = parse_json(input, error);
  EXPECT_TRUE(value && value->is_object()) << input << ": " << error;
  return run(tool, value ? value->get_object() : json::object(), stop);
}

ToolResult ToolFixture::bash(const std::string& command, std::stop_token stop) {
  json::object input;
  input["command"] = command;
  return run("bash", input, stop);
}

std::string ToolFixture::launch(const std::string& command) {
  LaunchRequest request;
  request.command = command;
  request.cwd = context->cwd;
  LaunchResult result = engine->launch(std::move(request));
  const auto* launched = std::get_if<Launched>(&result);
  EXPECT_NE(launched, nullptr);
  return launched ? launched->id : std::string();
}

TaskSnapshot ToolFixture::await_ended(const std::string& id) {
  TaskSnapshot task = engine->wait_end(id, kDeadline);
  EXPECT_TRUE(task && task->status != TaskStatus::running) << id;
  return task ? task : std::make_shared<TaskRecord>();
}

bool ToolFixture::await_output(const std::string& id, const std::string& text) {
  return eventually([&] {
    const auto tail = engine->tail(id, 0);
    return tail && tail->text.find(text) != std::string::npos;
  });
}

std::string ToolFixture::write(const std::string& name, const std::string& text) {
  const std::string path = context->project_folder + "/" + name;
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

bool process_exists(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  const std::size_t close = text.rfind(')');
  return close != std::string::npos && close + 2 < text.size() && text[close + 2] != 'Z';
}

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace errand::testing
