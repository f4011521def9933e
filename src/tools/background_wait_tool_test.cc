// SPDX-License-Identifier: Apache-2.0
// background_wait on real processes, every text byte for byte.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <regex>

#include "base/fd.h"
#include "tools/tools_testing.h"

namespace errand {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ToolFixture;

// "Running for 12 s, last output 3 s ago." differs from run to run.
std::string without_times(const std::string& text) {
  return std::regex_replace(text, std::regex("Running for .*"), "Running for ...");
}

TEST(BackgroundWaitToolTest, AnEndIsAnsweredWithStatusAndTail) {
  ToolFixture fixture;
  fixture.launch("echo hello");
  fixture.launch("echo no; exit 7");
  const ToolResult good = fixture.run("background_wait", R"({"task_ids": ["bg-1"], "timeout_ms": 30000})");
  EXPECT_FALSE(good.is_error);
  EXPECT_EQ(good.text, "bg-1: completed (exit code 0)\n\nTask bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\nhello");
  EXPECT_THAT(good.ends_shown, ElementsAre("bg-1"));
  const ToolResult both = fixture.run("background_wait", R"({"task_ids": ["bg-1", "bg-2"], "timeout_ms": 30000})");
  EXPECT_TRUE(both.is_error) << "FAILED is an error, as in background_output";
  EXPECT_EQ(both.text,
            "bg-1: completed (exit code 0)\nbg-2: failed (exit code 7)\n\n"
            "Task bg-1 is COMPLETED.\nExit code: 0\n\nOutput:\nhello\n\n"
            "Task bg-2 is FAILED.\nExit code: 7\n\nOutput:\nno");
  EXPECT_THAT(both.ends_shown, ElementsAre("bg-1", "bg-2"));
}

TEST(BackgroundWaitToolTest, TheTailIsShort) {
  ToolFixture fixture;
  fixture.launch("seq 1 30");
  const ToolResult result = fixture.run("background_wait", R"({"task_ids": ["bg-1"], "timeout_ms": 30000})");
  EXPECT_THAT(result.text, HasSubstr("Output:\n11\n12\n"));
  EXPECT_TRUE(result.text.ends_with("\n30"));
}

TEST(BackgroundWaitToolTest, StillRunningIsNoErrorAndShowsNoEnd) {
  ToolFixture fixture;
  fixture.launch("sleep 1000");
  fixture.launch("true");
  fixture.await_ended("bg-2");
  const ToolResult result = fixture.run("background_wait", R"({"task_ids": ["bg-1"], "timeout_ms": 20})");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(without_times(result.text), "bg-1: timed out, still running\n\nTask bg-1 is RUNNING.\nRunning for ...");
  EXPECT_THAT(result.ends_shown, IsEmpty());
  const ToolResult any =
      fixture.run("background_wait", R"({"task_ids": ["bg-1", "bg-2", "bg-1"], "mode": "any", "timeout_ms": 30000})");
  EXPECT_EQ(without_times(any.text),
            "bg-1: still running\nbg-2: completed (exit code 0)\n\nTask bg-1 is RUNNING.\nRunning for ...\n\n"
            "Task bg-2 is COMPLETED.\nExit code: 0\n\nOutput:\n(none yet)");
  EXPECT_THAT(any.ends_shown, ElementsAre("bg-2"));
}

TEST(BackgroundWaitToolTest, APatternThatWasPrintedBeforeTheCallIsFound) {
  ToolFixture fixture;
  fixture.launch("echo ready on 3000; sleep 1000");
  ASSERT_TRUE(fixture.await_output("bg-1", "ready"));
  const ToolResult result = fixture.run(
      "background_wait", R"({"task_ids": ["bg-1"], "until": "pattern", "pattern": "on \\d+", "timeout_ms": 0})");
  EXPECT_EQ(without_times(result.text), "bg-1: matched: ready on 3000\n\nTask bg-1 is RUNNING.\nRunning for ...");
}

TEST(BackgroundWaitToolTest, QuietIsAnswered) {
  ToolFixture fixture;
  fixture.launch("echo one; sleep 1000");
  const ToolResult result = fixture.run(
      "background_wait", R"({"task_ids": ["bg-1"], "until": "quiet", "quiet_ms": 200, "timeout_ms": 30000})");
  EXPECT_EQ(without_times(result.text), "bg-1: quiet for 0.2 s\n\nTask bg-1 is RUNNING.\nRunning for ...");
}

TEST(BackgroundWaitToolTest, APortThatAStrangerHoldsSaysSo) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  ASSERT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  ToolFixture fixture;
  fixture.launch("sleep 1000");
  const ToolResult result = fixture.run(
      "background_wait", json::object{{"task_ids", json::array{"bg-1"}}, {"until", "port"}, {"port", port}});
  EXPECT_EQ(without_times(result.text), "bg-1: port " + std::to_string(port) +
                                            " is already held by a process that is not the task's; still running\n\n"
                                            "Task bg-1 is RUNNING.\nRunning for ...");
}

TEST(BackgroundWaitToolTest, ATimeOverTheLimitIsCutAndSaidSo) {
  ToolFixture fixture;
  fixture.launch("true");
  const ToolResult result = fixture.run("background_wait", R"({"task_ids": ["bg-1"], "timeout_ms": 600001})");
  EXPECT_THAT(result.text, HasSubstr("bg-1: completed (exit code 0)\n"
                                     "(timeout_ms 600001 was cut to the longest wait, 600000)\n"));
  EXPECT_THAT(fixture.run("background_wait", R"({"task_ids": ["bg-1"], "timeout_ms": 600000})").text,
              ::testing::Not(HasSubstr("was cut")));
}

TEST(BackgroundWaitToolTest, TheAbortOfTheTurnEndsTheWait) {
  ToolFixture fixture;
  fixture.launch("sleep 1000");
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] {
    return fixture.run("background_wait", R"({"task_ids": ["bg-1"], "timeout_ms": 600000})", stop.get_token());
  });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_THAT(waiting.get().text, HasSubstr("bg-1: the wait was ended, still running"));
  EXPECT_EQ(fixture.engine->get("bg-1")->status, TaskStatus::running);
}

TEST(BackgroundWaitToolTest, ArgumentsMissingWrongAndUnknown) {
  ToolFixture fixture;
  fixture.launch("sleep 1000");
  const auto fault = [&](const std::string& input) {
    const ToolResult result = fixture.run("background_wait", input);
    EXPECT_TRUE(result.is_error) << input;
    return result.text;
  };
  EXPECT_EQ(fault("{}"), "missing required argument: task_ids (array)");
  EXPECT_EQ(fault(R"({"task_ids": []})"), "task_ids must not be empty");
  EXPECT_EQ(fault(R"({"task_ids": "bg-1"})"), "wrong type of argument: task_ids (expected array, got string)");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1", 2]})"),
            "wrong type of argument: task_ids[1] (expected string, got integer)");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1", "bg-9"]})"), "task not found: bg-9 (known: bg-1)");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "mode": "some"})"),
            "wrong value of argument: mode (expected one of \"any\", \"all\", got \"some\")");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "until": "pattern"})"),
            "missing required argument: pattern (string) with until=pattern");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "until": "port"})"),
            "missing required argument: port (integer) with until=port");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "until": "quiet"})"),
            "missing required argument: quiet_ms (integer) with until=quiet");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "pattern": "x"})"),
            "unexpected argument: pattern goes with until=pattern, and until is exit");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "until": "port", "port": 70000})"),
            "argument out of range: port (expected 1 to 65535, got 70000)");
  EXPECT_EQ(fault(R"({"task_ids": ["bg-1"], "until": "pattern", "pattern": "a("})"), "invalid pattern: missing ): a(");
}

TEST(BackgroundWaitToolTest, OtherConversationsTasksAreNotWaitedFor) {
  ToolFixture fixture;
  fixture.launch("sleep 1000");
  fixture.context->owner = "agent-1";
  EXPECT_EQ(fixture.run("background_wait", R"({"task_ids": ["bg-1"]})").text, "task not found: bg-1 (known: none)");
}

}  // namespace
}  // namespace errand
