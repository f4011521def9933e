// SPDX-License-Identifier: Apache-2.0
// What a snapshot says about times, and in which order an end shows itself.
#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"
#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

class SnapshotTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Engine engine_{test_config(folder_)};
};

TEST_F(SnapshotTest, StartAndEndAreWallClockAndTheDurationFits) {
  const std::int64_t before = wall_ms();
  const std::string id = launch(engine_, "sleep 0.2");
  const TaskSnapshot running = engine_.get(id);
  EXPECT_FALSE(running->finished_at_ms);
  const TaskSnapshot task = await_ended(engine_, id);
  const std::int64_t after = wall_ms();
  ASSERT_TRUE(task->finished_at_ms);
  EXPECT_LE(before, task->started_at_ms);
  EXPECT_LE(task->started_at_ms + 150, *task->finished_at_ms);
  EXPECT_LE(*task->finished_at_ms, after);
  EXPECT_GE(task->duration_ms, 150);
  EXPECT_EQ(engine_.get(id)->duration_ms, task->duration_ms) << "an ended task grows no older";
}

// Whoever hears of an end finds it in the record, the slot free, and the notification already there to be drained.
TEST_F(SnapshotTest, TheStateIsCommittedBeforeTheNotificationIsPushed) {
  std::atomic<int> heard = 0, early = 0;
  engine_.notifications().set_listener([&] {
    ++heard;
    for (const Notification& one : engine_.notifications().drain()) {
      const TaskSnapshot task = engine_.get(one.task_id);
      if (task->status == one.status && ending_text(*task) == one.message && engine_.running_count() == 0) continue;
      ++early;
      ADD_FAILURE() << one.message << ", the record says: " << ending_text(*task)
                    << ", running: " << engine_.running_count();
    }
  });
  const auto all_heard = [&](int count) { return eventually([&] { return heard == count; }); };
  for (const char* command : {"true", "exit 3", "kill -9 $$", "echo x"}) {
    const int before = heard;
    await_ended(engine_, launch(engine_, command));
    ASSERT_TRUE(all_heard(before + 1));
  }
  engine_.stop(launch(engine_, "sleep 1000"));
  ASSERT_TRUE(all_heard(5));
  await_ended(engine_, launch(engine_, request_of("true", "/no/such")));
  ASSERT_TRUE(all_heard(6));
  EXPECT_EQ(early, 0);
  engine_.notifications().set_listener({});
}

}  // namespace
}  // namespace errand
