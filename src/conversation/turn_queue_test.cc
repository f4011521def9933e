// SPDX-License-Identifier: Apache-2.0
#include "conversation/turn_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace errand {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TaskNotificationBlock notice(const std::string& id) {
  TaskNotificationBlock n;
  n.notice_id = "n-" + id;
  n.task_id = id;
  return n;
}

std::vector<std::string> ids(const std::vector<TaskNotificationBlock>& notices) {
  std::vector<std::string> out;
  for (const auto& n : notices) out.push_back(n.task_id);
  return out;
}

class TurnQueueTest : public testing::Test {
 protected:
  TurnQueue queue{TurnQueue::Options{}};
  std::int64_t now = 1000;

  bool wake(const std::string& id) { return queue.add_notice(notice(id), false, now); }
  bool by_hand(const std::string& id) { return queue.add_notice(notice(id), true, now); }
  // Something runs.
  void run_message() {
    queue.add_message("run");
    ASSERT_TRUE(queue.begin(now));
  }
  std::vector<std::string> abort() {
    bool active = false;
    return queue.abort(active, now - 1);
  }
};

TEST(QueueTableTest, every_cell) {
  using S = QueueState;
  using I = QueueInput;
  struct Cell {
    S from;
    I input;
    std::optional<S> to;
  };
  const Cell cells[] = {
      {S::idle, I::starter, S::dispatching},
      {S::idle, I::quiet, S::idle},
      {S::idle, I::begin, std::nullopt},
      {S::idle, I::drained, std::nullopt},
      {S::idle, I::end, std::nullopt},
      {S::idle, I::abort, S::idle},
      {S::dispatching, I::starter, S::dispatching},
      {S::dispatching, I::quiet, S::dispatching},
      {S::dispatching, I::begin, S::running},
      {S::dispatching, I::drained, S::idle},
      {S::dispatching, I::end, std::nullopt},
      {S::dispatching, I::abort, S::idle},
      {S::running, I::starter, S::running},
      {S::running, I::quiet, S::running},
      {S::running, I::begin, std::nullopt},
      {S::running, I::drained, S::running},
      {S::running, I::end, S::idle},
      {S::running, I::abort, S::running},
  };
  ASSERT_EQ(std::size(cells), static_cast<std::size_t>(kQueueStates * kQueueInputs));
  for (const Cell& cell : cells) {
    EXPECT_EQ(next_state(cell.from, cell.input), cell.to)
        << "state " << static_cast<int>(cell.from) << " input " << static_cast<int>(cell.input);
  }
}

// The same cells through the queue itself: what each call does in each state.
TEST_F(TurnQueueTest, idle_refuses_begin_fold_and_end) {
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_FALSE(queue.due());
  EXPECT_FALSE(queue.begin(now));
  EXPECT_THAT(queue.fold(now), IsEmpty());
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::idle);
  bool active = true;
  EXPECT_THAT(queue.abort(active, now - 1), IsEmpty());
  EXPECT_FALSE(active);
  EXPECT_THAT(queue.mark_shown({"bg-9"}), IsEmpty());
  EXPECT_EQ(queue.state(), QueueState::idle);
}

TEST_F(TurnQueueTest, one_dispatch_at_a_time) {
  queue.add_message("a");
  queue.add_message("b");
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  EXPECT_EQ(queue.begin(now)->message, "a");
  EXPECT_EQ(queue.state(), QueueState::running);
  EXPECT_FALSE(queue.begin(now));
  EXPECT_THAT(queue.queued(), ElementsAre("b"));
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  EXPECT_EQ(queue.begin(now)->message, "b");
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::idle);
}

TEST_F(TurnQueueTest, a_window_of_50_ms_fixed_from_the_first_notice_gathers_others) {
  wake("bg-1");
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  EXPECT_EQ(queue.due(), 1050);
  now = 1030;
  wake("bg-2");
  EXPECT_EQ(queue.due(), 1050);
  now = 1049;
  EXPECT_FALSE(queue.begin(now));
  wake("bg-3");
  now = 1050;
  const auto turn = queue.begin(now);
  ASSERT_TRUE(turn);
  EXPECT_THAT(ids(turn->notices), ElementsAre("bg-1", "bg-2", "bg-3"));
  EXPECT_FALSE(turn->message);
  EXPECT_FALSE(turn->bang);
}

TEST_F(TurnQueueTest, a_message_inside_the_window_starts_the_turn_at_once_notices_first) {
  wake("bg-1");
  now = 1010;
  queue.add_message("hello");
  const auto turn = queue.begin(now);
  ASSERT_TRUE(turn);
  EXPECT_THAT(ids(turn->notices), ElementsAre("bg-1"));
  EXPECT_EQ(turn->message, "hello");
}

TEST_F(TurnQueueTest, a_bang_inside_the_window_waits_for_the_turn_of_the_notices) {
  wake("bg-1");
  queue.add_bang("ls");
  EXPECT_FALSE(queue.begin(now));
  now = 1050;
  const auto turn = queue.begin(now);
  EXPECT_THAT(ids(turn->notices), ElementsAre("bg-1"));
  EXPECT_FALSE(turn->bang);
  queue.end();
  const auto bang = queue.begin(now);
  EXPECT_EQ(bang->bang, "ls");
  EXPECT_THAT(bang->notices, IsEmpty());
}

TEST_F(TurnQueueTest, a_bang_before_the_notice_goes_first_and_counts_as_busy) {
  queue.add_bang("ls");
  wake("bg-1");
  EXPECT_EQ(queue.begin(now)->bang, "ls");
  now = 1100;
  wake("bg-2");
  queue.add_message("later");
  EXPECT_EQ(queue.state(), QueueState::running);
  queue.end();
  const auto turn = queue.begin(now);
  EXPECT_THAT(ids(turn->notices), ElementsAre("bg-1", "bg-2"));
  EXPECT_EQ(turn->message, "later");
}

TEST_F(TurnQueueTest, busy_they_wait_and_all_fold_before_messages_that_were_queued_earlier) {
  run_message();
  queue.add_message("typed while busy");
  wake("bg-1");
  now = 1020;
  by_hand("bg-2");
  EXPECT_EQ(queue.due(), 1050);
  EXPECT_THAT(queue.fold(1049), IsEmpty());
  EXPECT_THAT(ids(queue.fold(1050)), ElementsAre("bg-1", "bg-2"));
  EXPECT_THAT(queue.fold(1050), IsEmpty());
  EXPECT_EQ(queue.state(), QueueState::running);
  queue.end();
  const auto turn = queue.begin(1050);
  EXPECT_THAT(turn->notices, IsEmpty());
  EXPECT_EQ(turn->message, "typed while busy");
}

TEST_F(TurnQueueTest, ends_of_tasks_started_by_hand_go_with_the_next_turn) {
  by_hand("bg-1");
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_FALSE(queue.due());
  queue.add_message("hello");
  const auto turn = queue.begin(now);
  EXPECT_THAT(ids(turn->notices), ElementsAre("bg-1"));
  by_hand("bg-2");
  EXPECT_FALSE(queue.due()) << "they fold into no pass of their own";
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::idle);
  wake("bg-3");
  now = 1050;
  EXPECT_THAT(ids(queue.begin(now)->notices), ElementsAre("bg-2", "bg-3"));
}

TEST_F(TurnQueueTest, a_bang_takes_no_notice_along) {
  by_hand("bg-1");
  queue.add_bang("ls");
  const auto turn = queue.begin(now);
  EXPECT_EQ(turn->bang, "ls");
  EXPECT_THAT(turn->notices, IsEmpty());
  EXPECT_TRUE(queue.has_notices());
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::idle);
}

TEST(TurnQueueOptionsTest, wake_for_user_tasks_wakes_for_them_too) {
  TurnQueue queue({.has_model = true, .wake_for_user_tasks = true});
  queue.add_notice(notice("bg-1"), true, 0);
  EXPECT_EQ(queue.state(), QueueState::dispatching);
}

TEST(TurnQueueOptionsTest, without_a_model_nothing_wakes) {
  TurnQueue queue({.has_model = false, .wake_for_user_tasks = true});
  queue.add_notice(notice("bg-1"), false, 0);
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_FALSE(queue.due());
  queue.add_bang("ls");
  EXPECT_EQ(queue.begin(0)->bang, "ls");
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_TRUE(queue.has_notices());
}

TEST_F(TurnQueueTest, an_aborted_turn_folds_nothing_and_never_restarts_itself) {
  run_message();
  queue.add_message("a");
  queue.add_bang("b");
  wake("bg-1");
  bool active = false;
  EXPECT_THAT(queue.abort(active, now - 1), ElementsAre("a", "!b"));
  EXPECT_TRUE(active);
  EXPECT_TRUE(queue.aborted());
  now = 2000;
  EXPECT_FALSE(queue.due());
  EXPECT_THAT(queue.fold(now), IsEmpty());
  queue.end();
  EXPECT_FALSE(queue.aborted());
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_TRUE(queue.has_notices()) << "what is pending goes with the next turn";
  queue.add_message("next");
  EXPECT_THAT(ids(queue.begin(now)->notices), ElementsAre("bg-1"));
}

TEST_F(TurnQueueTest, a_task_that_ends_after_the_abort_starts_a_turn_and_takes_what_was_pending_along) {
  run_message();
  wake("bg-1");
  abort();
  now = 1010;
  wake("bg-2");  // while the aborted turn unwinds
  EXPECT_THAT(queue.fold(2000), IsEmpty()) << "not a further pass of the aborted turn";
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  EXPECT_EQ(queue.due(), 1060);
  EXPECT_THAT(ids(queue.begin(1060)->notices), ElementsAre("bg-1", "bg-2"));
}

TEST_F(TurnQueueTest, what_is_typed_after_the_abort_starts_the_next_turn) {
  run_message();
  abort();
  queue.add_message("second thoughts");
  EXPECT_EQ(queue.state(), QueueState::running);
  queue.end();
  EXPECT_EQ(queue.begin(now)->message, "second thoughts");
  EXPECT_FALSE(queue.aborted()) << "the new turn is not the aborted one";
}

TEST_F(TurnQueueTest, an_abort_inside_the_window_keeps_the_notice_for_the_next_turn) {
  wake("bg-1");
  bool active = false;
  EXPECT_THAT(queue.abort(active, now - 1), IsEmpty());
  EXPECT_TRUE(active);
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_FALSE(queue.begin(5000));
  EXPECT_TRUE(queue.has_notices());
}

TEST_F(TurnQueueTest, what_ended_before_the_abort_wakes_nothing_however_late_its_notice_comes) {
  run_message();
  bool active = false;
  queue.abort(active, now);
  queue.end();
  wake("bg-1");  // its record took a while
  EXPECT_EQ(queue.state(), QueueState::idle);
  now += 1;
  wake("bg-2");
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  EXPECT_THAT(ids(queue.begin(now + 50)->notices), ElementsAre("bg-1", "bg-2"));
}

TEST_F(TurnQueueTest, an_abort_before_the_dispatch_returns_the_message) {
  queue.add_message("a");
  EXPECT_THAT(abort(), ElementsAre("a"));
  EXPECT_EQ(queue.state(), QueueState::idle);
  EXPECT_FALSE(queue.begin(now));
}

TEST_F(TurnQueueTest, what_the_model_has_read_already_is_dropped) {
  run_message();
  wake("bg-1");
  wake("bg-2");
  EXPECT_THAT(ids(queue.mark_shown({"bg-1", "bg-7"})), ElementsAre("bg-1"));
  EXPECT_THAT(ids(queue.fold(2000)), ElementsAre("bg-2"));
}

TEST_F(TurnQueueTest, a_notice_that_comes_after_the_model_has_read_the_end_is_not_queued) {
  run_message();
  EXPECT_THAT(queue.mark_shown({"bg-1"}), IsEmpty());
  EXPECT_FALSE(wake("bg-1"));
  EXPECT_TRUE(wake("bg-2"));
  EXPECT_THAT(ids(queue.fold(2000)), ElementsAre("bg-2"));
}

TEST_F(TurnQueueTest, when_all_that_would_wake_is_read_nothing_starts) {
  wake("bg-1");
  EXPECT_THAT(ids(queue.mark_shown({"bg-1"})), ElementsAre("bg-1"));
  EXPECT_EQ(queue.state(), QueueState::idle);
  run_message();
  wake("bg-2");
  queue.mark_shown({"bg-2"});
  EXPECT_EQ(queue.state(), QueueState::running);
  queue.end();
  EXPECT_EQ(queue.state(), QueueState::idle);
}

TEST_F(TurnQueueTest, the_window_goes_on_from_the_next_when_the_first_was_read) {
  wake("bg-1");
  now = 1040;
  wake("bg-2");
  queue.mark_shown({"bg-1"});
  EXPECT_EQ(queue.state(), QueueState::dispatching);
  EXPECT_EQ(queue.due(), 1090);
}

TEST_F(TurnQueueTest, while_a_question_is_open_notifications_wait) {
  wake("bg-1");
  queue.set_question_open(true);
  EXPECT_FALSE(queue.due());
  EXPECT_FALSE(queue.begin(5000));
  queue.set_question_open(false);
  EXPECT_TRUE(queue.begin(5000));
  wake("bg-2");
  queue.set_question_open(true);
  EXPECT_THAT(queue.fold(9000), IsEmpty());
  queue.set_question_open(false);
  EXPECT_THAT(ids(queue.fold(9000)), ElementsAre("bg-2"));
}

}  // namespace
}  // namespace errand
