// SPDX-License-Identifier: Apache-2.0
// Foreground commands: tasks without id until they need one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <vector>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

struct Recorder : EngineListener {
  std::mutex mutex;
  std::vector<std::string> events;
  void add(std::string event) {
    const std::lock_guard lock(mutex);
    events.push_back(std::move(event));
  }
  std::vector<std::string> taken() {
    const std::lock_guard lock(mutex);
    return events;
  }
  void on_task_started(const TaskSnapshot& task) override {
    add("started " + task->id + " " + std::string(to_string(task->status)));
  }
  void on_task_ended(const TaskSnapshot& task) override {
    add("ended " + task->id + " " + std::string(to_string(task->status)));
  }
  void on_task_changed(const TaskSnapshot& task) override { add("changed " + task->id); }
};

class ForegroundTest : public ::testing::Test {
 protected:
  std::string start(const std::string& command) {
    return std::get<Launched>(engine_.launch_foreground(request_of(command))).id;
  }
  TemporaryFolder folder_;
  Recorder recorder_;
  Engine engine_{test_config(folder_), &recorder_};
};

TEST_F(ForegroundTest, HasNoSlotNoIdNoNoticeAndStandsInNoList) {
  for (int i = 0; i < 5; ++i) launch(engine_, "sleep 1000");
  const std::string id = start("echo hi; exit 3");
  EXPECT_EQ(id, "fg-1");
  const TaskSnapshot task = await_ended(engine_, id);
  EXPECT_EQ(task->exit_code, 3);
  EXPECT_EQ(output_of(engine_, id), "hi\n");
  EXPECT_EQ(task->output_file, folder_ / "tasks/fg-1.output");
  EXPECT_EQ(engine_.list().size(), 5u);
  EXPECT_EQ(engine_.running_count(), 5);
  EXPECT_FALSE(engine_.notifications().has_pending());
  engine_.forget(id);
  EXPECT_EQ(engine_.get(id), nullptr);
  EXPECT_FALSE(file_exists(task->output_file));
  EXPECT_EQ(start("true"), "fg-2");
  EXPECT_EQ(recorder_.taken().size(), 5u) << "listeners hear nothing of it";
}

TEST_F(ForegroundTest, ForgetKeepsTheFileWhenItsPathWasTold) {
  const std::string id = start("echo hi");
  const TaskSnapshot task = await_ended(engine_, id);
  engine_.forget(id, true);
  EXPECT_EQ(engine_.get(id), nullptr);
  EXPECT_EQ(read_file(task->output_file), "hi\n");
}

TEST_F(ForegroundTest, ForgetOfARunningOneDoesNothing) {
  const std::string id = start("sleep 1000");
  engine_.forget(id);
  EXPECT_NE(engine_.get(id), nullptr);
}

TEST_F(ForegroundTest, AnAdoptedOneIsATaskFromThenOn) {
  const std::string gate = folder_ / "gate";
  const std::string id = start("echo one; while [ ! -e " + gate + " ]; do sleep 0.02; done; echo two");
  ASSERT_TRUE(await_output(engine_, id, "one"));
  EXPECT_EQ(engine_.adopt(id), "bg-1");
  EXPECT_EQ(engine_.adopt(id), "bg-1");
  EXPECT_EQ(engine_.get(id)->id, "bg-1");
  EXPECT_EQ(engine_.running_count(), 1);
  EXPECT_EQ(engine_.list().size(), 1u);
  ASSERT_EQ(std::system(("touch " + gate).c_str()), 0);
  const TaskSnapshot task = await_ended(engine_, "bg-1");
  EXPECT_EQ(task->output_file, folder_ / "tasks/bg-1.output");
  EXPECT_FALSE(file_exists(folder_ / "tasks/fg-1.output"));
  EXPECT_TRUE(eventually([&] { return read_file(task->output_file) == "one\ntwo\n"; }));
  const auto pending = engine_.notifications().drain();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].task_id, "bg-1");
  EXPECT_EQ(engine_.running_count(), 0);
  engine_.forget(id);
  EXPECT_NE(engine_.get(id), nullptr) << "an adopted one is not forgotten";
  ASSERT_TRUE(eventually([&] { return recorder_.taken().size() >= 2; }));
  EXPECT_EQ(recorder_.taken()[0], "started bg-1 RUNNING");
  EXPECT_EQ(recorder_.taken()[1], "ended bg-1 COMPLETED");
}

TEST_F(ForegroundTest, AdoptionIgnoresTheLimitAndLaterLaunchesCountIt) {
  for (int i = 0; i < 5; ++i) launch(engine_, "sleep 1000");
  EXPECT_EQ(engine_.adopt(start("sleep 1000")), "bg-6");
  EXPECT_EQ(engine_.running_count(), 6);
  engine_.cancel("bg-1");
  EXPECT_TRUE(std::holds_alternative<Rejected>(engine_.launch(request_of("true"))));
  engine_.cancel("bg-6");
  EXPECT_TRUE(std::holds_alternative<Launched>(engine_.launch(request_of("true"))));
}

TEST_F(ForegroundTest, SurvivorsAtItsEndMakeItATask) {
  const std::string id = start("sleep 1000 & echo hi");
  const TaskSnapshot task = await_ended(engine_, id);
  EXPECT_EQ(task->id, "bg-1");
  EXPECT_EQ(task->status, TaskStatus::completed);
  ASSERT_EQ(task->processes.size(), 1u);
  EXPECT_EQ(task->processes[0].command, "sleep 1000");
  EXPECT_EQ(task->output_file, folder_ / "tasks/bg-1.output");
  EXPECT_EQ(read_file(task->output_file), "hi\n");
  EXPECT_FALSE(file_exists(folder_ / "tasks/fg-1.output"));
  EXPECT_FALSE(engine_.notifications().has_pending()) << "its end was told to its caller";
  EXPECT_EQ(engine_.running_count(), 0);
  ASSERT_TRUE(eventually([&] { return recorder_.taken().size() >= 2; }));
  // The order holds; the status tells that it was over when it became a task.
  EXPECT_EQ(recorder_.taken()[0], "started bg-1 COMPLETED");
  EXPECT_EQ(recorder_.taken()[1], "ended bg-1 COMPLETED");
  EXPECT_EQ(engine_.stop("bg-1").outcome, StopReport::Outcome::survivors_ended);
  EXPECT_TRUE(eventually([&] { return recorder_.taken().size() == 3; }));
}

TEST_F(ForegroundTest, CancelEndsItWithoutANotification) {
  const std::string id = start("sleep 1000");
  EXPECT_TRUE(engine_.cancel(id));
  EXPECT_EQ(engine_.get(id)->status, TaskStatus::cancelled);
  EXPECT_EQ(engine_.stop(id).outcome == StopReport::Outcome::unknown, false);
  EXPECT_FALSE(engine_.notifications().has_pending());
}

TEST_F(ForegroundTest, UnknownOnesAreNotAdopted) {
  EXPECT_FALSE(engine_.adopt("fg-7"));
  const std::string id = launch(engine_, "true");
  EXPECT_FALSE(engine_.adopt(id));
}

TEST_F(ForegroundTest, AResumedSessionDoesNotOverwriteFilesWhosePathsWereTold) {
  ASSERT_EQ(std::system(("mkdir -p " + (folder_ / "tasks")).c_str()), 0);
  std::ofstream(folder_ / "tasks/fg-4.output") << "old";
  EXPECT_EQ(start("true"), "fg-5");
  EXPECT_EQ(read_file(folder_ / "tasks/fg-4.output"), "old");
}

}  // namespace
}  // namespace errand
