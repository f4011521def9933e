// SPDX-License-Identifier: Apache-2.0
// A small host for tests: speaks the keeper's protocol, runs hosts in processes of their own that can be killed, and
// finds what a task left behind by a word in its environment.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "keeper/protocol.h"

namespace errand::keeper {

// Long against all that is waited for; only a failing test waits so long.
constexpr std::chrono::seconds kPatience{60};

// Asks again and again until it is true or the patience is over.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience = kPatience);

struct ProcessLook {
  pid_t parent = 0;
  char state = '?';
  std::string name;
};
std::optional<ProcessLook> look_at(pid_t pid);
pid_t parent_of(pid_t pid);  // 0: there is no such process
bool is_alive(pid_t pid);    // a zombie is not
std::vector<pid_t> children_of(pid_t pid);

// A word that no other test and no other run has. Processes inherit it.
class Marker {
 public:
  Marker();
  std::string entry() const { return entry_; }
  // Living processes that carry it, all or those of one name.
  std::vector<pid_t> alive(const std::string& name = {}) const;
  bool all_gone() const;  // waits for it
  void kill_all() const;  // for the end of a failed test

 private:
  std::string entry_;
};

struct Command {
  std::vector<std::string> argv;
  std::string path = "/bin/bash";
  std::string cwd = "/";
  std::vector<std::string> environment;
  std::uint32_t grace_ms = 2000;
  std::uint64_t nofile_soft = 0;
  bool duplex = false;

  static Command shell(const std::string& line, const Marker& marker);
};

// The host's end of a keeper.
class Task {
 public:
  Task() = default;
  explicit Task(UniqueFd channel) : channel_(std::move(channel)) {}

  bool start(const Command& command);
  bool stop(std::uint32_t grace_ms);
  bool send_raw(const void* bytes, std::size_t size);
  // The next event; none at the end of the connection or when the patience is over.
  std::optional<KeeperEvent> next();
  // Skips others.
  std::optional<KeeperEvent> await(KeeperEventKind kind);
  bool at_end();              // the connection ends without a further event
  std::string read_output();  // until its end
  std::string read_line();
  void hang_up();

  int channel() const { return channel_.get(); }
  int duplex() const { return duplex_.get(); }
  // Whatever has_stdin or the strings should be: for requests that are wrong on purpose.
  bool send_start(StartRequest request, const std::string& strings, const std::vector<int>& fds);

 private:
  ssize_t receive(void* bytes, std::size_t size);

  UniqueFd channel_;
  UniqueFd output_;
  UniqueFd duplex_;
};

class ZygoteClient {
 public:
  // Fails a test when it cannot.
  bool start(bool scan_all = false, const std::string& groups = {});
  std::optional<Task> keeper();  // an idle one
  std::optional<Task> launch(const Command& command);
  bool hand_over(int keepers_end);
  bool sweep();
  void hang_up();

 private:
  UniqueFd control_;
};

struct HostReport {
  pid_t shell = 0;
  pid_t keeper = 0;
  pid_t zygote = 0;
  pid_t other = 0;

  void from_shell(pid_t pid);
};

// A host in a process of its own: runs the body, tells what it reports, then waits to be killed.
class HostProcess {
 public:
  // `uid` 0: as the caller.
  explicit HostProcess(const std::function<bool(HostReport&)>& body, uid_t uid = 0);
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  bool ready() const { return ready_; }
  const HostReport& report() const { return report_; }
  void kill(int signal = 9);

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
  HostReport report_;
};

}  // namespace errand::keeper
