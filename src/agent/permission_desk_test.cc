// SPDX-License-Identifier: Apache-2.0
#include "agent/permission_desk.h"

#include <gtest/gtest.h>

#include <thread>

#include "agent/session_testing.h"

namespace errand {
namespace {

class PermissionDeskTest : public testing::Test {
 protected:
  PermissionQuery query(std::string command) { return {ActionKind::command, "bash", std::move(command), "/p", "main"}; }
  // Answers the next question.
  std::jthread answering(PermissionDesk& desk, Answer answer, std::string reason = "") {
    return std::jthread([this, &desk, answer, reason](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        for (const auto& event : events.drain()) {
          if (const auto* asked = std::get_if<event::PermissionAsked>(&event)) {
            question = *asked;
            desk.answer(asked->ask_id + 1, Answer::always, "not mine");
            desk.answer(asked->ask_id, answer, reason);
            return;
          }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }

  event::Queue events;
  PermissionPipeline pipeline{PermissionMode::default_mode};
  event::PermissionAsked question;
  std::vector<bool> opened;
  std::function<void(bool)> on_question = [this](bool open) { opened.push_back(open); };
};

TEST_F(PermissionDeskTest, once_allows_and_asks_again) {
  PermissionDesk desk(pipeline, events, true, on_question);
  {
    auto thread = answering(desk, Answer::once);
    EXPECT_TRUE(desk.rule(query("make test"), {}).allowed);
  }
  EXPECT_EQ(question.query.subject, "make test");
  EXPECT_FALSE(question.always_pattern.empty());
  EXPECT_EQ(opened, (std::vector<bool>{true, false}));
  auto thread = answering(desk, Answer::no);
  EXPECT_FALSE(desk.rule(query("make test"), {}).allowed);
}

TEST_F(PermissionDeskTest, always_allows_the_pattern_from_then_on) {
  PermissionDesk desk(pipeline, events, true, on_question);
  {
    auto thread = answering(desk, Answer::always);
    EXPECT_TRUE(desk.rule(query("make test"), {}).allowed);
  }
  EXPECT_TRUE(desk.rule(query("make test"), {}).allowed);
  EXPECT_EQ(opened.size(), 2u) << "asked once only";
}

TEST_F(PermissionDeskTest, no_passes_the_reason_on_to_the_model) {
  PermissionDesk desk(pipeline, events, true, on_question);
  auto thread = answering(desk, Answer::no, "use ninja");
  const auto ruling = desk.rule(query("make test"), {});
  EXPECT_FALSE(ruling.allowed);
  EXPECT_EQ(ruling.refusal, "Permission denied by the user: use ninja. It was not run.");
}

TEST_F(PermissionDeskTest, with_nobody_to_ask_it_is_denied_with_a_reason) {
  PermissionDesk desk(pipeline, events, false, on_question);
  const auto ruling = desk.rule(query("make test"), {});
  EXPECT_FALSE(ruling.allowed);
  EXPECT_TRUE(ruling.refusal.starts_with(
      "Permission denied: this needs the user's permission, and there is nobody to ask here"))
      << ruling.refusal;
  EXPECT_TRUE(events.drain().empty());
}

TEST_F(PermissionDeskTest, a_denied_command_tells_why) {
  PermissionDesk desk(pipeline, events, true, on_question);
  EXPECT_EQ(pipeline.add_deny("bash(make*)"), "");
  const auto ruling = desk.rule(query("make test"), {});
  EXPECT_FALSE(ruling.allowed);
  EXPECT_TRUE(ruling.refusal.starts_with("Permission denied by ")) << ruling.refusal;
}

TEST_F(PermissionDeskTest, an_abort_withdraws_the_question) {
  PermissionDesk desk(pipeline, events, true, on_question);
  std::stop_source stop;
  std::jthread aborting([&] {
    EXPECT_TRUE(testing_support::eventually([&] {
      for (const auto& event : events.drain()) {
        if (std::holds_alternative<event::PermissionAsked>(event)) return true;
      }
      return false;
    }));
    stop.request_stop();
  });
  const auto ruling = desk.rule(query("make test"), stop.get_token());
  EXPECT_FALSE(ruling.allowed);
  EXPECT_EQ(ruling.refusal, "");
  aborting.join();
  const auto after = events.drain();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<event::PermissionWithdrawn>(after[0]));
  EXPECT_EQ(opened, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace errand
