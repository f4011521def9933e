// SPDX-License-Identifier: Apache-2.0
// Every notice counts exactly once, whatever ends, is typed, aborted or stopped at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "agent/session_testing.h"

namespace errand {
namespace {

using namespace testing_support;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

class SessionStress : public SessionTest {};

TEST_F(SessionStress, every_notice_is_delivered_or_read_exactly_once_under_random_ends_aborts_and_submits) {
  options.engine.max_concurrent_background = 40;
  const auto until_time = steady_clock::now() + std::chrono::seconds(4);
  std::mutex random_mutex;
  std::mt19937 random(20260101);
  const auto dice = [&](int sides) {
    const std::lock_guard lock(random_mutex);
    return std::uniform_int_distribution<int>(0, sides - 1)(random);
  };
  const auto short_command = [&] {
    return "sleep 0.0" + std::to_string(dice(10)) + "; exit " + std::to_string(dice(3));
  };
  std::atomic<bool> over{false};
  start([&](const ModelRequest&, ModelObserver& observer, std::stop_token stop) -> ModelResult {
    if (over) return say("ok");
    observer.on_text("x");
    for (int i = dice(4); i > 0 && !stop.stop_requested(); --i) std::this_thread::sleep_for(milliseconds(5));
    if (stop.stop_requested()) return ModelFailure{true, "aborted", {TextBlock{"x"}}};
    switch (dice(5)) {
      case 0:
        return call({use("background_bash", {{"command", short_command()}}), use("background_list", {})});
      case 1:
        return call({use("background_list", {}), use("bash", {{"command", "sleep 0.03"}})});
      case 2:
        return ModelFailure{false, "broken", {}};
      case 3:
        return call({use("background_bash", {{"command", short_command()}})});
      default:
        return say("ok");
    }
  });
  {
    std::vector<std::jthread> users;
    users.emplace_back([&] {
      while (steady_clock::now() < until_time) {
        session().submit("hello");
        std::this_thread::sleep_for(milliseconds(dice(60)));
      }
    });
    users.emplace_back([&] {
      while (steady_clock::now() < until_time) {
        std::this_thread::sleep_for(milliseconds(dice(120)));
        session().abort();
      }
    });
    users.emplace_back([&] {
      while (steady_clock::now() < until_time) {
        session().run_by_hand(short_command());
        if (dice(4) == 0) session().submit_bang("sleep 0.02 & echo hi");
        std::this_thread::sleep_for(milliseconds(dice(80)));
      }
    });
    users.emplace_back([&] {
      while (steady_clock::now() < until_time) {
        std::this_thread::sleep_for(milliseconds(dice(100)));
        const auto tasks = session().engine().list();
        if (!tasks.empty() && dice(3) == 0) session().engine().cancel(tasks.back()->id);
      }
    });
  }
  over = true;
  ASSERT_TRUE(eventually([&] { return session().finished(true); }, 60));
  // One quiet turn more takes what was left pending along.
  session().submit("the last");
  ASSERT_TRUE(eventually([&] { return session().finished(true); }));
  const std::string last_request = all_text(script->last());
  finish();

  std::map<std::string, int> in_messages, settled;
  std::set<std::string> notices;
  int read = 0;
  for (const auto& record : records()) {
    const std::string type = *get_string(record, "type");
    if (type == "task_end") {
      if (const auto* notice = get_object(record, "notice")) {
        EXPECT_TRUE(notices.insert(*get_string(*notice, "notice_id")).second);
        EXPECT_NE(get_string(record, "status"), "CANCELLED");
      } else {
        EXPECT_EQ(get_string(record, "status"), "CANCELLED");
      }
    } else if (type == "notification") {
      ++settled[*get_string(record, "notice_id")];
      EXPECT_TRUE(notices.count(*get_string(record, "notice_id"))) << "settled before its task_end";
      read += get_string(record, "outcome") == "read" ? 1 : 0;
    } else if (type == "message") {
      std::string error;
      const auto message = message_from_json(record, error);
      ASSERT_TRUE(message) << error;
      for (const Block& block : message->blocks) {
        if (const auto* notice = std::get_if<TaskNotificationBlock>(&block)) {
          EXPECT_TRUE(message->is_meta);
          EXPECT_EQ(message->blocks.size(), 1u);
          ++in_messages[notice->notice_id];
          EXPECT_EQ(count_of(last_request, "<task-id>" + notice->task_id + "</task-id>"), 1);
        }
      }
    }
  }
  EXPECT_GT(notices.size(), 20u);
  EXPECT_EQ(settled.size(), notices.size());
  for (const auto& [id, count] : settled) EXPECT_EQ(count, 1) << id;
  for (const auto& [id, count] : in_messages) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(in_messages.size() + static_cast<std::size_t>(read), notices.size());
}

}  // namespace
}  // namespace errand
