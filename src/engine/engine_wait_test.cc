// SPDX-License-Identifier: Apache-2.0
// Engine::wait(): until exit, a pattern, a port or quiet; for any or for all.
#include "errand/wait.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <thread>

#include "base/fd.h"
#include "engine/engine_testing.h"
#include "engine/waiter.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;
using Outcome = WaitAnswer::Outcome;
using End = WaitResult::End;

WaitRequest until_exit(std::vector<std::string> ids, std::chrono::milliseconds timeout = kDeadline) {
  WaitRequest request;
  request.ids = std::move(ids);
  request.timeout = timeout;
  return request;
}
WaitRequest until_pattern(std::vector<std::string> ids, std::string pattern,
                          std::chrono::milliseconds timeout = kDeadline) {
  WaitRequest request = until_exit(std::move(ids), timeout);
  request.until.kind = WaitUntil::Kind::pattern;
  request.until.pattern = std::move(pattern);
  return request;
}
WaitRequest until_port(std::vector<std::string> ids, std::uint16_t port,
                       std::chrono::milliseconds timeout = kDeadline) {
  WaitRequest request = until_exit(std::move(ids), timeout);
  request.until.kind = WaitUntil::Kind::port;
  request.until.port = port;
  return request;
}
WaitRequest until_quiet(std::vector<std::string> ids, std::chrono::milliseconds quiet,
                        std::chrono::milliseconds timeout = kDeadline) {
  WaitRequest request = until_exit(std::move(ids), timeout);
  request.until.kind = WaitUntil::Kind::quiet;
  request.until.quiet = quiet;
  return request;
}

std::string text_of(const WaitResult& result, std::size_t index = 0) {
  return wait_text(result, result.answers.at(index));
}

// A TCP socket of this process that is bound to a free loopback port, and listens if it shall.
struct Socket {
  explicit Socket(bool listens) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    if (listens) {
      EXPECT_EQ(::listen(fd.get(), 1), 0);
    }
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  UniqueFd fd;
  std::uint16_t port = 0;
};

// Listens once the file exists, and says so.
std::string server_command(std::uint16_t port, const std::string& go = {}) {
  std::string command;
  if (!go.empty()) command = "until [ -e '" + go + "' ]; do sleep 0.02; done; ";
  return command + "exec python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", " +
         std::to_string(port) + ")); print(\"listening\", flush=True); time.sleep(1000)'";
}

class WaitTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Engine engine_{test_config(folder_)};
};

// --- until exit ---

TEST_F(WaitTest, AnEndIsAnsweredWithItsText) {
  launch(engine_, "sleep 0.1; exit 7");
  const WaitResult result = engine_.wait(until_exit({"bg-1"}));
  EXPECT_EQ(result.end, End::happened);
  ASSERT_EQ(result.answers.size(), 1u);
  EXPECT_EQ(result.answers[0].id, "bg-1");
  EXPECT_EQ(result.answers[0].outcome, Outcome::ended);
  EXPECT_EQ(result.answers[0].task->status, TaskStatus::failed);
  EXPECT_EQ(text_of(result), "failed (exit code 7)");
  EXPECT_EQ(text_of(engine_.wait(until_exit({"bg-1"}, 0ms))), "failed (exit code 7)") << "ended before the call";
}

TEST_F(WaitTest, TimeOverSaysStillRunningAndLeavesTheTaskAlone) {
  launch(engine_, "sleep 1000");
  const WaitResult result = engine_.wait(until_exit({"bg-1"}, 50ms));
  EXPECT_EQ(result.end, End::timed_out);
  EXPECT_EQ(result.answers[0].outcome, Outcome::pending);
  EXPECT_EQ(text_of(result), "timed out, still running");
  EXPECT_EQ(engine_.get("bg-1")->status, TaskStatus::running);
}

TEST_F(WaitTest, AnyReturnsAtTheFirstAndAllAtTheLast) {
  const std::string go = folder_ / "go";
  launch(engine_, "sleep 1000");
  launch(engine_, "exit 3");
  launch(engine_, "until [ -e '" + go + "' ]; do sleep 0.02; done");
  const WaitResult any = engine_.wait([] {
    WaitRequest request = until_exit({"bg-1", "bg-2", "bg-3"});
    request.mode = WaitMode::any;
    return request;
  }());
  EXPECT_EQ(any.end, End::happened);
  EXPECT_EQ(text_of(any, 0), "still running");
  EXPECT_EQ(text_of(any, 1), "failed (exit code 3)");

  auto all = std::async(std::launch::async, [&] { return engine_.wait(until_exit({"bg-2", "bg-3"})); });
  EXPECT_EQ(engine_.wait(until_exit({"bg-2", "bg-3"}, 100ms)).end, End::timed_out);
  std::ofstream(go).put('\n');
  const WaitResult both = all.get();
  EXPECT_EQ(both.end, End::happened);
  EXPECT_EQ(text_of(both, 1), "completed (exit code 0)");
}

TEST_F(WaitTest, WhatCanNoLongerHappenReturnsAtOnce) {
  launch(engine_, "sleep 1000");
  WaitRequest request = until_exit({"bg-1", "bg-9"});
  const WaitResult all = engine_.wait(request);
  EXPECT_EQ(all.end, End::impossible) << "not all can: bg-9 does not exist";
  EXPECT_EQ(text_of(all, 0), "still running");
  EXPECT_EQ(text_of(all, 1), "no such task");

  request.mode = WaitMode::any;
  request.timeout = 50ms;
  EXPECT_EQ(engine_.wait(request).end, End::timed_out) << "any still can: bg-1 runs";
  request.ids = {"bg-8", "bg-9"};
  request.timeout = kDeadline;
  EXPECT_EQ(engine_.wait(request).end, End::impossible);
}

TEST_F(WaitTest, AWaitCanBeStopped) {
  launch(engine_, "sleep 1000");
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] { return engine_.wait(until_exit({"bg-1"}), stop.get_token()); });
  EXPECT_EQ(waiting.wait_for(50ms), std::future_status::timeout);
  stop.request_stop();
  const WaitResult result = waiting.get();
  EXPECT_EQ(result.end, End::stopped);
  EXPECT_EQ(text_of(result), "the wait was ended, still running");
  EXPECT_EQ(engine_.get("bg-1")->status, TaskStatus::running);
}

TEST_F(WaitTest, ClosingTheEngineEndsEveryKindOfWait) {
  launch(engine_, "sleep 1000");
  std::vector<std::future<WaitResult>> waits;
  for (const WaitRequest& request : {until_exit({"bg-1"}), until_pattern({"bg-1"}, "never"), until_port({"bg-1"}, 9),
                                     until_quiet({"bg-1"}, std::chrono::hours(1))}) {
    waits.push_back(std::async(std::launch::async, [this, request] { return engine_.wait(request); }));
  }
  engine_.close();
  EXPECT_EQ(text_of(waits[0].get()), "cancelled (session ended)");
  EXPECT_EQ(text_of(waits[1].get()), "no match: its output has ended; cancelled (session ended)");
  EXPECT_EQ(text_of(waits[2].get()), "port 9 not opened: none of its processes is left; cancelled (session ended)");
  EXPECT_EQ(text_of(waits[3].get()), "cancelled (session ended)");
}

TEST_F(WaitTest, AForegroundCommandCanBeWaitedFor) {
  LaunchResult launched = engine_.launch_foreground(request_of("sleep 0.1; echo hello"));
  const std::string id = std::get<Launched>(launched).id;
  EXPECT_EQ(text_of(engine_.wait(until_pattern({id}, "^hello$"))), "matched: hello");
  EXPECT_EQ(text_of(engine_.wait(until_exit({id}))), "completed (exit code 0)");
}

TEST_F(WaitTest, RequestsThatMeanNothingAreRefusedWithTheReason) {
  launch(engine_, "sleep 1000");
  EXPECT_EQ(engine_.wait(until_exit({})).fault, "no task is named");
  EXPECT_EQ(engine_.wait(until_port({"bg-1"}, 0)).fault, "port 0 cannot be waited for");
  EXPECT_EQ(engine_.wait(until_quiet({"bg-1"}, 0ms)).fault, "the time to be quiet for must be more than 0");
  const WaitResult result = engine_.wait(until_pattern({"bg-1"}, "a("));
  EXPECT_EQ(result.end, End::refused);
  EXPECT_EQ(result.fault, "invalid pattern: missing ): a(");
  EXPECT_TRUE(result.answers.empty());
  EXPECT_EQ(engine_.wait(until_pattern({"bg-1"}, std::string(1001, 'a'))).fault,
            "invalid pattern: it has 1001 bytes (at most 1000)");
  EXPECT_EQ(engine_.wait(until_pattern({"bg-1"}, "")).fault, "invalid pattern: it is empty");
  EXPECT_TRUE(
      engine_.wait(until_pattern({"bg-1"}, "((a{1,100}){1,100}){1,100}")).fault.starts_with("invalid pattern: "));
  EXPECT_EQ(engine_.wait(until_pattern({"bg-1"}, "(\\pL{1,30}x){1,3}")).fault, "invalid pattern: it is too complex");
}

// --- until a pattern ---

TEST_F(WaitTest, APatternIsSoughtInWhatIsRetainedFirst) {
  launch(engine_, "echo one; echo ready on 3000; printf unfinished; sleep 1000");
  ASSERT_TRUE(await_output(engine_, "bg-1", "unfinished"));
  const WaitResult result = engine_.wait(until_pattern({"bg-1"}, "ready on \\d+", 0ms));
  EXPECT_EQ(result.end, End::happened) << "it had been printed before the call";
  EXPECT_EQ(result.answers[0].line, "ready on 3000");
  EXPECT_EQ(text_of(engine_.wait(until_pattern({"bg-1"}, "^unfin", 0ms))), "matched: unfinished");
  EXPECT_EQ(text_of(engine_.wait(until_pattern({"bg-1"}, "two", 0ms))), "timed out, still running");
}

TEST_F(WaitTest, APatternIsFoundInWhatComes) {
  const std::string go = folder_ / "go";
  launch(engine_, "until [ -e '" + go + "' ]; do sleep 0.02; done; echo alpha; printf 'Password: '; sleep 1000");
  auto line = std::async(std::launch::async, [&] { return engine_.wait(until_pattern({"bg-1"}, "alpha")); });
  auto prompt = std::async(std::launch::async, [&] { return engine_.wait(until_pattern({"bg-1"}, "word: $")); });
  std::ofstream(go).put('\n');
  EXPECT_EQ(text_of(line.get()), "matched: alpha");
  EXPECT_EQ(text_of(prompt.get()), "matched: Password: ") << "of a line that is not finished";
}

TEST_F(WaitTest, APatternIsNotMissedInAFlood) {
  const std::string go = folder_ / "go";
  // A megabyte before and one after: the tail that is retained never holds the line for long.
  launch(engine_,
         "until [ -e '" + go + "' ]; do sleep 0.02; done; seq 1 200000; echo NEEDLE 42; seq 1 200000; sleep 1000");
  auto found = std::async(std::launch::async, [&] { return engine_.wait(until_pattern({"bg-1"}, "^NEEDLE \\d+$")); });
  ASSERT_EQ(found.wait_for(50ms), std::future_status::timeout);
  std::ofstream(go).put('\n');
  EXPECT_EQ(text_of(found.get()), "matched: NEEDLE 42");
}

TEST_F(WaitTest, APatternThatCanNoLongerComeIsAnsweredAtOnceWithTheEnd) {
  launch(engine_, "echo something; exit 2");
  const WaitResult result = engine_.wait(until_pattern({"bg-1"}, "else"));
  EXPECT_EQ(result.end, End::impossible);
  EXPECT_EQ(result.answers[0].outcome, Outcome::no_match_possible);
  EXPECT_EQ(text_of(result), "no match: its output has ended; failed (exit code 2)");
  EXPECT_EQ(text_of(engine_.wait(until_pattern({"bg-1"}, "some"))), "matched: something");

  launch(engine_, "exec >/dev/null 2>&1; sleep 1000");
  EXPECT_EQ(text_of(engine_.wait(until_pattern({"bg-2"}, "x"))), "no match: its output has ended; still running");
  LaunchRequest request = request_of("echo never");
  request.cwd = folder_ / "missing";
  launch(engine_, request);
  EXPECT_EQ(engine_.wait(until_pattern({"bg-3"}, "x")).answers[0].outcome, Outcome::no_match_possible);
}

TEST_F(WaitTest, SurvivorsThatHoldThePipeCanStillPrintThePattern) {
  const std::string go = folder_ / "go";
  launch(engine_, "(until [ -e '" + go + "' ]; do sleep 0.02; done; echo late; sleep 1000) & echo started");
  await_ended(engine_, "bg-1");
  auto late = std::async(std::launch::async, [&] { return engine_.wait(until_pattern({"bg-1"}, "late")); });
  const WaitResult early = engine_.wait(until_pattern({"bg-1"}, "late", 50ms));
  EXPECT_EQ(early.end, End::timed_out);
  EXPECT_TRUE(text_of(early).starts_with("timed out, completed (exit code 0); ")) << text_of(early);
  std::ofstream(go).put('\n');
  EXPECT_EQ(text_of(late.get()), "matched: late");
  engine_.stop("bg-1");
}

// --- until a port ---

TEST_F(WaitTest, APortThatTheTaskOpensIsSeen) {
  const std::uint16_t port = Socket(false).port;
  const std::string go = folder_ / "go";
  launch(engine_, server_command(port, go));
  EXPECT_EQ(text_of(engine_.wait(until_port({"bg-1"}, port, 150ms))), "timed out, still running");
  auto open = std::async(std::launch::async, [&] { return engine_.wait(until_port({"bg-1"}, port)); });
  std::ofstream(go).put('\n');
  const WaitResult result = open.get();
  EXPECT_EQ(result.answers[0].outcome, Outcome::port_open);
  EXPECT_EQ(text_of(result), "port " + std::to_string(port) + " open, by one of its processes");
}

TEST_F(WaitTest, SurvivorsCountForAPort) {
  const std::uint16_t port = Socket(false).port;
  const std::string go = folder_ / "go";
  launch(engine_, "(" + server_command(port, go) + ") >/dev/null & exit 0");
  await_ended(engine_, "bg-1");
  auto open = std::async(std::launch::async, [&] { return engine_.wait(until_port({"bg-1"}, port)); });
  std::ofstream(go).put('\n');
  EXPECT_EQ(open.get().answers[0].outcome, Outcome::port_open);
  engine_.stop("bg-1");
}

TEST_F(WaitTest, APortThatAStrangerHoldsAtTheStartSaysSo) {
  const Socket mine(true);
  launch(engine_, "sleep 1000");
  const WaitResult result = engine_.wait(until_port({"bg-1"}, mine.port));
  EXPECT_EQ(result.end, End::impossible);
  EXPECT_EQ(result.answers[0].outcome, Outcome::port_held);
  EXPECT_EQ(text_of(result), "port " + std::to_string(mine.port) +
                                 " is already held by a process that is not the task's; still running");
}

TEST_F(WaitTest, APortOfATaskThatIsGoneIsAnsweredAtOnce) {
  launch(engine_, "exit 1");
  const WaitResult result = engine_.wait(until_port({"bg-1"}, 9));
  EXPECT_EQ(result.end, End::impossible);
  EXPECT_EQ(text_of(result), "port 9 not opened: none of its processes is left; failed (exit code 1)");
}

// --- until quiet ---

TEST_F(WaitTest, QuietCountsFromTheLastOutputAlsoBeforeTheCall) {
  launch(engine_, "echo one; sleep 1000");
  const WaitResult result = engine_.wait(until_quiet({"bg-1"}, 300ms));
  EXPECT_EQ(result.answers[0].outcome, Outcome::quiet);
  EXPECT_EQ(text_of(result), "quiet for 0.3 s");
  EXPECT_GE(*result.answers[0].task->last_output_age_ms, 300);
  EXPECT_EQ(text_of(engine_.wait(until_quiet({"bg-1"}, 300ms, 0ms))), "quiet for 0.3 s");
}

TEST_F(WaitTest, OutputPutsQuietOff) {
  launch(engine_, "for i in $(seq 1 30); do echo $i; sleep 0.05; done; echo done; sleep 1000");
  const WaitResult result = engine_.wait(until_quiet({"bg-1"}, 1500ms));
  EXPECT_EQ(result.answers[0].outcome, Outcome::quiet);
  EXPECT_TRUE(output_of(engine_, "bg-1").ends_with("done\n"));
}

TEST_F(WaitTest, ATaskThatPrintedNothingIsQuietSinceItsStart) {
  launch(engine_, "sleep 1000");
  EXPECT_EQ(text_of(engine_.wait(until_quiet({"bg-1"}, 100ms))), "quiet for 0.1 s");
}

TEST_F(WaitTest, ATaskThatEndsNeedsNoSilence) {
  launch(engine_, "echo one; exit 4");
  const WaitResult result = engine_.wait(until_quiet({"bg-1"}, std::chrono::hours(1)));
  EXPECT_EQ(result.end, End::happened);
  EXPECT_EQ(text_of(result), "failed (exit code 4)");
}

// --- what it costs ---

TEST_F(WaitTest, AThousandWaitsLeaveNothingBehind) {
  launch(engine_, "echo one; sleep 1000");
  ASSERT_TRUE(await_output(engine_, "bg-1", "one"));
  const int before = open_descriptors();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 250; ++round) {
        EXPECT_EQ(engine_.wait(until_pattern({"bg-1"}, "one", 0ms)).end, End::happened);
        EXPECT_EQ(engine_.wait(until_pattern({"bg-1"}, "two", 0ms)).end, End::timed_out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The spare keeper and the output file may have come meanwhile; of two thousand waits one descriptor each would stay.
  EXPECT_LT(open_descriptors(), before + 10);
}

}  // namespace
}  // namespace errand
