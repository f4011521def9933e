// SPDX-License-Identifier: Apache-2.0
// The waiter without an engine: what happens to its subscriptions, and ports whose owners cannot be had at will.
#include "engine/waiter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/output.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using End = WaitResult::End;
using Outcome = WaitAnswer::Outcome;

// A table with one running task whose keeper is said to be process 1; nothing runs.
class WaiterTest : public ::testing::Test {
 protected:
  WaiterTest() {
    LaunchRequest request;
    request.command = "x";
    auto opened = table_.open(request, false, [this](const std::string&) { return output_; });
    serial_ = std::get<TaskTable::Opened>(opened).serial;
    table_.begin_start(serial_);
    table_.end_launch(serial_);
    table_.keeper_started(serial_, 1);
  }

  WaitResult wait_port(const std::vector<PortState>& states, std::chrono::milliseconds timeout = 30s) {
    WaitRequest request;
    request.ids = {"bg-1"};
    request.until.kind = WaitUntil::Kind::port;
    request.until.port = 80;
    request.timeout = timeout;
    looks_ = 0;
    return wait_for_tasks(table_, request, {}, [&](pid_t keeper, std::uint16_t port) {
      EXPECT_EQ(keeper, 1);
      EXPECT_EQ(port, 80);
      return states[std::min(looks_++, states.size() - 1)];
    });
  }

  EngineConfig config_;
  NotificationQueue notifications_;
  TaskTable table_{config_, notifications_};
  std::shared_ptr<Output> output_ = std::make_shared<Output>(config_.max_output_chars, nullptr);
  Serial serial_ = 0;
  std::size_t looks_ = 0;
};

TEST_F(WaiterTest, APortWhoseOwnerCannotBeReadSaysSo) {
  const WaitResult result = wait_port({PortState::closed, PortState::unknown});
  EXPECT_EQ(result.end, End::happened);
  EXPECT_EQ(wait_text(result, result.answers[0]), "port open, owner unknown");
}

TEST_F(WaiterTest, AStrangerIsBelievedAtTheSecondLook) {
  EXPECT_EQ(wait_port({PortState::stranger, PortState::own}).answers[0].outcome, Outcome::port_open)
      << "the socket was on its way from a process to its child";
  EXPECT_EQ(wait_port({PortState::stranger, PortState::stranger}).answers[0].outcome, Outcome::port_held);
}

TEST_F(WaiterTest, AStrangerThatComesLaterDoesNotEndTheWait) {
  const WaitResult result = wait_port({PortState::closed, PortState::stranger, PortState::stranger, PortState::own});
  EXPECT_EQ(result.answers[0].outcome, Outcome::port_open);
  const WaitResult late = wait_port({PortState::closed, PortState::stranger}, 350ms);
  EXPECT_EQ(wait_text(late, late.answers[0]),
            "timed out, still running; port 80 is held by a process that is not the task's");
}

TEST_F(WaiterTest, PortsAreLookedAtTenTimesASecond) {
  wait_port({PortState::closed}, 950ms);
  EXPECT_LE(looks_, 11u) << "at 0, 100, ... 900, and at the end";
  EXPECT_GE(looks_, 2u);
}

TEST(PortClockTest, TenTimesASecondForTenSecondsThenTwice) {
  const std::chrono::steady_clock::time_point start(1h);
  PortClock clock(start);
  int fast = 0, slow = 0;
  for (auto time = 0ms; time < 20s; time += 10ms) {
    if (clock.due(start + time)) ++(time < 10s ? fast : slow);
  }
  EXPECT_EQ(fast, 100);
  EXPECT_EQ(slow, 20);
}

TEST_F(WaiterTest, NoWaitLeavesASubscriptionOrAListener) {
  WaitRequest request;
  request.ids = {"bg-1", "bg-1"};
  request.timeout = 0ms;
  for (const auto kind : {WaitUntil::Kind::exit, WaitUntil::Kind::pattern, WaitUntil::Kind::port}) {
    request.until = {kind, "x", 80, 0ms};
    wait_for_tasks(table_, request, {}, [](pid_t, std::uint16_t) { return PortState::closed; });
  }
  EXPECT_EQ(table_.subscriptions(), 0u);
  EXPECT_EQ(output_->listeners(), 0u);
}

TEST_F(WaiterTest, AgentsAndWorkflowsKnowExitOnly) {
  for (const TaskKind task : {TaskKind::agent, TaskKind::workflow}) {
    EXPECT_TRUE(can_be_waited_for(task, WaitUntil::Kind::exit));
    EXPECT_FALSE(can_be_waited_for(task, WaitUntil::Kind::pattern));
    EXPECT_FALSE(can_be_waited_for(task, WaitUntil::Kind::port));
    EXPECT_FALSE(can_be_waited_for(task, WaitUntil::Kind::quiet));
  }
  EXPECT_TRUE(can_be_waited_for(TaskKind::shell, WaitUntil::Kind::pattern));
  WaitResult result;
  EXPECT_EQ(wait_text(result, {"agent-1", Outcome::exit_only, nullptr, "", false}),
            "agents and workflows can be waited for until exit only");
}

}  // namespace
}  // namespace errand
