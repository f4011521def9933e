// SPDX-License-Identifier: Apache-2.0
#include "errand/notification_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace errand {
namespace {

Notification notice(const std::string& id) { return {id, TaskStatus::completed, "completed (exit code 0)", 1}; }

TEST(NotificationQueueTest, DrainKeepsTheOrder) {
  NotificationQueue queue;
  for (const char* id : {"bg-3", "bg-1", "bg-2"}) queue.push(notice(id));
  const auto drained = queue.drain();
  ASSERT_EQ(drained.size(), 3u);
  EXPECT_EQ(drained[0].task_id, "bg-3");
  EXPECT_EQ(drained[1].task_id, "bg-1");
  EXPECT_EQ(drained[2].task_id, "bg-2");
}

TEST(NotificationQueueTest, DrainEmptiesTheQueue) {
  NotificationQueue queue;
  queue.push(notice("bg-1"));
  EXPECT_EQ(queue.drain().size(), 1u);
  EXPECT_TRUE(queue.drain().empty());
}

TEST(NotificationQueueTest, DrainOfAnEmptyQueueIsEmpty) { EXPECT_TRUE(NotificationQueue().drain().empty()); }

TEST(NotificationQueueTest, HasPendingFollowsTheQueue) {
  NotificationQueue queue;
  EXPECT_FALSE(queue.has_pending());
  queue.push(notice("bg-1"));
  EXPECT_TRUE(queue.has_pending());
  queue.drain();
  EXPECT_FALSE(queue.has_pending());
}

TEST(NotificationQueueTest, HundredConcurrentPushesAreAllDrained) {
  NotificationQueue queue;
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i) threads.emplace_back([&queue, i] { queue.push(notice("bg-" + std::to_string(i))); });
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> ids;
  for (const Notification& one : queue.drain()) ids.insert(one.task_id);
  EXPECT_EQ(ids.size(), 100u);
}

TEST(NotificationQueueTest, TheListenerIsCalledForEachPushAndMayDrain) {
  NotificationQueue queue;
  std::atomic<int> seen{0};
  queue.set_listener([&] { seen += static_cast<int>(queue.drain().size()); });
  queue.push(notice("bg-1"));
  queue.push(notice("bg-2"));
  EXPECT_EQ(seen, 2);
  queue.set_listener(nullptr);
  queue.push(notice("bg-3"));
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace errand
