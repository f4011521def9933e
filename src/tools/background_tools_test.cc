// SPDX-License-Identifier: Apache-2.0
// The model's background tools but background_wait, on real processes, every text byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "tools/tools_testing.h"

namespace errand {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using testing::ToolFixture;

std::string started(const std::string& id, const ToolFixture& fixture) {
  return "Background task started: " + id +
         "\nRead what it prints with background_output, end it with background_stop (task_id: \"" + id +
         "\").\nDo other work or end your turn: a notification comes by itself when it ends, so do not poll. If you "
         "cannot go on before it ends, prints a line, opens a port or falls silent, use background_wait.\n"
         "Its whole output is written to " +
         fixture.root() + "/session/tasks/" + id + ".output";
}

// ---- BackgroundBashToolTest

TEST(BackgroundBashToolTest, MissingCommandIsAnError) {
  ToolFixture fixture;
  const ToolResult result = fixture.run("background_bash", "{}");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "missing required argument: command (string)");
  EXPECT_THAT(fixture.engine->list(), IsEmpty());
}

TEST(BackgroundBashToolTest, LaunchReturnsIdAndUsage) {
  ToolFixture fixture;
  const ToolResult result = fixture.run("background_bash", R"({"command": "sleep 1000"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, started("bg-1", fixture));
  EXPECT_THAT(result.ends_shown, IsEmpty());
  EXPECT_EQ(fixture.engine->get("bg-1")->status, TaskStatus::running);
}

TEST(BackgroundBashToolTest, ConcurrencyLimitIsAnError) {
  ToolFixture fixture(2);
  fixture.launch("sleep 1000");
  fixture.launch("sleep 1000");
  const ToolResult result = fixture.run("background_bash", R"({"command": "true"})");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "max concurrent background tasks (2) reached; wait for existing tasks to finish or stop them");
}

TEST(BackgroundBashToolTest, TooManyTasksWithSurvivorsAreAnError) {
  ToolFixture fixture;
  for (int i = 1; i <= 20; ++i) fixture.await_ended(fixture.launch("sleep 1000 & true"));
  const ToolResult result = fixture.run("background_bash", R"({"command": "true"})");
  EXPECT_TRUE(result.is_error);
  EXPECT_THAT(result.text, StartsWith("20 ended tasks still have processes running; stop some: bg-1, bg-2, "));
}

TEST(BackgroundBashToolTest, BlankCommandIsAnErrorAndAsksNobody) {
  ToolFixture fixture;
  const ToolResult result = fixture.run("background_bash", R"({"command": " \n\t"})");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "command must not be blank");
  EXPECT_FALSE(
      fixture.registry.prepare("background_bash", json::object{{"command", " "}}, *fixture.context).permission);
}

TEST(BackgroundBashToolTest, ATaskThatEndsWithinTheWindowAnswersWithItsOutput) {
  ToolFixture fixture;
  fixture.context->start_window_ms = 30000;
  const ToolResult good = fixture.run("background_bash", R"({"command": "echo hello"})");
  EXPECT_FALSE(good.is_error);
  EXPECT_EQ(good.text, "Background task bg-1 has ended.\nTask bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\nhello");
  EXPECT_THAT(good.ends_shown, ElementsAre("bg-1"));
  const ToolResult bad = fixture.run("background_bash", R"({"command": "echo no; exit 7"})");
  EXPECT_TRUE(bad.is_error);
  EXPECT_EQ(bad.text, "Background task bg-2 has ended.\nTask bg-2 is FAILED.\nExit code: 7\n\nOutput:\nno");
}

TEST(BackgroundBashToolTest, TheSameCommandRunningIsNamed) {
  ToolFixture fixture;
  fixture.context->start_window_ms = 0;
  fixture.run("background_bash", R"({"command": "sleep 1000"})");
  EXPECT_EQ(fixture.run("background_bash", R"({"command": "sleep 1000"})").text,
            started("bg-2", fixture) + "\nAlso running with the same command: bg-1");
  EXPECT_EQ(fixture.run("background_bash", R"({"command": "sleep 1000"})").text,
            started("bg-3", fixture) + "\nAlso running with the same command: bg-1, bg-2");
  EXPECT_EQ(fixture.run("background_bash", R"({"command": "sleep 1001"})").text, started("bg-4", fixture));
}

// `server & true` is over at once; the server is not.
TEST(BackgroundBashToolTest, TheSameCommandWhoseProcessesLiveIsNamed) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("sleep 1000 & sleep 0.5"));
  fixture.context->start_window_ms = 0;
  EXPECT_EQ(fixture.run("background_bash", R"({"command": "sleep 1000 & sleep 0.5"})").text,
            started("bg-2", fixture) + "\nAlso running with the same command: bg-1");
}

TEST(BackgroundBashToolTest, FolderServiceTimeoutAndPermission) {
  ToolFixture fixture;
  fixture.context->start_window_ms = 30000;
  EXPECT_EQ(fixture.run("background_bash", R"({"command": "pwd", "cwd": "sub"})").text,
            "Background task bg-1 has ended.\nTask bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\n" + fixture.project() +
                "/sub");
  const ToolResult missing = fixture.run("background_bash", R"({"command": "pwd", "cwd": "/does/not/exist"})");
  EXPECT_TRUE(missing.is_error);
  EXPECT_THAT(missing.text, HasSubstr("Error: could not start: chdir \"/does/not/exist\": No such file or directory"));
  const ToolResult late =
      fixture.run("background_bash", R"({"command": "sleep 1000", "timeout_ms": 1000, "service": true})");
  EXPECT_TRUE(late.is_error);
  EXPECT_EQ(late.text,
            "Background task bg-3 has ended.\nTask bg-3 is FAILED.\nError: timed out after 1 s\n\nOutput:\n(none yet)");
  EXPECT_THAT(fixture.context->service_tasks, ElementsAre("bg-3"));

  const PreparedCall call =
      fixture.registry.prepare("background_bash", json::object{{"command", "make"}, {"cwd", "sub"}}, *fixture.context);
  ASSERT_TRUE(call.permission);
  EXPECT_EQ(call.permission->kind, ActionKind::command);
  EXPECT_EQ(call.permission->subject, "make");
  EXPECT_EQ(call.permission->folder, fixture.project() + "/sub");
  EXPECT_FALSE(call.read_only);
}

// ---- BackgroundOutputToolTest

TEST(BackgroundOutputToolTest, MissingTaskIdIsAnError) {
  ToolFixture fixture;
  const ToolResult result = fixture.run("background_output", "{}");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "missing required argument: task_id (string)");
}

TEST(BackgroundOutputToolTest, UnknownIdIsAnError) {
  ToolFixture fixture;
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-9"})").text, "task not found: bg-9 (known: none)");
  fixture.launch("true");
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-9"})").text, "task not found: bg-9 (known: bg-1)");
  fixture.launch("true");
  const ToolResult result = fixture.run("background_output", R"({"task_id": "bg-9"})");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "task not found: bg-9 (known: bg-1, bg-2)");
}

TEST(BackgroundOutputToolTest, CompletedReturnsOutputAndNoError) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("printf 'one\\ntwo\\n\\n  \\n'"));
  const ToolResult result = fixture.run("background_output", R"({"task_id": "bg-1"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, "Task bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\none\ntwo");
  EXPECT_THAT(result.ends_shown, ElementsAre("bg-1"));
}

TEST(BackgroundOutputToolTest, FailedIsAnErrorWithTheExitCode) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("exit 7"));
  const ToolResult result = fixture.run("background_output", R"({"task_id": "bg-1"})");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "Task bg-1 is FAILED.\nExit code: 7\n\nOutput:\n(none yet)");
}

TEST(BackgroundOutputToolTest, ASignalIsNamedAsOne) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("kill -9 $$"));
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-1"})").text,
            "Task bg-1 is FAILED.\nSignal: 9 (SIGKILL)\n\nOutput:\n(none yet)");
}

TEST(BackgroundOutputToolTest, RunningReportsStatusAndTimes) {
  ToolFixture fixture;
  const std::string id = fixture.launch("sleep 1000");
  const std::regex quiet("Task bg-1 is RUNNING\\.\nRunning for [0-9]+ s, no output yet\\.\n\nOutput:\n\\(none yet\\)");
  ToolResult result = fixture.run("background_output", R"({"task_id": "bg-1"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_TRUE(std::regex_match(result.text, quiet)) << result.text;
  EXPECT_THAT(result.ends_shown, IsEmpty());

  fixture.launch("echo ready; sleep 1000");
  ASSERT_TRUE(fixture.await_output("bg-2", "ready"));
  const std::regex loud("Task bg-2 is RUNNING\\.\nRunning for [0-9]+ s, last output [0-9]+ s ago\\.\n\nOutput:\nready");
  result = fixture.run("background_output", R"({"task_id": "bg-2"})");
  EXPECT_TRUE(std::regex_match(result.text, loud)) << result.text;
}

TEST(BackgroundOutputToolTest, TailLinesLimitsTheLines) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("seq 1 100"));
  const std::string head = "Task bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\n";
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-1", "tail_lines": 2})").text, head + "99\n100");
  EXPECT_THAT(fixture.run("background_output", R"({"task_id": "bg-1"})").text, StartsWith(head + "51\n52\n"));
  EXPECT_THAT(fixture.run("background_output", R"({"task_id": "bg-1", "tail_lines": 0})").text,
              StartsWith(head + "1\n2\n"));
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-1", "tail_lines": -1})").text,
            "argument out of range: tail_lines (expected 0 to 1000000, got -1)");
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-1", "tail_lines": "5"})").text,
            "wrong type of argument: tail_lines (expected integer, got string)");
}

TEST(BackgroundOutputToolTest, WhatWasDroppedIsSaid) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("seq 1 100000"));
  const std::string text = fixture.run("background_output", R"({"task_id": "bg-1", "tail_lines": 1})").text;
  EXPECT_EQ(text, "Task bg-1 is COMPLETED.\nExit code: 0\n(output was truncated; showing tail)\n\nOutput:\n100000");
}

TEST(BackgroundOutputToolTest, ACursorShowsWhatIsNew) {
  ToolFixture fixture;
  const std::string gate = fixture.root() + "/gate";
  const std::string wait = "while [ ! -e " + gate + " ]; do sleep 0.02; done; ";
  fixture.launch("printf 'one\\ntwo\\nthr'; " + wait + "printf 'ee\\nfour'; exit 7");
  ASSERT_TRUE(testing::eventually([&] { return fixture.engine->get("bg-1")->output_bytes == 11; }));
  const auto read = [&](std::uint64_t cursor) {
    const ToolResult result =
        fixture.run("background_output", R"({"task_id": "bg-1", "cursor": )" + std::to_string(cursor) + "}");
    return std::regex_replace(result.text, std::regex("[0-9]+ s"), "N s");
  };
  const std::string head = "Task bg-1 is RUNNING.\nRunning for N s, last output N s ago.\n\nOutput:\n";
  EXPECT_EQ(read(0), head + "one\ntwo\n(unfinished) thr\nNext cursor: 8");
  EXPECT_EQ(read(4), head + "two\n(unfinished) thr\nNext cursor: 8");
  EXPECT_EQ(read(8), head + "(unfinished) thr\nNext cursor: 8");
  std::ofstream{gate};
  fixture.engine->wait_end("bg-1", std::chrono::seconds(30));
  const std::string ended = "Task bg-1 is FAILED.\nExit code: 7\n\nOutput:\n";
  EXPECT_EQ(read(8), ended + "three\n(unfinished) four\nNext cursor: 14");
  const ToolResult result = fixture.run("background_output", R"({"task_id": "bg-1", "cursor": 14})");
  EXPECT_TRUE(result.is_error);
  EXPECT_THAT(result.ends_shown, ElementsAre("bg-1"));
}

TEST(BackgroundOutputToolTest, ACursorSaysWhatWasDropped) {
  ToolFixture fixture;
  fixture.launch("seq 100000 150000");
  fixture.engine->wait_end("bg-1", std::chrono::seconds(30));
  const ToolResult result = fixture.run("background_output", R"({"task_id": "bg-1", "cursor": 7})");
  EXPECT_THAT(result.text, StartsWith("Task bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\n(284466 bytes dropped)\n14"));
  EXPECT_THAT(result.text, HasSubstr("150000\nNext cursor: 350007"));
  const ToolResult nothing = fixture.run("background_output", R"({"task_id": "bg-1", "cursor": 350007})");
  EXPECT_EQ(nothing.text, "Task bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\n(none yet)\nNext cursor: 350007");
}

TEST(BackgroundOutputToolTest, CursorAndTailLinesExcludeEachOther) {
  ToolFixture fixture;
  fixture.launch("echo x");
  const ToolResult both = fixture.run("background_output", R"({"task_id": "bg-1", "cursor": 0, "tail_lines": 5})");
  EXPECT_TRUE(both.is_error);
  EXPECT_EQ(both.text, "give either cursor or tail_lines, not both");
  EXPECT_TRUE(fixture.run("background_output", R"({"task_id": "bg-1", "cursor": -1})").is_error);
  EXPECT_TRUE(fixture.run("background_output", R"({"task_id": "bg-1", "cursor": "x"})").is_error);
}

TEST(BackgroundOutputToolTest, WhatATerminalWouldShowIsShown) {
  ToolFixture fixture;
  fixture.launch("printf 'real\\n\\033[32m10%%\\r\\033[K99%%\\033[0m\\ndone\\n'");
  fixture.engine->wait_end("bg-1", std::chrono::seconds(30));
  const ToolResult result = fixture.run("background_output", R"({"task_id": "bg-1"})");
  EXPECT_EQ(result.text, "Task bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\nreal\n99%\ndone");
}

TEST(BackgroundOutputToolTest, SurvivorsAreNamedOneAndTwo) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("sleep 1111 & echo hi"));
  std::string text = fixture.run("background_output", R"({"task_id": "bg-1"})").text;
  EXPECT_TRUE(std::regex_match(
      text, std::regex("Task bg-1 is COMPLETED\\.\nExit code: 0\nStill running: [0-9]+ sleep 1111\n\nOutput:\nhi")))
      << text;
  fixture.await_ended(fixture.launch("sleep 1112 & sleep 1113 & wait -n 999999; true"));
  text = fixture.run("background_output", R"({"task_id": "bg-2"})").text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\nStill running: [0-9]+ sleep 111[23], [0-9]+ sleep 111[23]\n")))
      << text;
}

TEST(BackgroundOutputToolTest, AForegroundCommandAndAnotherConversationsTaskAreNotFound) {
  ToolFixture fixture;
  LaunchRequest request;
  request.command = "sleep 1000";
  fixture.engine->launch_foreground(std::move(request));
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "fg-1"})").text, "task not found: fg-1 (known: none)");
  fixture.launch("sleep 1000");
  fixture.context->owner = "agent-1";
  EXPECT_EQ(fixture.run("background_output", R"({"task_id": "bg-1"})").text, "task not found: bg-1 (known: none)");
  EXPECT_EQ(fixture.run("background_stop", R"({"task_id": "bg-1"})").text, "task not found: bg-1 (known: none)");
  EXPECT_EQ(fixture.run("background_list", "{}").text, "No background tasks.");
  EXPECT_EQ(fixture.engine->get("bg-1")->status, TaskStatus::running);
}

// ---- BackgroundStopToolTest

TEST(BackgroundStopToolTest, MissingTaskIdIsAnError) {
  ToolFixture fixture;
  const ToolResult result = fixture.run("background_stop", "{}");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "missing required argument: task_id (string)");
}

TEST(BackgroundStopToolTest, UnknownIdIsAnError) {
  ToolFixture fixture;
  fixture.launch("true");
  const ToolResult result = fixture.run("background_stop", R"({"task_id": "bg-9"})");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "task not found: bg-9 (known: bg-1)");
}

TEST(BackgroundStopToolTest, StopsARunningTaskOfOneAndOfTwoProcesses) {
  ToolFixture fixture;
  fixture.launch("exec sleep 1000");
  ToolResult result = fixture.run("background_stop", R"({"task_id": "bg-1"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, "Task bg-1 stopped: 1 process ended.");
  EXPECT_EQ(fixture.engine->get("bg-1")->status, TaskStatus::cancelled);
  EXPECT_THAT(result.ends_shown, ElementsAre("bg-1"));

  fixture.launch("sleep 1000 & echo $!; wait");
  ASSERT_TRUE(fixture.await_output("bg-2", "\n"));
  const pid_t child = std::stoi(fixture.engine->tail("bg-2", 0)->text);
  result = fixture.run("background_stop", R"({"task_id": "bg-2"})");
  EXPECT_EQ(result.text, "Task bg-2 stopped: 2 processes ended.");
  EXPECT_FALSE(testing::process_exists(child));
  EXPECT_EQ(fixture.run("background_stop", R"({"task_id": "bg-2"})").text,
            "Task bg-2 has already finished (CANCELLED); nothing to stop.");
}

TEST(BackgroundStopToolTest, StoppingAFinishedTaskIsANoOpAndNoError) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("true"));
  ToolResult result = fixture.run("background_stop", R"({"task_id": "bg-1"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, "Task bg-1 has already finished (COMPLETED); nothing to stop.");
  fixture.await_ended(fixture.launch("exit 2"));
  result = fixture.run("background_stop", R"({"task_id": "bg-2"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, "Task bg-2 has already finished (FAILED); nothing to stop.");
}

TEST(BackgroundStopToolTest, SurvivorsOfAFinishedTaskAreEnded) {
  ToolFixture fixture;
  fixture.await_ended(fixture.launch("sleep 1000 & true"));
  ToolResult result = fixture.run("background_stop", R"({"task_id": "bg-1"})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, "Task bg-1 had already finished (COMPLETED); 1 remaining process ended.");
  fixture.await_ended(fixture.launch("sleep 1000 & sleep 1000 & true"));
  EXPECT_EQ(fixture.run("background_stop", R"({"task_id": "bg-2"})").text,
            "Task bg-2 had already finished (COMPLETED); 2 remaining processes ended.");
}

TEST(BackgroundStopToolTest, AsksNoPermissionOfAnybody) {
  ToolFixture fixture;
  fixture.launch("sleep 1000");
  const PreparedCall call =
      fixture.registry.prepare("background_stop", json::object{{"task_id", "bg-1"}}, *fixture.context);
  ASSERT_TRUE(call.permission);
  EXPECT_EQ(PermissionPipeline(PermissionMode::plan).decide(*call.permission).verdict, Verdict::allow);
}

// ---- BackgroundListToolTest

TEST(BackgroundListToolTest, ListsTasksWithTheirEnds) {
  ToolFixture fixture;
  EXPECT_EQ(fixture.run("background_list", "{}").text, "No background tasks.");
  fixture.launch("sleep 1000");
  EXPECT_EQ(fixture.run("background_list", "{}").text, "Background tasks (1):\n  bg-1  [RUNNING]  sleep 1000");
  fixture.await_ended(fixture.launch("exit 2"));
  fixture.await_ended(fixture.launch("kill -9 $$"));
  fixture.await_ended(fixture.launch("true 12345678901234567890123456789012345678901234567890\nfalse; true"));
  fixture.await_ended(fixture.launch("sleep 1000 & true"));
  const ToolResult result = fixture.run("background_list", "{}");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text,
            "Background tasks (5):\n"
            "  bg-1  [RUNNING]  sleep 1000\n"
            "  bg-2  [FAILED]  exit 2  exit=2\n"
            "  bg-3  [FAILED]  kill -9 $$  signal=9\n"
            "  bg-4  [COMPLETED]  true 123456789012345678901234567890123456789012345...  exit=0\n"
            "  bg-5  [COMPLETED]  sleep 1000 & true  exit=0  (1 still running)");
  EXPECT_THAT(result.ends_shown, ElementsAre("bg-2", "bg-3", "bg-4", "bg-5"));
}

}  // namespace
}  // namespace errand
