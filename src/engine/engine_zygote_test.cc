// SPDX-License-Identifier: Apache-2.0
// Zygotes that die or are stopped while tasks start, run and end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

class ZygoteTest : public ::testing::Test {
 protected:
  ZygoteTest() {
    config_ = test_config(folder_);
    config_.environment = {{"ERRAND_TEST_MARK", folder_.path()}};
    config_.max_concurrent_background = 500;
  }
  ~ZygoteTest() override {
    EXPECT_TRUE(eventually([this] { return living().empty(); }));
  }
  std::vector<pid_t> living() const { return processes_with("ERRAND_TEST_MARK=" + folder_.path()); }
  // The one that serves this process now. After several short lives there is none until the next launch.
  static pid_t zygote(Engine& engine) {
    pid_t found = 0;
    EXPECT_TRUE(eventually([&] {
      const auto all = zygotes_of();
      if (all.empty()) await_ended(engine, launch(engine, "true"));
      found = all.size() == 1 ? all.front() : 0;
      return found != 0;
    }));
    return found;
  }
  // Never a group, never everybody.
  static bool send(pid_t pid, int signal) { return pid > 1 && ::kill(pid, signal) == 0; }
  static void expect_said(Engine& engine, const std::string& id, const std::string& text) {
    const TaskSnapshot task = await_ended(engine, id);
    EXPECT_EQ(ending_text(*task), "completed (exit code 0)") << id;
    EXPECT_EQ(output_of(engine, id), text) << id;
    EXPECT_EQ(read_file(task->output_file), text) << id;
  }

  TemporaryFolder folder_;
  EngineConfig config_;
};

// The start said `could not start: fork: Connection reset by peer`, though nothing had been wrong with it.
TEST_F(ZygoteTest, AStartThatFallsIntoTheZygotesDeathIsMadeAnew) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  const pid_t first = zygote(engine);
  ASSERT_TRUE(send(first, SIGSTOP));
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(launch(engine, "echo hello"));  // all but a spare's wait in its queue
  ASSERT_TRUE(send(first, SIGKILL));
  for (const std::string& id : ids) expect_said(engine, id, "hello\n");
  EXPECT_NE(zygote(engine), first);
  EXPECT_EQ(engine.notifications().drain().size(), 11u);
}

TEST_F(ZygoteTest, StartsWhileTheZygoteIsKilledAgainAndAgain) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const pid_t victim = zygote(engine);
    std::vector<std::string> ids;
    // At any moment of a start: before, while and after its keeper is forked.
    std::thread killer([victim, pause = random() % 1500] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      send(victim, SIGKILL);
    });
    for (int i = 0; i < 4; ++i) ids.push_back(launch(engine, "echo hello; echo $((6 * 7))"));
    killer.join();
    ids.push_back(launch(engine, "echo hello; echo $((6 * 7))"));
    for (const std::string& id : ids) expect_said(engine, id, "hello\n42\n");
    ASSERT_TRUE(eventually([&] { return !process_exists(victim); }));
  }
  EXPECT_EQ(engine.running_count(), 0);
  EXPECT_EQ(engine.notifications().drain().size(), engine.list().size());
}

TEST_F(ZygoteTest, AStartThatIsStoppedBeforeAnybodyReadItIsNotMadeAnew) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  const pid_t first = zygote(engine);
  ASSERT_TRUE(send(first, SIGSTOP));
  const std::string note = folder_ / "note";
  launch(engine, "true");  // takes the spare
  const std::string id = launch(engine, "echo x >" + note);
  EXPECT_TRUE(engine.cancel(id));
  ASSERT_TRUE(send(first, SIGKILL));
  EXPECT_EQ(engine.stop(id).task->status, TaskStatus::cancelled);
  expect_said(engine, launch(engine, "echo later"), "later\n");
  EXPECT_FALSE(file_exists(note));
}

}  // namespace
}  // namespace errand
