// SPDX-License-Identifier: Apache-2.0
// A keeper that somebody traces (a debugger, or a task that does it on purpose): it stands still, no SIGCONT wakes it,
// and when it is killed its parent neither hears of it nor can reap it as long as the tracer holds it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "keeper/keeper_testing.h"

namespace errand::keeper {
namespace {

constexpr std::size_t kSleeps = 3;
const char* const kTree = "setsid sleep 1000 & (trap '' TERM HUP; sleep 1000) & sleep 1000";

// Stops the process by tracing it, and holds on to it also when it is dead.
class Tracer {
 public:
  explicit Tracer(pid_t pid) : pid_(pid) {
    holds_ = ::ptrace(PTRACE_SEIZE, pid_, nullptr, nullptr) == 0 && ::ptrace(PTRACE_INTERRUPT, pid_, 0, 0) == 0 &&
             ::waitpid(pid_, nullptr, __WALL) == pid_;
  }
  ~Tracer() {
    if (!holds_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, __WALL);
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  bool holds() const { return holds_; }

 private:
  const pid_t pid_;
  bool holds_ = false;
};

class KeeperTracedTest : public ::testing::TestWithParam<bool> {
 protected:
  void TearDown() override {
    EXPECT_TRUE(marker_.alive().empty());
    marker_.kill_all();
  }
  bool start(ZygoteClient& zygote, std::optional<Task>& task, HostReport& report) {
    if (!zygote.start(GetParam())) return false;
    Command command = Command::shell(kTree, marker_);
    command.grace_ms = 100;
    task = zygote.launch(command);
    const auto started = task ? task->next() : std::nullopt;
    if (!started || started->kind != KeeperEventKind::started) return false;
    report.from_shell(started->pid);
    return eventually([&] { return marker_.alive("sleep").size() == kSleeps; });
  }

  Marker marker_;
};

INSTANTIATE_TEST_SUITE_P(Finding, KeeperTracedTest, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "ByScan" : "ByChildrenFiles"; });

TEST_P(KeeperTracedTest, NothingIsLeftAfterTheHostsDeath) {
  HostProcess host([this](HostReport& report) {
    static ZygoteClient zygote;
    static std::optional<Task> task;
    return start(zygote, task, report);
  });
  ASSERT_TRUE(host.ready());
  const Tracer tracer(host.report().keeper);
  if (!tracer.holds()) GTEST_SKIP() << "may not trace here";
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
}

TEST_P(KeeperTracedTest, WhatItLeavesIsEndedWhenTheEngineSaysThatItWasKilled) {
  ZygoteClient zygote;
  std::optional<Task> task;
  HostReport report;
  ASSERT_TRUE(start(zygote, task, report));
  const Tracer tracer(report.keeper);
  if (!tracer.holds()) {
    task->stop(0);
    GTEST_SKIP() << "may not trace here";
  }
  ASSERT_EQ(::kill(report.keeper, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return !is_alive(report.keeper); }));
  ASSERT_TRUE(zygote.sweep());
  EXPECT_TRUE(marker_.all_gone());
}

}  // namespace
}  // namespace errand::keeper
