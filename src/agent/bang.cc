// SPDX-License-Identifier: Apache-2.0
#include "agent/bang.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/fd.h"
#include "base/utf8.h"
#include "tools/shown_output.h"

namespace errand {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};
constexpr std::int64_t kMostAtOnce = 64 * 1024;

// Follows the output file: the head of what the command prints, in arrival order.
class Follower {
 public:
  explicit Follower(std::string path) : path_(std::move(path)) {}

  std::string more() {
    if (!fd_ && !path_.empty()) fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd_) return {};
    struct stat info{};
    if (::fstat(fd_.get(), &info) != 0 || info.st_size <= at_) return {};
    std::string text;
    if (info.st_size - at_ > kMostAtOnce) {
      const std::int64_t from = info.st_size - kMostAtOnce;
      text = "\n... (" + std::to_string(from - at_) + " bytes not shown) ...\n";
      at_ = from;
      carry_.clear();
    }
    std::string bytes(static_cast<std::size_t>(info.st_size - at_), '\0');
    const ssize_t got = ::pread(fd_.get(), bytes.data(), bytes.size(), at_);
    if (got <= 0) return text;
    bytes.resize(static_cast<std::size_t>(got));
    at_ += got;
    bytes.insert(0, std::exchange(carry_, {}));
    // A code point that has come in part waits for its rest.
    for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
      const auto c = static_cast<unsigned char>(bytes[bytes.size() - back]);
      if ((c & 0xc0) == 0x80) continue;
      const std::size_t wants = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
      if (wants > back) {
        carry_ = bytes.substr(bytes.size() - back);
        bytes.resize(bytes.size() - back);
      }
      break;
    }
    return text + clean_utf8(bytes);
  }

 private:
  std::string path_;
  UniqueFd fd_;
  std::int64_t at_ = 0;
  std::string carry_;
};

std::string ending_of(const TaskRecord& task, bool aborted) {
  if (aborted) return "aborted";
  if (task.exit_code) return "exit code " + std::to_string(*task.exit_code);
  if (task.signal) return "signal " + signal_text(*task.signal);
  return task.error.value_or("stopped");
}

}  // namespace

BangOutcome run_bang(Engine& engine, const std::string& command, const std::string& folder, const std::stop_token& stop,
                     const std::function<void(std::string text)>& on_output) {
  BangOutcome outcome;
  outcome.block.command = command;
  LaunchRequest request;
  request.command = command;
  request.cwd = folder;
  const LaunchResult launched = engine.launch_foreground(std::move(request));
  if (const auto* rejected = std::get_if<Rejected>(&launched)) {
    outcome.block.ending = rejected->reason;
    outcome.started = false;
    return outcome;
  }
  const std::string id = std::get<Launched>(launched).id;
  TaskSnapshot task = engine.get(id);
  Follower follower(task ? task->output_file : std::string());
  const auto forward = [&] {
    if (std::string text = follower.more(); !text.empty()) on_output(std::move(text));
  };
  bool aborted = false;
  while (task && task->status == TaskStatus::running) {
    if (stop.stop_requested()) {
      const StopReport report = engine.stop(id);
      aborted = report.outcome == StopReport::Outcome::stopped;
      // What could not be ended within the bound keeps running; there is nothing more to wait for.
      break;
    }
    task = engine.wait_end(id, kLook, stop);
    forward();
  }
  task = engine.inspect(id);
  if (!task) {
    outcome.block.ending = "its record was lost";
    return outcome;
  }
  forward();
  const ShownOutput output = shown_output(*task, engine.tail(id, 0).value_or(OutputTail{}));
  outcome.block.output = output.text;
  outcome.block.ending = ending_of(*task, aborted);
  if (task->id != id) {
    outcome.adopted_id = task->id;
    const std::size_t count = task->processes.size();
    outcome.block.ending +=
        "; " + std::to_string(count) + (count == 1 ? " process" : " processes") + " still running as " + task->id;
    if (count > 0) outcome.block.ending += ": " + processes_text(task->processes);
  } else {
    engine.forget(id, output.cut);
  }
  return outcome;
}

}  // namespace errand
