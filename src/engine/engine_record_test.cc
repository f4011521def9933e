// SPDX-License-Identifier: Apache-2.0
// A task's record, field by field, as its readers see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "engine/engine_testing.h"
#include "engine/task_table.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using testing::await_ended;
using testing::await_output;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::eventually;
using testing::launch;
using testing::request_of;

class RecordTest : public ::testing::Test {
 protected:
  std::vector<std::string> listed(Engine& engine, std::string_view owner = {}) {
    std::vector<std::string> ids;
    for (const TaskSnapshot& task : engine.list(owner)) ids.push_back(task->id);
    return ids;
  }

  testing::TemporaryFolder folder_;
  EngineConfig config_ = testing::test_config(folder_);
};

TEST_F(RecordTest, IdsCountUpAndAreNeverReused) {
  Engine engine(config_);
  EXPECT_EQ(launch(engine, "true"), "bg-1");
  engine.stop("bg-1");
  EXPECT_EQ(launch(engine, "exec sleep 1000"), "bg-2");
  engine.stop("bg-2");
  EXPECT_TRUE(std::holds_alternative<Rejected>(engine.launch(request_of(" ")))) << "takes no number";
  EXPECT_EQ(launch(engine, request_of("true", folder_ / "nowhere")), "bg-3") << "one that could not start has one";
  const std::string foreground = std::get<Launched>(engine.launch_foreground(request_of("true"))).id;
  await_ended(engine, foreground);
  engine.forget(foreground);
  EXPECT_EQ(launch(engine, "true"), "bg-4") << "a foreground command took none";
}

TEST_F(RecordTest, AResumedSessionGoesOnFromTheHighestId) {
  config_.first_id = 43;
  Engine engine(config_);
  EXPECT_EQ(launch(engine, "true"), "bg-43");
  EXPECT_EQ(launch(engine, "true"), "bg-44");
  EXPECT_EQ(engine.get("bg-42"), nullptr);
  EXPECT_EQ(engine.get("bg-1"), nullptr);
}

TEST_F(RecordTest, ListsAreOrderedByTheMomentTheIdWasGiven) {
  config_.max_concurrent_background = 20;
  Engine engine(config_);
  std::vector<std::string> expected;
  const std::string foreground = std::get<Launched>(engine.launch_foreground(request_of("sleep 1000"))).id;
  for (int i = 1; i <= 11; ++i) expected.push_back(launch(engine, "exec sleep 1000"));
  expected.push_back(*engine.adopt(foreground));  // older than all of them, but its id is the youngest
  EXPECT_EQ(expected.back(), "bg-12");
  EXPECT_EQ(listed(engine), expected) << "bg-2 before bg-10";
}

TEST_F(RecordTest, OwnerCommandDescriptionAndFolderAreKeptAsGiven) {
  Engine engine(config_);
  LaunchRequest request = request_of("true # " + std::string(100'000, 'x') + "\n\t: 'y' \xE2\x82\xAC", folder_.path());
  request.description = "a description";
  request.owner = "agent-7";
  const std::string id = launch(engine, request);
  launch(engine, "true");
  const TaskSnapshot task = engine.get(id);
  EXPECT_EQ(task->kind, TaskKind::shell);
  EXPECT_EQ(task->owner, "agent-7");
  EXPECT_EQ(task->command, request.command) << "uncut";
  EXPECT_EQ(task->description, "a description");
  EXPECT_EQ(task->cwd, folder_.path());
  EXPECT_THAT(listed(engine, "agent-7"), ElementsAre("bg-1"));
  EXPECT_THAT(listed(engine, "main"), ElementsAre("bg-2"));
  EXPECT_EQ(await_ended(engine, id)->exit_code, 0);
}

TEST_F(RecordTest, TheFolderIsAbsoluteAndTheHostsOwnByDefault) {
  Engine engine(config_);
  char here[4096];
  ASSERT_NE(::getcwd(here, sizeof here), nullptr);
  EXPECT_EQ(engine.get(launch(engine, "true"))->cwd, here);
  EXPECT_EQ(engine.get(launch(engine, request_of("true", ".")))->cwd, std::string(here) + "/.");
}

// Each field of an ending stands there only where it applies.
TEST_F(RecordTest, ExitCodeSignalAndError) {
  Engine engine(config_);
  const TaskSnapshot running = engine.get(launch(engine, "exec sleep 1000"));
  EXPECT_EQ(running->status, TaskStatus::running);
  EXPECT_FALSE(running->exit_code || running->signal || running->error || running->finished_at_ms);

  const TaskSnapshot cancelled = engine.stop(running->id).task;
  EXPECT_EQ(cancelled->status, TaskStatus::cancelled);
  EXPECT_FALSE(cancelled->exit_code || cancelled->signal || cancelled->error) << "one that we ended has neither";

  const TaskSnapshot good = await_ended(engine, launch(engine, "true"));
  EXPECT_EQ(good->status, TaskStatus::completed);
  EXPECT_EQ(good->exit_code, 0);
  EXPECT_FALSE(good->signal || good->error);

  const TaskSnapshot bad = await_ended(engine, launch(engine, "exit 137"));
  EXPECT_EQ(bad->status, TaskStatus::failed);
  EXPECT_EQ(bad->exit_code, 137);
  EXPECT_FALSE(bad->signal || bad->error) << "a non-zero exit is no error";

  const TaskSnapshot killed = await_ended(engine, launch(engine, "kill -9 $$"));
  EXPECT_EQ(killed->status, TaskStatus::failed);
  EXPECT_EQ(killed->signal, SIGKILL);
  EXPECT_FALSE(killed->exit_code || killed->error) << "137 is not an exit code";
  EXPECT_EQ(ending_text(*killed), "failed (signal 9 (SIGKILL))");

  const TaskSnapshot nowhere = await_ended(engine, launch(engine, request_of("true", "/no/such/folder")));
  EXPECT_EQ(nowhere->status, TaskStatus::failed);
  EXPECT_EQ(nowhere->error, "could not start: chdir \"/no/such/folder\": No such file or directory");
  EXPECT_FALSE(nowhere->exit_code || nowhere->signal);

  LaunchRequest slow = request_of("exec sleep 1000");
  slow.timeout = 50ms;
  const TaskSnapshot late = await_ended(engine, launch(engine, slow));
  EXPECT_EQ(late->status, TaskStatus::failed);
  EXPECT_EQ(late->error, "timed out after 0.05 s");
  EXPECT_FALSE(late->exit_code || late->signal);
}

TEST_F(RecordTest, ASnapshotNeverChanges) {
  static_assert(std::is_same_v<TaskSnapshot, std::shared_ptr<const TaskRecord>>);
  Engine engine(config_);
  const std::string id = launch(engine, "echo x; exec sleep 1000");
  ASSERT_TRUE(await_output(engine, id, "x"));
  const TaskSnapshot before = engine.get(id);
  engine.stop(id);
  EXPECT_EQ(before->status, TaskStatus::running);
  EXPECT_FALSE(before->finished_at_ms);
  EXPECT_EQ(engine.get(id)->status, TaskStatus::cancelled);
}

TEST_F(RecordTest, OutputIsCountedWhileItComes) {
  Engine engine(config_);
  const std::string id = launch(engine, "echo one; exec sleep 1000");
  ASSERT_TRUE(await_output(engine, id, "one\n"));
  const TaskSnapshot task = engine.get(id);
  EXPECT_EQ(task->output_bytes, 4u);
  EXPECT_EQ(task->output_unwritten_bytes, 0u);
  EXPECT_FALSE(task->output_truncated);
  EXPECT_EQ(task->output_file, folder_ / "tasks/bg-1.output");
  ASSERT_TRUE(task->last_output_at_ms);
  EXPECT_GE(*task->last_output_at_ms, task->started_at_ms);
  EXPECT_FALSE(engine.get(launch(engine, "exec sleep 1000"))->last_output_at_ms) << "it never said anything";
}

TEST_F(RecordTest, ProcessesAreThereWhileItRunsAndAfterwardsWhileAnySurvive) {
  Engine engine(config_);
  const std::string id = launch(engine, "sleep 1000 & echo $!; exec sleep 1001");
  ASSERT_TRUE(await_output(engine, id, "\n"));
  ASSERT_TRUE(eventually([&] {
    const TaskSnapshot task = engine.inspect(id);
    return task->processes.size() == 2 && task->processes[0].command == "sleep 1001" &&
           task->processes[1].command == "sleep 1000";
  }));
  const TaskSnapshot task = engine.inspect(id);
  EXPECT_TRUE(testing::process_exists(task->processes[0].pid));
  engine.stop(id);
  EXPECT_TRUE(engine.inspect(id)->processes.empty());

  const std::string left = launch(engine, "sleep 1000 & exit 3");
  ASSERT_EQ(await_ended(engine, left)->processes.size(), 1u);
  EXPECT_THAT(ending_text(*engine.get(left)), EndsWith(" sleep 1000"));
  engine.stop(left);
  EXPECT_TRUE(engine.get(left)->processes.empty());
}

// --- the user's notifications ---

TEST_F(RecordTest, EveryEndPushesOneNotificationWithItsText) {
  Engine engine(config_);
  LaunchRequest slow = request_of("exec sleep 1000");
  slow.timeout = 1500ms;
  const std::vector<std::pair<LaunchRequest, std::string>> ends = {
      {request_of("true"), "completed (exit code 0)"},
      {request_of("exit 7"), "failed (exit code 7)"},
      {request_of("kill -9 $$"), "failed (signal 9 (SIGKILL))"},
      {slow, "failed (timed out after 1.5 s)"},
      {request_of("true", "/x"), "failed (could not start: chdir \"/x\": No such file or directory)"},
      {request_of("kill -9 $PPID; exec sleep 1000"), "failed (keeper lost)"},
  };
  for (const auto& [request, text] : ends) {
    const TaskSnapshot task = await_ended(engine, launch(engine, request));
    const std::vector<Notification> pushed = engine.notifications().drain();
    ASSERT_EQ(pushed.size(), 1u) << text;
    EXPECT_EQ(pushed[0].task_id, task->id);
    EXPECT_EQ(pushed[0].status, task->status);
    EXPECT_EQ(pushed[0].message, text);
    EXPECT_GE(pushed[0].timestamp_ms, task->started_at_ms);
  }
  const std::string stopped = launch(engine, "exec sleep 1000");
  engine.stop(stopped);
  engine.stop(stopped);
  std::vector<Notification> pushed = engine.notifications().drain();
  ASSERT_EQ(pushed.size(), 1u);
  EXPECT_EQ(pushed[0].message, "cancelled by user");
  launch(engine, "exec sleep 1000");
  engine.close();
  pushed = engine.notifications().drain();
  ASSERT_EQ(pushed.size(), 1u);
  EXPECT_EQ(pushed[0].message, "cancelled (session ended)");
}

// --- the clocks ---

std::atomic<std::int64_t> wall_now{0}, monotonic_now{0};

TEST(RecordClockTest, DurationsComeFromTheMonotonicClock) {
  const EngineConfig config;
  NotificationQueue notifications;
  TaskTable table(config, notifications, Clocks{[] { return wall_now.load(); }, [] { return monotonic_now.load(); }});
  wall_now = 1'700'000'000'000;
  monotonic_now = 5'000;
  const auto result = table.open(request_of("true", "/"), false, [](const std::string&) { return nullptr; });
  const auto& opened = std::get<TaskTable::Opened>(result);
  EXPECT_EQ(opened.snapshot->started_at_ms, 1'700'000'000'000);
  EXPECT_EQ(opened.snapshot->duration_ms, 0);

  wall_now -= 3'600'000;  // somebody sets the clock back
  monotonic_now += 1'500;
  EXPECT_EQ(table.get("bg-1")->duration_ms, 1'500);
  table.apply(opened.serial, TaskEvent::shell_exited, outcome_of_wait_status(0));
  monotonic_now += 100;
  EXPECT_FALSE(table.get("bg-1")->finished_at_ms) << "what is decided shows itself with the publication";
  table.apply(opened.serial, TaskEvent::output_settled);
  monotonic_now += 10'000;
  const TaskSnapshot ended = table.get("bg-1");
  EXPECT_EQ(ended->finished_at_ms, 1'700'000'000'000 - 3'600'000);
  EXPECT_EQ(ended->duration_ms, 1'500) << "to the shell's exit, and no longer";
}

}  // namespace
}  // namespace errand
