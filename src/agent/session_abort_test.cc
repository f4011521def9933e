// SPDX-License-Identifier: Apache-2.0
// An abort in every phase leaves a legal history, no process, and nothing that starts by itself. The fake model checks
// each request; the next message proves that the session goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "agent/session_testing.h"

namespace errand {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class SessionAbort : public SessionTest {
 protected:
  // Aborts, waits for the end of the turn, and sends one more message, which must be answered.
  void abort_and_go_on(std::size_t requests_before) {
    EXPECT_TRUE(session().abort());
    ASSERT_TRUE(becomes_idle());
    EXPECT_EQ(script->count(), requests_before) << "nothing restarts by itself";
    EXPECT_THAT(all<event::TurnAborted>(), SizeIs(1));
    EXPECT_TRUE(eventually([&] { return session().engine().running_count() > 0 || processes_of_project() == 0; }));
    session().submit("next");
    ASSERT_TRUE(eventually([&] { return script->count() == requests_before + 1 && session().idle(); }));
    EXPECT_THAT(newest_text(script->last()), HasSubstr("next"));
  }
};

TEST_F(SessionAbort, nothing_runs) {
  start([](const ModelRequest&, ModelObserver&, std::stop_token) -> ModelResult { return say("ok"); });
  EXPECT_FALSE(session().abort());
  EXPECT_THAT(all<event::TurnAborted>(), IsEmpty());
  finish();
}

TEST_F(SessionAbort, while_connecting) {
  Gate gate;
  start([&](const ModelRequest& request, ModelObserver&, std::stop_token stop) -> ModelResult {
    if (newest_text(request) != "go\n") return say("ok");
    gate.wait(stop);
    return ModelFailure{true, "aborted", {}};
  });
  session().submit("go");
  ASSERT_TRUE(eventually([&] { return gate.reached(); }));
  abort_and_go_on(1);
  finish();
  EXPECT_THAT(records("aborted"), SizeIs(1));
}

TEST_F(SessionAbort, while_streaming_keeps_the_text) {
  Gate gate;
  start([&](const ModelRequest& request, ModelObserver& observer, std::stop_token stop) -> ModelResult {
    if (newest_text(request) != "go\n") return say("ok");
    observer.on_text("I was say");
    gate.wait(stop);
    return ModelFailure{true, "aborted", {TextBlock{"I was say"}}};
  });
  session().submit("go");
  EXPECT_EQ(next<event::AssistantContentUpdated>().text_delta, "I was say");
  ASSERT_TRUE(eventually([&] { return gate.reached(); }));
  session().submit("queued");
  session().submit_bang("ls");
  EXPECT_TRUE(session().abort());
  EXPECT_FALSE(session().abort()) << "the second while the first unwinds";
  EXPECT_THAT(next<event::TurnAborted>().returned, ElementsAre("queued", "!ls"));
  ASSERT_TRUE(becomes_idle());
  EXPECT_EQ(script->count(), 1u);
  session().submit("next");
  ASSERT_TRUE(eventually([&] { return script->count() == 2 && session().idle(); }));
  const auto turns = script->last().turns;
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(std::get<TextBlock>(turns[1].parts[0]).text, "I was say");
  EXPECT_THAT(all_text(script->last()), Not(HasSubstr("queued")));
  finish();
}

TEST_F(SessionAbort, in_a_tool_ends_its_whole_tree_and_the_rest_never_runs) {
  start([&](const ModelRequest& request, ModelObserver&, std::stop_token) -> ModelResult {
    if (newest_text(request) != "go\n") return say("ok");
    return call({use("bash", {{"command", "touch begun; setsid sleep 1000 & (trap '' TERM; sleep 1000)"}}),
                 use("bash", {{"command", "touch ran"}}), use("background_bash", {{"command", "touch ran"}})});
  });
  session().submit("go");
  ASSERT_TRUE(eventually([&] { return ::access((project + "/begun").c_str(), F_OK) == 0; }));
  abort_and_go_on(1);
  EXPECT_EQ(processes_of_project(), 0);
  EXPECT_NE(::access((project + "/ran").c_str(), F_OK), 0);
  const std::string text = newest_text(script->last());
  EXPECT_EQ(count_of(text, "borted by the user"), 3) << text;
  finish();
}

TEST_F(SessionAbort, in_a_question_withdraws_it) {
  options.permission_mode = PermissionMode::default_mode;
  start([&](const ModelRequest& request, ModelObserver&, std::stop_token) -> ModelResult {
    if (newest_text(request) != "go\n") return say("ok");
    return call({use("bash", {{"command", "touch ran"}}), use("bash", {{"command", "touch ran"}})});
  });
  session().submit("go");
  const auto asked = next<event::PermissionAsked>();
  abort_and_go_on(1);
  EXPECT_EQ(next<event::PermissionWithdrawn>().ask_id, asked.ask_id);
  session().answer(asked.ask_id, Answer::once, "");  // late: ignored
  EXPECT_THAT(all<event::PermissionAsked>(), SizeIs(1));
  EXPECT_NE(::access((project + "/ran").c_str(), F_OK), 0);
  finish();
}

TEST_F(SessionAbort, with_a_notice_pending_it_stays_for_the_next_turn) {
  Gate gate;
  start([&](const ModelRequest& request, ModelObserver&, std::stop_token stop) -> ModelResult {
    const std::string text = newest_text(request);
    if (text == "go\n") return call({use("background_bash", {{"command", until("go")}})});
    if (text.find("Background task started") != std::string::npos && text.find("next") == std::string::npos) {
      gate.wait(stop);
      return ModelFailure{true, "aborted", {}};
    }
    return say("ok");
  });
  session().submit("go");
  ASSERT_TRUE(eventually([&] { return gate.reached(); }));
  release("go");
  ASSERT_TRUE(eventually([&] { return !session().waits_for_tasks(true); }));
  abort_and_go_on(2);
  const std::string text = newest_text(script->last());
  EXPECT_EQ(count_of(text, "<task-notification>"), 1);
  EXPECT_LT(text.find("<task-notification>"), text.find("next"));
  finish();
}

TEST_F(SessionAbort, a_task_that_ends_after_the_abort_starts_a_turn_and_takes_the_pending_along) {
  Gate gate;
  start([&](const ModelRequest& request, ModelObserver&, std::stop_token stop) -> ModelResult {
    const std::string text = newest_text(request);
    if (text == "go\n") {
      return call({use("background_bash", {{"command", until("first")}}),
                   use("background_bash", {{"command", until("second")}})});
    }
    if (text.find("<task-notification>") != std::string::npos) return say("ok");
    gate.wait(stop);
    return ModelFailure{true, "aborted", {}};
  });
  session().submit("go");
  ASSERT_TRUE(eventually([&] { return gate.reached(); }));
  release("first");
  // Its notice may still be on its way: what ended before the abort is quiet all the same.
  ASSERT_TRUE(eventually([&] { return session().engine().notifications().has_pending(); }));
  ASSERT_TRUE(eventually([&] { return records("task_end").size() == 1; }));
  EXPECT_TRUE(session().abort());
  ASSERT_TRUE(becomes_idle());
  release("second");
  ASSERT_TRUE(eventually([&] { return session().finished(true); }));
  ASSERT_EQ(script->count(), 3u);
  EXPECT_EQ(count_of(newest_text(script->last()), "<task-notification>"), 2);
  finish();
}

TEST_F(SessionAbort, of_a_bang_ends_its_whole_tree_and_says_so) {
  start([&](const ModelRequest&, ModelObserver&, std::stop_token) -> ModelResult { return say("ok"); });
  session().submit_bang("echo begun; setsid sleep 1000 & (trap '' TERM; sleep 1000)");
  EXPECT_THAT(next<event::BangOutput>().text, HasSubstr("begun"));
  EXPECT_FALSE(session().idle()) << "a running !cmd counts as busy";
  abort_and_go_on(0);
  EXPECT_EQ(processes_of_project(), 0);
  EXPECT_THAT(newest_text(script->last()), HasSubstr("begun\n(aborted)"));
  finish();
}

TEST_F(SessionAbort, what_survives_a_bang_is_adopted_and_named_and_notified_of_no_more) {
  start([&](const ModelRequest&, ModelObserver&, std::stop_token) -> ModelResult { return say("ok"); });
  session().submit_bang("sleep 1000 & echo hi");
  const auto bang = std::get<BangBlock>(next<event::UserMessageAdded>().message.blocks[0]);
  EXPECT_EQ(bang.output, "hi");
  EXPECT_THAT(bang.ending, HasSubstr("exit code 0; 1 process still running as bg-1: "));
  ASSERT_TRUE(eventually([&] { return session().finished(true); }));
  EXPECT_EQ(script->count(), 0u);
  session().submit("next");
  ASSERT_TRUE(eventually([&] { return script->count() == 1 && session().idle(); }));
  EXPECT_THAT(all_text(script->requests()[0]), Not(HasSubstr("<task-notification>")));
  EXPECT_EQ(session().stop_task("bg-1").ended, 1);
  finish();
}

TEST_F(SessionAbort, a_big_output_of_a_bang_is_head_and_tail_with_the_path_of_the_whole) {
  start_without_model();
  session().submit_bang("seq 1 100000");
  const auto bang = std::get<BangBlock>(next<event::UserMessageAdded>().message.blocks[0]);
  EXPECT_TRUE(bang.output.starts_with("1\n2\n"));
  EXPECT_TRUE(bang.output.ends_with("\n100000"));
  EXPECT_LT(bang.output.size(), 31000u);
  EXPECT_THAT(bang.output, HasSubstr("the whole output is in " + root));
  session().submit_bang("  ");
  EXPECT_THAT(next<event::NoticeAdded>().text, HasSubstr("command must not be blank"));
  finish();
}

}  // namespace
}  // namespace errand
