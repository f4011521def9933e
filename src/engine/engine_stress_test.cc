// SPDX-License-Identifier: Apache-2.0
// Many launches with random cancels from several threads: counts stay exact and nothing is left.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

struct Counter : EngineListener {
  std::mutex mutex;
  std::map<std::string, int> started, ended;
  bool order = true;
  void on_task_started(const TaskSnapshot& task) override {
    const std::lock_guard lock(mutex);
    ++started[task->id];
  }
  void on_task_ended(const TaskSnapshot& task) override {
    const std::lock_guard lock(mutex);
    order = order && started[task->id] == 1;
    ++ended[task->id];
  }
  void on_task_changed(const TaskSnapshot& task) override {
    const std::lock_guard lock(mutex);
    order = order && ended[task->id] == 1;
  }
};

TEST(StressTest, TwoThousandLaunchesWithRandomCancelsFromEightThreads) {
  constexpr int kEach = kSanitized ? 50 : 250;
  constexpr int kThreads = 8;
  const TemporaryFolder folder;
  const int descriptors = open_descriptors();
  Counter counter;
  std::vector<Notification> notices;
  std::atomic<int> launched{0}, cancels{0}, over{0};
  {
    EngineConfig config = test_config(folder);
    config.max_concurrent_background = 24;
    config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
    config.max_survivor_tasks = 0;
    Engine engine(config, &counter);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(thread));
        const char* const commands[] = {
            "true", "exit 7", "echo hello", "sleep 1000", "sleep 0.01", "echo a; sleep 1000 & true", "kill -9 $$"};
        for (int i = 0; i < kEach; ++i) {
          const std::size_t which = random() % std::size(commands);
          LaunchResult result = engine.launch(request_of(commands[which]));
          while (std::holds_alternative<Rejected>(result)) {
            std::this_thread::sleep_for(2ms);
            result = engine.launch(request_of(commands[which]));
          }
          ++launched;
          if (engine.running_count() > 24) ++over;
          const std::string id = std::get<Launched>(result).id;
          switch (random() % 3) {
            case 0:
              cancels += engine.cancel(id);
              break;
            case 1:
              engine.stop(id);
              break;
            default:
              if (which == 3) cancels += engine.cancel(id);
              break;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(eventually([&] {
      for (const TaskSnapshot& task : engine.list()) {
        if (task->status == TaskStatus::running) return false;
      }
      return true;
    }));
    EXPECT_EQ(engine.running_count(), 0);
    EXPECT_EQ(engine.list().size(), static_cast<std::size_t>(kEach * kThreads));
    notices = engine.notifications().drain();
    EXPECT_TRUE(engine.close().left.empty());
    EXPECT_FALSE(engine.notifications().has_pending());
  }
  EXPECT_EQ(launched, kEach * kThreads);
  EXPECT_EQ(over, 0);
  std::set<std::string> ids;
  for (const Notification& notice : notices) ids.insert(notice.task_id);
  EXPECT_EQ(notices.size(), static_cast<std::size_t>(kEach * kThreads));
  EXPECT_EQ(ids.size(), notices.size());
  EXPECT_EQ(counter.started.size(), ids.size());
  EXPECT_EQ(counter.ended.size(), ids.size());
  for (const auto& [id, count] : counter.ended) EXPECT_EQ(count, 1) << id;
  EXPECT_TRUE(counter.order);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_TRUE(own_children().empty());
  EXPECT_TRUE(eventually([&] { return processes_with("ERRAND_TEST_MARK=" + folder.path()).empty(); }));
}

TEST(StressTest, ParallelLaunchesCannotExceedTheLimit) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  std::atomic<int> launched{0}, rejected{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        (std::holds_alternative<Launched>(engine.launch(request_of("sleep 1000"))) ? launched : rejected)++;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(launched, 5);
  EXPECT_EQ(rejected, 75);
  EXPECT_EQ(engine.running_count(), 5);
}

TEST(StressTest, HundredsOfTasksEndWithTheSession) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 300;
  config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2000) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 2000);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  Engine engine(config);
  for (int i = 0; i < 300; ++i) launch(engine, "exec sleep 1000");
  EXPECT_EQ(engine.running_count(), 300);
  EXPECT_TRUE(engine.close().left.empty());
  EXPECT_TRUE(processes_with("ERRAND_TEST_MARK=" + folder.path()).empty());
  EXPECT_EQ(engine.notifications().drain().size(), 300u);
}

// A session that is closed while others launch refuses or ends every one of them.
TEST(StressTest, CloseWhileOthersLaunch) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = 1000;
  config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
  Counter counter;
  Engine engine(config, &counter);
  std::atomic<int> launched{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (std::holds_alternative<Launched>(engine.launch(request_of("sleep 1000")))) ++launched;
    });
  }
  while (launched < 20) std::this_thread::yield();
  EXPECT_TRUE(engine.close().left.empty());
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return processes_with("ERRAND_TEST_MARK=" + folder.path()).empty(); }));
  EXPECT_EQ(engine.notifications().drain().size(), static_cast<std::size_t>(launched));
  EXPECT_EQ(engine.running_count(), 0);
  EXPECT_EQ(counter.ended.size(), static_cast<std::size_t>(launched));
}

}  // namespace
}  // namespace errand
