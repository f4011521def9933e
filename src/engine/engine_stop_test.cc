// SPDX-License-Identifier: Apache-2.0
// Ending whole trees, and what outlives a shell.
#include <gtest/gtest.h>
#include <unistd.h>

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;
using Outcome = StopReport::Outcome;

// Tasks are told apart from those of tests that run at the same time by a marker in their environment.
class StopTest : public ::testing::Test {
 protected:
  StopTest() {
    config_ = test_config(folder_);
    config_.environment = {{"ERRAND_TEST_MARK", folder_.path()}};
    config_.max_concurrent_background = 50;
  }
  std::vector<pid_t> living() const { return processes_with("ERRAND_TEST_MARK=" + folder_.path()); }
  bool nothing_left() const {
    return eventually([this] { return living().empty(); });
  }

  TemporaryFolder folder_;
  EngineConfig config_;
};

// Every way out of the tree that people have found: own session, nohup, ignored signals, double fork.
constexpr const char* kEscapes =
    "setsid sleep 1000 & nohup sleep 1000 & (trap \"\" TERM HUP; sleep 1000) & "
    "(setsid bash -c \"setsid sleep 1000 & exit\" &); echo ready; sleep 1000";

TEST_F(StopTest, StopLeavesNothingOfATreeThatTriesToEscape) {
  const ProcessGuard outside(::fork());
  if (outside.pid() == 0) {
    ::execlp("sleep", "sleep", "1000", nullptr);
    ::_exit(127);
  }
  Engine engine(config_);
  const std::string id = launch(engine, kEscapes);
  ASSERT_TRUE(await_output(engine, id, "ready"));
  // Four that try, and what the shell became.
  const auto settled = [&] {
    const auto processes = engine.inspect(id)->processes;
    return processes.size() == 5 && std::all_of(processes.begin(), processes.end(),
                                                [](const ProcessInfo& one) { return one.command == "sleep 1000"; });
  };
  ASSERT_TRUE(eventually(settled)) << processes_text(engine.get(id)->processes);
  const StopReport report = engine.stop(id);
  EXPECT_TRUE(living().empty());
  EXPECT_EQ(report.outcome, Outcome::stopped);
  EXPECT_GE(report.ended, 5) << "one of the shells that start them may have been there still";
  EXPECT_TRUE(report.left.empty());
  EXPECT_EQ(report.task->status, TaskStatus::cancelled);
  EXPECT_FALSE(report.task->exit_code);
  EXPECT_FALSE(report.task->signal);
  EXPECT_EQ(ending_text(*report.task), "cancelled by user");
  EXPECT_TRUE(process_exists(outside.pid())) << "a process that is none of ours was ended";
}

TEST_F(StopTest, CountsOneAndTwoProcesses) {
  Engine engine(config_);
  const std::string one = launch(engine, "echo ready; exec sleep 1000");
  ASSERT_TRUE(await_output(engine, one, "ready"));
  EXPECT_EQ(engine.stop(one).ended, 1);
  const std::string two = launch(engine, "sleep 1000 & echo ready; wait");
  ASSERT_TRUE(await_output(engine, two, "ready"));
  EXPECT_EQ(engine.stop(two).ended, 2);
}

TEST_F(StopTest, ATaskEndsByItsOwnHandlerWithinTheGrace) {
  Engine engine(config_);
  const std::string id = launch(engine, "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
  ASSERT_TRUE(await_output(engine, id, "ready"));
  const StopReport report = engine.stop(id);
  EXPECT_EQ(report.outcome, Outcome::stopped);
  EXPECT_TRUE(output_of(engine, id).ends_with("bye\n")) << output_of(engine, id);
  EXPECT_FALSE(report.task->exit_code) << "a task that we ended has no exit code";
  EXPECT_EQ(report.task->output_bytes_after_end, 0u);
}

TEST_F(StopTest, UnknownAndFinishedTasks) {
  Engine engine(config_);
  EXPECT_EQ(engine.stop("bg-5").outcome, Outcome::unknown);
  EXPECT_EQ(engine.stop("bg-5").task, nullptr);
  const std::string id = launch(engine, "true");
  await_ended(engine, id);
  const StopReport report = engine.stop(id);
  EXPECT_EQ(report.outcome, Outcome::already_finished);
  EXPECT_EQ(report.task->status, TaskStatus::completed);
  EXPECT_EQ(report.ended, 0);
}

// The end was published before the tree was known to be gone: a stop then claimed to have ended survivors.
TEST_F(StopTest, AStopRightAfterTheEndFindsNothingToStop) {
  Engine engine(config_);
  for (int i = 0; i < 50; ++i) {
    const std::string id = launch(engine, "true");
    await_ended(engine, id);
    EXPECT_EQ(engine.stop(id).outcome, Outcome::already_finished);
  }
}

TEST_F(StopTest, ASecondStopWaitsForTheFirst) {
  config_.stop_grace = 300ms;
  Engine engine(config_);
  const std::string id = launch(engine, "trap '' TERM; echo ready; while :; do sleep 0.01; done");
  ASSERT_TRUE(await_output(engine, id, "ready"));
  std::vector<StopReport> reports(4);
  std::vector<std::thread> threads;
  for (StopReport& report : reports) threads.emplace_back([&] { report = engine.stop(id); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(living().empty());
  int stopped = 0;
  for (const StopReport& report : reports) {
    stopped += report.outcome == Outcome::stopped;
    EXPECT_TRUE(report.left.empty());
  }
  EXPECT_GE(stopped, 1);
  EXPECT_EQ(engine.notifications().drain().size(), 1u);
}

TEST_F(StopTest, StoppedProcessesEndToo) {
  Engine engine(config_);
  const std::string id = launch(engine, "sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$");
  ASSERT_TRUE(await_output(engine, id, "ready"));
  EXPECT_EQ(engine.stop(id).outcome, Outcome::stopped);
  EXPECT_TRUE(living().empty());
}

TEST_F(StopTest, PortsAreFreeWhenStopHasReturned) {
  if (std::system("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "no python3";
  Engine engine(config_);
  const std::string id = launch(engine,
                                "python3 -c 'import socket,time\ns=socket.socket()\ns.bind((\"127.0.0.1\",0))\n"
                                "s.listen()\nprint(s.getsockname()[1])\ntime.sleep(1000)'");
  ASSERT_TRUE(await_output(engine, id, "\n"));
  const int port = std::atoi(output_of(engine, id).c_str());
  const TaskSnapshot task = engine.inspect(id);
  ASSERT_FALSE(task->processes.empty());
  EXPECT_EQ(task->processes.back().ports, std::vector<std::uint16_t>{static_cast<std::uint16_t>(port)});
  engine.stop(id);
  EXPECT_EQ(std::system(
                ("python3 -c 'import socket\ns=socket.socket()\ns.bind((\"127.0.0.1\"," + std::to_string(port) + "))'")
                    .c_str()),
            0);
}

TEST_F(StopTest, AKeeperThatWasStoppedIsWoken) {
  Engine engine(config_);
  const std::string id = launch(engine, "echo $PPID; sleep 1000; true");
  ASSERT_TRUE(await_output(engine, id, "\n"));
  ASSERT_EQ(::kill(std::atoi(output_of(engine, id).c_str()), SIGSTOP), 0);
  const StopReport report = engine.stop(id);
  EXPECT_EQ(report.outcome, Outcome::stopped);
  EXPECT_TRUE(living().empty());
}

// --- survivors ---

TEST_F(StopTest, ASurvivorIsNamedGoesOnAndIsEndedByTheSameId) {
  Engine engine(config_);
  const std::string id = launch(engine, "sleep 100 & echo hi");
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->exit_code, 0);
  EXPECT_EQ(output_of(engine, id), "hi\n");
  ASSERT_EQ(task->processes.size(), 1u);
  EXPECT_EQ(task->processes[0].command, "sleep 100");
  const pid_t survivor = task->processes[0].pid;
  const std::string text =
      "completed (exit code 0); 1 process still running: " + std::to_string(survivor) + " sleep 100";
  EXPECT_EQ(ending_text(*task), text);
  const auto pending = engine.notifications().drain();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].message, text);
  EXPECT_TRUE(process_exists(survivor));
  EXPECT_EQ(engine.running_count(), 0);
  const StopReport report = engine.stop(id);
  EXPECT_EQ(report.outcome, Outcome::survivors_ended);
  EXPECT_EQ(report.ended, 1);
  EXPECT_EQ(report.task->status, TaskStatus::completed);
  EXPECT_FALSE(process_exists(survivor));
  EXPECT_TRUE(engine.get(id)->processes.empty());
  EXPECT_FALSE(engine.notifications().has_pending());
  EXPECT_EQ(engine.stop(id).outcome, Outcome::already_finished);
}

TEST_F(StopTest, CancelEndsSurvivorsToo) {
  Engine engine(config_);
  const std::string id = launch(engine, "sleep 100 >/dev/null 2>&1 & echo hi");
  const TaskSnapshot task = await_ended(engine, id);
  ASSERT_EQ(task->processes.size(), 1u);
  EXPECT_FALSE(engine.cancel(id));
  EXPECT_TRUE(nothing_left());
  EXPECT_TRUE(eventually([&] { return engine.get(id)->processes.empty(); }));
}

TEST_F(StopTest, WhatASurvivorPrintsGoesIntoTheSameRecordAndFile) {
  Engine engine(config_);
  const std::string id = launch(engine, "(sleep 1; echo late) & echo early");
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(output_of(engine, id), "early\n");
  EXPECT_EQ(task->output_bytes_after_end, 0u);
  ASSERT_TRUE(await_output(engine, id, "early\nlate\n"));
  EXPECT_EQ(engine.get(id)->output_bytes_after_end, 5u);
  EXPECT_TRUE(eventually([&] { return read_file(task->output_file) == "early\nlate\n"; }));
  EXPECT_TRUE(eventually([&] { return engine.get(id)->processes.empty(); }));
}

TEST_F(StopTest, TooManyTasksWithSurvivorsAreRefused) {
  config_.max_survivor_tasks = 2;
  Engine engine(config_);
  await_ended(engine, launch(engine, "sleep 100 & true"));
  await_ended(engine, launch(engine, "true"));
  await_ended(engine, launch(engine, "sleep 100 & true"));
  const LaunchResult refused = engine.launch(request_of("true"));
  ASSERT_TRUE(std::holds_alternative<Rejected>(refused));
  EXPECT_EQ(std::get<Rejected>(refused).reason, "2 ended tasks still have processes running; stop some: bg-1, bg-3");
  engine.stop("bg-1");
  EXPECT_EQ(launch(engine, "true"), "bg-4");
}

// Between the shell's exit and the publication: changes nothing, waits, ends what survives.
TEST_F(StopTest, CancelDuringTheDrainIsTooLate) {
  config_.output_drain = 2000ms;
  Engine engine(config_);
  const std::string id = launch(engine, "sleep 100 & echo $$");
  ASSERT_TRUE(await_output(engine, id, "\n"));
  const pid_t shell = std::atoi(output_of(engine, id).c_str());
  ASSERT_TRUE(eventually([&] { return ::kill(shell, 0) != 0; }));
  std::this_thread::sleep_for(50ms);  // the keeper's word is on its way; should it be late, the cancel is just a cancel
  ASSERT_EQ(engine.get(id)->status, TaskStatus::running);
  EXPECT_FALSE(engine.get(id)->finished_at_ms);
  EXPECT_FALSE(engine.cancel(id));
  EXPECT_EQ(engine.get(id)->status, TaskStatus::completed);
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(engine.notifications().drain().size(), 1u);
}

TEST_F(StopTest, ListenersHearThatTheLastSurvivorIsGone) {
  struct Listener : EngineListener {
    std::atomic<int> ended{0}, changed{0};
    void on_task_started(const TaskSnapshot&) override {}
    void on_task_ended(const TaskSnapshot& task) override { ended += static_cast<int>(task->processes.size()); }
    void on_task_changed(const TaskSnapshot& task) override {
      EXPECT_TRUE(task->processes.empty());
      ++changed;
    }
  } listener;
  Engine engine(config_, &listener);
  const std::string gate = folder_ / "gate";
  launch(engine, "(while [ ! -e " + gate + " ]; do sleep 0.02; done) & true");
  ASSERT_TRUE(eventually([&] { return listener.ended >= 1; }));
  EXPECT_EQ(listener.changed, 0);
  ASSERT_EQ(std::system(("touch " + gate).c_str()), 0);
  EXPECT_TRUE(eventually([&] { return listener.changed == 1; }));
  EXPECT_FALSE(engine.notifications().drain().empty());
}

// --- the session's end ---

TEST_F(StopTest, CloseEndsEverythingAndSaysSo) {
  Engine engine(config_);
  launch(engine, kEscapes);
  launch(engine, "sleep 1000 & echo ready");
  const std::string foreground = std::get<Launched>(engine.launch_foreground(request_of("sleep 1000"))).id;
  ASSERT_TRUE(await_output(engine, "bg-1", "ready"));
  await_ended(engine, "bg-2");
  const CloseReport report = engine.close();
  EXPECT_TRUE(report.left.empty());
  EXPECT_TRUE(living().empty());
  EXPECT_EQ(engine.get("bg-1")->cause, EndCause::session_ended);
  EXPECT_EQ(ending_text(*engine.get("bg-1")), "cancelled (session ended)");
  EXPECT_EQ(engine.get("bg-2")->status, TaskStatus::completed);
  EXPECT_EQ(engine.get(foreground)->cause, EndCause::session_ended);
  const LaunchResult refused = engine.launch(request_of("true"));
  ASSERT_TRUE(std::holds_alternative<Rejected>(refused));
  EXPECT_EQ(std::get<Rejected>(refused).reason, "the session has ended");
  EXPECT_EQ(output_of(engine, "bg-1"), "ready\n") << "what was is still readable";
  EXPECT_FALSE(engine.cancel("bg-1"));
  EXPECT_EQ(engine.stop("bg-1").outcome, Outcome::already_finished);
}

TEST_F(StopTest, AFreshEngineClosesWithoutHavingStartedAnything) {
  const int before = open_descriptors();
  {
    Engine engine(config_);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(StopTest, NoDescriptorAndNoChildIsLeftAfterClose) {
  const int before = open_descriptors();
  {
    Engine engine(config_);
    for (int i = 0; i < 10; ++i) launch(engine, i % 2 == 0 ? "echo x; sleep 1000" : "echo x");
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_TRUE(own_children().empty());
  EXPECT_TRUE(living().empty());
}

}  // namespace
}  // namespace errand
