// SPDX-License-Identifier: Apache-2.0
// How shells end, and that it is reported as it is.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <mutex>
#include <thread>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

TEST(ExitTest, All256ExitCodesAreReportedAsTheyAre) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 256;
  Engine engine(config);
  for (int code = 0; code < 256; ++code) {
    launch(engine, "exit " + std::to_string(code));
    if (code % 16 == 15) await_ended(engine, "bg-" + std::to_string(code + 1));
  }
  for (int code = 0; code < 256; ++code) {
    const TaskSnapshot task = await_ended(engine, "bg-" + std::to_string(code + 1));
    EXPECT_EQ(task->exit_code, code);
    EXPECT_FALSE(task->signal);
    EXPECT_FALSE(task->error);
    EXPECT_EQ(task->cause, EndCause::exited);
    EXPECT_EQ(task->status, code == 0 ? TaskStatus::completed : TaskStatus::failed);
  }
  EXPECT_EQ(engine.notifications().drain().size(), 256u);
}

TEST(ExitTest, DeathByEverySignalIsReportedAsTheSignal) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 64;
  Engine engine(config);
  for (const int number :
       {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,    SIGFPE,  SIGKILL, SIGUSR1, SIGSEGV,
        SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO,   SIGSYS,  SIGRTMIN + 1}) {
    // Without core files; and bash ignores SIGQUIT, sh does not.
    const TaskSnapshot task =
        await_ended(engine, launch(engine, "ulimit -c 0; exec sh -c 'kill -" + std::to_string(number) + " $$'"));
    EXPECT_EQ(task->signal, number) << ending_text(*task);
    EXPECT_FALSE(task->exit_code);
    EXPECT_FALSE(task->error);
    EXPECT_EQ(task->status, TaskStatus::failed);
    EXPECT_EQ(task->cause, EndCause::signalled);
  }
  EXPECT_EQ(ending_text(*engine.get("bg-9")), "failed (signal 9 (SIGKILL))");
}

TEST(ExitTest, TimeoutEndsTheTreeAndIsOneNotification) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  LaunchRequest request;
  request.command = "sleep 1000 & echo started; sleep 1000";
  request.timeout = 250ms;
  const std::string id = launch(engine, request);
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->status, TaskStatus::failed);
  EXPECT_EQ(task->cause, EndCause::timed_out);
  EXPECT_EQ(task->error, "timed out after 0.25 s");
  EXPECT_FALSE(task->exit_code);
  EXPECT_FALSE(task->signal);
  EXPECT_TRUE(task->processes.empty()) << "published before the tree was gone";
  const auto pending = engine.notifications().drain();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].message, "failed (timed out after 0.25 s)");
  EXPECT_EQ(output_of(engine, id), "started\n");
  EXPECT_EQ(engine.stop(id).outcome, StopReport::Outcome::already_finished);
}

TEST(ExitTest, TimeoutOfOneTaskLeavesTheOthersAlone) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string server = launch(engine, "sleep 1000");
  LaunchRequest request;
  request.command = "sleep 1000";
  request.timeout = 50ms;
  await_ended(engine, launch(engine, request));
  EXPECT_EQ(engine.get(server)->status, TaskStatus::running);
}

// A pipe that stays open must not hold up the end (a server in the background of the shell).
TEST(ExitTest, EndIsTheShellsExitNotTheEndOfThePipe) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const TaskSnapshot task = await_ended(engine, launch(engine, "sleep 1000 & echo ok"));
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(task->exit_code, 0);
}

// `yes | head` leaves a `yes` that is dying at the shell's exit: it is no survivor.
TEST(ExitTest, WhatIsDyingAtTheExitIsNoSurvivor) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  for (int i = 0; i < 20; ++i) {
    const TaskSnapshot task = await_ended(engine, launch(engine, "yes | head -n 1"));
    EXPECT_EQ(ending_text(*task), "completed (exit code 0)");
  }
}

TEST(ExitTest, WaitEndReturnsAtTheTimeoutAndAtAStopRequest) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string id = launch(engine, "sleep 1000");
  EXPECT_EQ(engine.wait_end("bg-9", 10ms), nullptr);
  EXPECT_EQ(engine.wait_end(id, 10ms)->status, TaskStatus::running);
  std::stop_source stop;
  std::jthread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(engine.wait_end(id, std::chrono::hours(24 * 365 * 100), stop.get_token())->status, TaskStatus::running);
}

struct Recorder : EngineListener {
  std::mutex mutex;
  std::vector<std::string> events;
  NotificationQueue* queue = nullptr;
  Engine* engine = nullptr;
  void add(std::string event) {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(event));
  }
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex);
    return events;
  }
  void on_task_started(const TaskSnapshot& task) override { add("started " + task->id); }
  void on_task_ended(const TaskSnapshot& task) override {
    add("ended " + task->id + " " + std::string(to_string(task->status)) +
        (engine && engine->get(task->id)->status == task->status ? "" : " (not committed)"));
  }
  void on_task_changed(const TaskSnapshot& task) override {
    add("changed " + task->id + " " + std::to_string(task->processes.size()));
  }
};

TEST(ListenerTest, StartedStandsBeforeEndedAndEachComesOnce) {
  const TemporaryFolder folder;
  Recorder recorder;
  Engine engine(test_config(folder), &recorder);
  recorder.engine = &engine;
  const std::string first = launch(engine, "true");
  ASSERT_TRUE(eventually([&] { return recorder.taken().size() >= 2; }));
  const std::string second = launch(engine, "sleep 1000");
  EXPECT_TRUE(engine.cancel(second));
  ASSERT_TRUE(eventually([&] { return recorder.taken().size() >= 4 && engine.get(second)->processes.empty(); }));
  engine.close();
  // When the tree is gone before the end is told, the end tells that too, and no change follows.
  std::vector<std::string> told = recorder.taken();
  std::erase_if(told, [](const std::string& text) { return text.rfind("changed", 0) == 0; });
  EXPECT_EQ(told,
            (std::vector<std::string>{"started bg-1", "ended bg-1 COMPLETED", "started bg-2", "ended bg-2 CANCELLED"}));
}

TEST(ListenerTest, ATaskThatIsCancelledByItsStartListenerNeverRuns) {
  const TemporaryFolder folder;
  struct Canceller : Recorder {
    void on_task_started(const TaskSnapshot& task) override {
      Recorder::on_task_started(task);
      EXPECT_TRUE(engine->cancel(task->id));
    }
  } canceller;
  Engine engine(test_config(folder), &canceller);
  canceller.engine = &engine;
  const std::string id = launch(engine, "touch " + (folder / "ran"));
  ASSERT_TRUE(eventually([&] { return canceller.taken().size() >= 2; }));
  EXPECT_EQ(canceller.taken()[1], "ended bg-1 CANCELLED");
  EXPECT_EQ(engine.stop(id).ended, 0);
  engine.close();
  EXPECT_FALSE(file_exists(folder / "ran"));
  EXPECT_EQ(engine.running_count(), 0);
}

}  // namespace
}  // namespace errand
