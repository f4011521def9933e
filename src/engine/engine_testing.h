// SPDX-License-Identifier: Apache-2.0
// Helpers for tests that run real tasks: a folder of their own, polling with a deadline, what is left of a process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "errand/engine.h"

namespace errand::testing {

// A private temporary folder, removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Kills a process (and reaps it, if it is a child) at the end of its life.
class ProcessGuard {
 public:
  explicit ProcessGuard(pid_t pid) : pid_(pid) {}
  ~ProcessGuard() { kill(); }
  ProcessGuard(ProcessGuard&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  ProcessGuard(const ProcessGuard&) = delete;
  ProcessGuard& operator=(const ProcessGuard&) = delete;
  pid_t pid() const { return pid_; }
  void kill();

 private:
  pid_t pid_;
};

// Sanitizers are slow and hold on to freed memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

constexpr std::chrono::seconds kDeadline{30};

// Polls until it holds; false when it does not within the deadline.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline = kDeadline);

// A config with an output folder, the keeper of this build, and a short grace.
EngineConfig test_config(const TemporaryFolder& folder);

LaunchRequest request_of(std::string command, std::string cwd = {});
// Launches and returns the id; the test fails when it is rejected.
std::string launch(Engine& engine, const std::string& command);
std::string launch(Engine& engine, LaunchRequest request);
// The snapshot of the ended task; the test fails when it does not end.
TaskSnapshot await_ended(Engine& engine, const std::string& id);
// The whole retained output.
std::string output_of(Engine& engine, const std::string& id);
// Waits until the output holds the text.
bool await_output(Engine& engine, const std::string& id, const std::string& text);

std::string read_file(const std::string& path);
bool file_exists(const std::string& path);
bool process_exists(pid_t pid);  // zombies do not count
// Living processes whose environment holds NAME=value; zombies do not count.
std::vector<pid_t> processes_with(const std::string& name_and_value);
// The living zygotes that serve a host, this process by default.
std::vector<pid_t> zygotes_of(pid_t host = 0);
int open_descriptors();
// Children of this process, zombies included.
std::vector<pid_t> own_children();

}  // namespace errand::testing
