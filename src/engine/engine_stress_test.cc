// SPDX-License-Identifier: Apache-2.0
// Many launches with random cancels from several threads: counts stay exact and nothing is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string_view>
#include <thread>

#include "base/fd.h"
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

// ERRAND_STRESS=full asks for all of it; a sample else.
bool full() {
  const char* const stress = std::getenv("ERRAND_STRESS");
  return stress != nullptr && std::string_view(stress) == "full";
}

// What the heap holds, in all arenas and in mappings of their own.
std::size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Raises or lowers the soft limit of descriptors for the time of a test.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t wanted) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = std::min(limit.rlim_max, wanted);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

bool none_runs(Engine& engine) {
  for (const TaskSnapshot& task : engine.list()) {
    if (task->status == TaskStatus::running) return false;
  }
  return true;
}

struct Tally {
  std::atomic<int> launched{0}, over{0};
};

constexpr int kSlots = 24;

void launch_and_cancel(Engine& engine, int count, unsigned seed, Tally& tally) {
  std::mt19937 random(seed);
  const char* const commands[] = {
      "true", "exit 7", "echo hello", "sleep 1000", "sleep 0.01", "echo a; sleep 1000 & true", "kill -9 $$"};
  for (int i = 0; i < count; ++i) {
    const std::size_t which = random() % std::size(commands);
    LaunchResult result = Rejected{};
    const auto is_launched = [&] {
      result = engine.launch(request_of(commands[which]));
      return std::holds_alternative<Launched>(result);
    };
    if (!eventually(is_launched)) return;  // the count tells
    ++tally.launched;
    if (engine.running_count() > kSlots) ++tally.over;
    const std::string id = std::get<Launched>(result).id;
    switch (random() % 3) {
      case 0:
        engine.cancel(id);
        break;
      case 1:
        engine.stop(id);
        break;
      default:
        if (which == 3) engine.cancel(id);
        break;
    }
  }
}

void launch_from_eight_threads(Engine& engine, int count, Tally& tally) {
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back(launch_and_cancel, std::ref(engine), count / kThreads, static_cast<unsigned>(thread),
                         std::ref(tally));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(StressTest, TenThousandLaunchesWithRandomCancelsFromEightThreads) {
  const int count = kSanitized ? (full() ? 2000 : 400) : full() ? 10000 : 1000;
  const TemporaryFolder folder;
  const int descriptors = open_descriptors();
  Counter counter;
  std::vector<Notification> notices;
  Tally tally;
  {
    EngineConfig config = test_config(folder);
    config.max_concurrent_background = kSlots;
    config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
    config.max_survivor_tasks = 0;
    Engine engine(config, &counter);
    launch_from_eight_threads(engine, count, tally);
    ASSERT_TRUE(eventually([&] { return none_runs(engine); }));
    EXPECT_EQ(engine.running_count(), 0);
    EXPECT_EQ(engine.list().size(), static_cast<std::size_t>(count));
    notices = engine.notifications().drain();
    EXPECT_TRUE(engine.close().left.empty());
    EXPECT_FALSE(engine.notifications().has_pending());
  }
  EXPECT_EQ(tally.launched, count);
  EXPECT_EQ(tally.over, 0);
  std::set<std::string> ids;
  for (const Notification& notice : notices) ids.insert(notice.task_id);
  EXPECT_EQ(notices.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(ids.size(), notices.size());
  EXPECT_EQ(counter.started.size(), ids.size());
  EXPECT_EQ(counter.ended.size(), ids.size());
  for (const auto& [id, times] : counter.ended) EXPECT_EQ(times, 1) << id;
  EXPECT_TRUE(counter.order);
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_TRUE(own_children().empty());
  EXPECT_TRUE(eventually([&] { return processes_with("ERRAND_TEST_MARK=" + folder.path()).empty(); }));
}

// Nothing grows but the records of what has ended, and these by 2 KiB each at most.
TEST(StressTest, AnEndedTaskKeepsTwoKibibytesAtMost) {
  if (kSanitized) GTEST_SKIP() << "the sanitizers' heap is another";
  const int count = full() ? 4000 : 800;
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = kSlots;
  config.max_survivor_tasks = 0;
  Engine engine(config);
  Tally tally;
  const auto batch = [&](int launches) {
    launch_from_eight_threads(engine, launches, tally);
    for (const TaskSnapshot& task : engine.list()) {
      if (!task->processes.empty()) engine.stop(task->id);
    }
    ASSERT_TRUE(eventually([&] { return none_runs(engine); }));
    engine.notifications().drain();
  };
  batch(200);  // what is there once
  // Buffers come and go: what the lowest of some looks finds is what stays.
  const auto lowest = [] {
    std::size_t least = heap_bytes();
    for (int i = 0; i < 50; ++i) {
      std::this_thread::sleep_for(10ms);
      least = std::min(least, heap_bytes());
    }
    return least;
  };
  const std::size_t before = lowest();
  batch(count);
  const std::size_t after = lowest();
  EXPECT_LE(after, before + static_cast<std::size_t>(count) * 2048)
      << (after - before) / static_cast<std::size_t>(count) << " bytes a task";
  RecordProperty("bytes_a_task", static_cast<int>((after - before) / static_cast<std::size_t>(count)));
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

constexpr int kThousand = kSanitized ? 200 : 1000;

// Each waits for the pipe's writer, so all of them run before the first one ends.
TEST(StressTest, AThousandTasksAtOnceEndAndAreNotifiedWithin8192Descriptors) {
  const TemporaryFolder folder;
  const DescriptorLimit limit(8192);
  const std::string gate = folder / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = kThousand;
  config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
  Engine engine(config);
  for (int i = 0; i < kThousand; ++i) launch(engine, "echo ready; read line < '" + gate + "'; exit 3");
  EXPECT_EQ(engine.running_count(), kThousand);
  const auto ready = [&] {
    for (const TaskSnapshot& task : engine.list()) {
      if (task->output_bytes == 0) return false;
    }
    return true;
  };
  ASSERT_TRUE(eventually(ready, 120s));
  EXPECT_EQ(engine.running_count(), kThousand);
  const auto ended = [&] {
    const UniqueFd opened(::open(gate.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));  // who opens it next goes on
    return none_runs(engine);
  };
  ASSERT_TRUE(eventually(ended, 120s));
  for (const TaskSnapshot& task : engine.list()) EXPECT_EQ(ending_text(*task), "failed (exit code 3)") << task->id;
  EXPECT_EQ(engine.notifications().drain().size(), static_cast<std::size_t>(kThousand));
  EXPECT_TRUE(engine.close().left.empty());
  EXPECT_TRUE(processes_with("ERRAND_TEST_MARK=" + folder.path()).empty());
}

// close() answers within 30 s; what it had not ended by then would be left.
TEST(StressTest, AThousandTasksEndWithTheSession) {
  const TemporaryFolder folder;
  const DescriptorLimit limit(8192);
  EngineConfig config = test_config(folder);
  config.max_concurrent_background = kThousand;
  config.environment = {{"ERRAND_TEST_MARK", folder.path()}};
  Engine engine(config);
  for (int i = 0; i < kThousand; ++i) launch(engine, "exec sleep 1000");
  EXPECT_EQ(engine.running_count(), kThousand);
  EXPECT_TRUE(engine.close().left.empty());
  EXPECT_TRUE(processes_with("ERRAND_TEST_MARK=" + folder.path()).empty());
  EXPECT_EQ(engine.notifications().drain().size(), static_cast<std::size_t>(kThousand));
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
