// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "agent/events.h"

namespace errand::event {
namespace {

bool readable(const Queue& queue) {
  pollfd ready{queue.descriptor(), POLLIN, 0};
  return ::poll(&ready, 1, 0) == 1;
}

TEST(EventQueueTest, the_descriptor_is_readable_while_anything_is_queued) {
  Queue queue;
  EXPECT_FALSE(readable(queue));
  queue.push(TasksChange{});
  queue.push(NoticeAdded{"x", false});
  EXPECT_TRUE(readable(queue));
  const auto events = queue.drain();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<TasksChange>(events[0]));
  EXPECT_EQ(std::get<NoticeAdded>(events[1]).text, "x");
  EXPECT_FALSE(readable(queue));
  EXPECT_TRUE(queue.drain().empty());
}

TEST(EventQueueTest, many_writers_lose_nothing_and_keep_their_order) {
  Queue queue;
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&queue, w] {
      for (std::uint64_t i = 0; i < 500; ++i) queue.push(PermissionWithdrawn{static_cast<std::uint64_t>(w) * 1000 + i});
    });
  }
  std::vector<std::uint64_t> next(4, 0);
  std::size_t count = 0;
  while (count < 2000) {
    pollfd ready{queue.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 20000), 1);
    for (const auto& event : queue.drain()) {
      const std::uint64_t id = std::get<PermissionWithdrawn>(event).ask_id;
      EXPECT_EQ(id % 1000, next[id / 1000]++);
      ++count;
    }
  }
  for (auto& writer : writers) writer.join();
}

}  // namespace
}  // namespace errand::event
