// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_testing.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace errand::testing {
namespace {

// State letter of a process, or 0 when there is none.
char process_state(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() ? '\0' : stat[close + 2];
}

pid_t parent_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close == std::string::npos ? 0 : static_cast<pid_t>(std::strtol(stat.c_str() + close + 3, nullptr, 10));
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid > 0) pids.push_back(pid);
  }
  return pids;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "errand-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ProcessGuard::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

EngineConfig test_config(const TemporaryFolder& folder) {
  EngineConfig config;
  config.output_folder = folder / "tasks";
  config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
  config.stop_grace = std::chrono::milliseconds(500);
  config.min_free_bytes = 0;  // a full machine fails other tests than those of the floor
  return config;
}

LaunchRequest request_of(std::string command, std::string cwd) {
  LaunchRequest request;
  request.command = std::move(command);
  request.cwd = std::move(cwd);
  return request;
}

std::string launch(Engine& engine, LaunchRequest request) {
  LaunchResult result = engine.launch(std::move(request));
  if (const auto* rejected = std::get_if<Rejected>(&result)) {
    ADD_FAILURE() << "rejected: " << rejected->reason;
    return {};
  }
  return std::get<Launched>(result).id;
}

std::string launch(Engine& engine, const std::string& command) { return launch(engine, request_of(command)); }

TaskSnapshot await_ended(Engine& engine, const std::string& id) {
  TaskSnapshot task = engine.wait_end(id, kDeadline);
  if (!task) {
    ADD_FAILURE() << "no task " << id;
    return std::make_shared<TaskRecord>();
  }
  EXPECT_NE(task->status, TaskStatus::running) << id << " did not end: " << task->command;
  return task;
}

std::string output_of(Engine& engine, const std::string& id) {
  const auto tail = engine.tail(id, 0);
  return tail ? tail->text : "(no task)";
}

bool await_output(Engine& engine, const std::string& id, const std::string& text) {
  return eventually([&] { return output_of(engine, id).find(text) != std::string::npos; });
}

std::string read_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool process_exists(pid_t pid) {
  const char state = process_state(pid);
  return state != '\0' && state != 'Z' && state != 'X';
}

std::vector<pid_t> processes_with(const std::string& name_and_value) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const std::string environment = '\0' + read_file("/proc/" + std::to_string(pid) + "/environ");
    if (environment.find('\0' + name_and_value + '\0') != std::string::npos && process_exists(pid))
      found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> zygotes_of(pid_t host) {
  // A zygote holds a pidfd of its host as descriptor 4, and its keepers do too.
  const std::string wanted = "\nPid:\t" + std::to_string(host == 0 ? ::getpid() : host) + "\n";
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    const std::string folder = "/proc/" + std::to_string(pid);
    if (read_file(folder + "/comm") != "errand-zygote\n" || !process_exists(pid)) continue;
    if (read_file(folder + "/fdinfo/4").find(wanted) != std::string::npos) found.push_back(pid);
  }
  return found;
}

int open_descriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::vector<pid_t> own_children() {
  std::vector<pid_t> children;
  for (const pid_t pid : all_processes()) {
    if (parent_of(pid) == ::getpid()) children.push_back(pid);
  }
  return children;
}

}  // namespace errand::testing
