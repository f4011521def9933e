// SPDX-License-Identifier: Apache-2.0
// The mission's own table of what a background runner does, with real processes.
#include <gtest/gtest.h>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

class BackgroundRunnerTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Engine engine_{test_config(folder_)};
};

TEST_F(BackgroundRunnerTest, LaunchReturnsBg1) { EXPECT_EQ(launch(engine_, "true"), "bg-1"); }

TEST_F(BackgroundRunnerTest, BlankCommandIsRejected) {
  for (const char* command : {"", " ", "\t\n", " \xC2\xA0\xE3\x80\x80"}) {
    LaunchRequest request;
    request.command = command;
    const LaunchResult result = engine_.launch(request);
    ASSERT_TRUE(std::holds_alternative<Rejected>(result));
    EXPECT_EQ(std::get<Rejected>(result).reason, "command must not be blank");
  }
  EXPECT_EQ(engine_.running_count(), 0);
  EXPECT_TRUE(engine_.list().empty());
}

TEST_F(BackgroundRunnerTest, EchoCompletesWithExitCode0AndItsOutput) {
  const std::string id = launch(engine_, "echo hello");
  const TaskSnapshot task = await_ended(engine_, id);
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(task->cause, EndCause::exited);
  EXPECT_EQ(task->exit_code, 0);
  EXPECT_FALSE(task->signal);
  EXPECT_FALSE(task->error);
  EXPECT_TRUE(task->finished_at_ms);
  EXPECT_EQ(task->output_bytes, 6u);
  EXPECT_EQ(task->output_unwritten_bytes, 0u);
  EXPECT_EQ(output_of(engine_, id), "hello\n");
  EXPECT_EQ(read_file(task->output_file), "hello\n");
}

TEST_F(BackgroundRunnerTest, NonZeroExitFailsWithItsCodeAndNoError) {
  const TaskSnapshot task = await_ended(engine_, launch(engine_, "exit 7"));
  EXPECT_EQ(task->status, TaskStatus::failed);
  EXPECT_EQ(task->exit_code, 7);
  EXPECT_FALSE(task->error);
  EXPECT_EQ(ending_text(*task), "failed (exit code 7)");
}

TEST_F(BackgroundRunnerTest, CancelOfARunningTaskCancelsAndCounts) {
  const std::string id = launch(engine_, "sleep 30");
  EXPECT_EQ(engine_.running_count(), 1);
  EXPECT_TRUE(engine_.cancel(id));
  EXPECT_EQ(engine_.running_count(), 0);
  const TaskSnapshot task = engine_.get(id);
  EXPECT_EQ(task->status, TaskStatus::cancelled);
  EXPECT_FALSE(task->exit_code);
  EXPECT_FALSE(task->signal);
  EXPECT_FALSE(engine_.cancel(id));
}

TEST_F(BackgroundRunnerTest, CancelOfAnUnknownIdIsFalse) { EXPECT_FALSE(engine_.cancel("bg-99")); }

TEST_F(BackgroundRunnerTest, CancelOfACompletedTaskIsFalseAndChangesNothing) {
  const std::string id = launch(engine_, "true");
  await_ended(engine_, id);
  EXPECT_FALSE(engine_.cancel(id));
  EXPECT_EQ(engine_.get(id)->status, TaskStatus::completed);
}

TEST_F(BackgroundRunnerTest, MoreThanTheLimitIsRejected) {
  for (int i = 0; i < 5; ++i) launch(engine_, "sleep 30");
  LaunchRequest request;
  request.command = "true";
  const LaunchResult result = engine_.launch(request);
  ASSERT_TRUE(std::holds_alternative<Rejected>(result));
  EXPECT_EQ(std::get<Rejected>(result).reason,
            "max concurrent background tasks (5) reached; wait for existing tasks to finish or stop them");
  EXPECT_EQ(engine_.running_count(), 5);
  EXPECT_TRUE(engine_.cancel("bg-2"));
  EXPECT_EQ(launch(engine_, "sleep 30"), "bg-6");  // the refused one used up no id
}

TEST_F(BackgroundRunnerTest, OutputStreamsWhileItRuns) {
  const std::string gate = folder_ / "gate";
  const std::string id = launch(engine_, "echo one; while [ ! -e " + gate + " ]; do sleep 0.02; done; echo two");
  ASSERT_TRUE(await_output(engine_, id, "one\n"));
  EXPECT_EQ(engine_.get(id)->status, TaskStatus::running);
  EXPECT_EQ(output_of(engine_, id), "one\n");
  ASSERT_EQ(std::system(("touch " + gate).c_str()), 0);
  await_ended(engine_, id);
  EXPECT_EQ(output_of(engine_, id), "one\ntwo\n");
}

TEST_F(BackgroundRunnerTest, OutputOverTheLimitIsCutToItsTailAndFlagged) {
  const std::string id = launch(engine_, "seq 1 100000");
  const TaskSnapshot task = await_ended(engine_, id);
  EXPECT_TRUE(task->output_truncated);
  const std::string text = output_of(engine_, id);
  EXPECT_LE(text.size(), 65536u);
  EXPECT_TRUE(text.ends_with("\n99999\n100000\n"));
  EXPECT_TRUE(engine_.tail(id, 2)->truncated);
  EXPECT_EQ(engine_.tail(id, 2)->text, "99999\n100000\n");
}

TEST_F(BackgroundRunnerTest, ListIsOrderedById) {
  EngineConfig config = test_config(folder_);
  config.max_concurrent_background = 20;
  Engine engine(config);
  for (int i = 0; i < 12; ++i) launch(engine, "true");
  const auto tasks = engine.list();
  ASSERT_EQ(tasks.size(), 12u);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(tasks[static_cast<std::size_t>(i)]->id, "bg-" + std::to_string(i + 1));
}

TEST_F(BackgroundRunnerTest, GetOfAnUnknownIdIsNull) { EXPECT_EQ(engine_.get("bg-1"), nullptr); }

TEST_F(BackgroundRunnerTest, CompletionPushesOneNotification) {
  const std::string id = launch(engine_, "true");
  await_ended(engine_, id);
  const auto pending = engine_.notifications().drain();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].task_id, id);
  EXPECT_EQ(pending[0].status, TaskStatus::completed);
  EXPECT_EQ(pending[0].message, "completed (exit code 0)");
}

TEST_F(BackgroundRunnerTest, CancelPushesOneNotification) {
  const std::string id = launch(engine_, "sleep 30");
  engine_.cancel(id);
  const auto pending = engine_.notifications().drain();
  ASSERT_EQ(pending.size(), 1u);
  EXPECT_EQ(pending[0].status, TaskStatus::cancelled);
  EXPECT_EQ(pending[0].message, "cancelled by user");
  EXPECT_EQ(engine_.stop(id).left.size(), 0u);
  EXPECT_FALSE(engine_.notifications().has_pending());
}

}  // namespace
}  // namespace errand
