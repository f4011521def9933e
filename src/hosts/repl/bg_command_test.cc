// SPDX-License-Identifier: Apache-2.0
// The rows of the mission's BackgroundCommandTest, on a real engine with real processes; and the texts of the faces'
// contract, byte for byte.
#include "repl/bg_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace errand::repl {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

constexpr std::chrono::milliseconds deadline{60'000};
const std::string usage_line =
    "usage: /bg [list | show <id> | output <id> [lines] [-f] | stop <id>|all | notifications | run <command> | wait "
    "[<id>...] [time] | watch <id> <regex>]";

class BackgroundCommandTest : public ::testing::Test {
 protected:
  BackgroundCommandTest() : folder_(make_folder()), engine_(config(folder_)) {}
  ~BackgroundCommandTest() override {
    engine_.close();
    std::filesystem::remove_all(folder_);
  }

  static std::string make_folder() {
    std::string path = std::filesystem::temp_directory_path() / "errand-bg-XXXXXX";
    return ::mkdtemp(path.data());
  }
  static EngineConfig config(const std::string& folder) {
    EngineConfig config;
    config.output_folder = folder + "/tasks";
    config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
    return config;
  }

  std::string bg(std::string_view arguments) { return command_(arguments); }
  std::string start(std::string command) {
    return std::get<Launched>(engine_.launch({.command = std::move(command)})).id;
  }
  std::string run_to_end(std::string command) {
    const std::string id = start(std::move(command));
    EXPECT_NE(engine_.wait_end(id, deadline)->status, TaskStatus::running);
    return id;
  }

  std::string folder_;
  Engine engine_;
  BgCommand command_{engine_, [this](std::string command) { return engine_.launch({.command = std::move(command)}); },
                     [this](const std::string& id) { return engine_.stop(id); }, NoticeMark::bell};
};

TEST_F(BackgroundCommandTest, EmptyListHint) { EXPECT_EQ(bg("list"), "No background tasks."); }

TEST_F(BackgroundCommandTest, EmptyArgumentEqualsList) {
  EXPECT_EQ(bg(""), "No background tasks.");
  start("sleep 1000");
  EXPECT_EQ(bg(""), bg("list"));
  EXPECT_EQ(bg("  "), bg(" list "));
}

TEST_F(BackgroundCommandTest, ListShowsTasks) {
  start("sleep 1000");
  run_to_end("exit 2");
  run_to_end("kill -9 $$");
  EXPECT_EQ(bg("list"),
            "Background tasks (3):\n"
            "  bg-1  [RUNNING]  sleep 1000\n"
            "  bg-2  [FAILED]  exit 2  exit=2\n"
            "  bg-3  [FAILED]  kill -9 $$  signal=9");
}

TEST_F(BackgroundCommandTest, ListOrdersByTheNumberAndCutsLongCommands) {
  for (int i = 0; i < 10; ++i) run_to_end("true " + std::string(i == 0 ? 46 : 45, 'x'));
  const std::string list = bg("list");
  EXPECT_THAT(list, HasSubstr("  bg-1  [COMPLETED]  true " + std::string(45, 'x') + "...  exit=0\n"));
  EXPECT_THAT(list, HasSubstr("  bg-2  [COMPLETED]  true " + std::string(45, 'x') + "  exit=0\n"));
  EXPECT_LT(list.find("bg-9 "), list.find("bg-10 "));
}

TEST_F(BackgroundCommandTest, ListNamesSurvivors) {
  const std::string id = run_to_end("sleep 1000 & sleep 1000 & exit 0");
  EXPECT_EQ(bg("list"),
            "Background tasks (1):\n  bg-1  [COMPLETED]  sleep 1000 & sleep 1000 & exit 0  exit=0  (2 still running)");
  EXPECT_EQ(bg("stop " + id), "bg-1 had already finished (COMPLETED); 2 remaining processes ended.");
}

TEST_F(BackgroundCommandTest, RunIsRefusedWithTooManySurvivors) {
  for (int i = 0; i < 20; ++i) run_to_end("sleep 1000 & true");
  EXPECT_THAT(bg("run true"), HasSubstr("20 ended tasks still have processes running; stop some: bg-1, bg-2, "));
}

TEST_F(BackgroundCommandTest, ShowDetails) {
  const std::string id = run_to_end("echo hello; exit 7");
  const std::string text = bg("show " + id);
  EXPECT_THAT(text, StartsWith("bg-1 [FAILED]\n  command:     echo hello; exit 7\n"));
  EXPECT_THAT(text, HasSubstr("\n  exit code:   7\n"));
  EXPECT_THAT(text, MatchesRegex("(.|\n)*\n  started:     [-0-9]+ [:0-9]+\n(.|\n)*"));
  EXPECT_THAT(text, HasSubstr("\n  finished:    "));
  EXPECT_THAT(text, HasSubstr("\n  output:      6 bytes"));
  EXPECT_THAT(text, HasSubstr(folder_ + "/tasks/bg-1.output"));
  EXPECT_THAT(text, HasSubstr("\n  processes:   none\n"));
  EXPECT_THAT(text, MatchesRegex("(.|\n)*\n  cpu:         [0-9]+ ms \\(sampled\\)\n"
                                 "  memory:      [0-9]+\\.[0-9] [KM]iB at its peak \\(sampled\\)"));
}

TEST_F(BackgroundCommandTest, ShowSaysWhatIsNotInTheFileAndWhatCameAfterTheEnd) {
  EngineConfig small = config(folder_);
  small.max_output_file_bytes = 131072;
  Engine engine(small);
  const BgCommand command(
      engine, [&](std::string text) { return engine.launch({.command = std::move(text)}); },
      [&](const std::string& id) { return engine.stop(id); }, NoticeMark::bell);
  const auto ended = [&](std::string text) {
    const std::string id = std::get<Launched>(engine.launch({.command = std::move(text)})).id;
    EXPECT_NE(engine.wait_end(id, deadline)->status, TaskStatus::running);
    return id;
  };
  const auto show = [&](const std::string& id, const std::string& awaited) {
    std::string text;
    const auto end = std::chrono::steady_clock::now() + deadline;
    do {
      text = command("show " + id);
    } while (text.find(awaited) == std::string::npos && std::chrono::steady_clock::now() < end);
    EXPECT_THAT(text, HasSubstr(awaited));
    return text;
  };
  const std::string flood = ended("head -c 1048576 /dev/zero | tr '\\0' x");
  EXPECT_THAT(show(flood, "\n  not in file: 896."), HasSubstr("\n  output:      1.0 MiB, the last "));
  const std::string survivor = ended("(sleep 0.5; echo late) & echo early");
  EXPECT_THAT(show(survivor, ", 5 bytes of it after the end\n"), HasSubstr("\n  output:      11 bytes, the last "));
}

TEST_F(BackgroundCommandTest, ShowARunningTaskNamesItsProcesses) {
  const std::string id = start("exec sleep 1000");
  // Until its exec the shell is shown, whose own line ends in the same words.
  const ::testing::Matcher<const std::string&> awaited =
      MatchesRegex("(.|\n)*\n  processes:   1\n    [0-9]+ sleep 1000\n  cpu:(.|\n)*");
  std::string text;
  const auto end = std::chrono::steady_clock::now() + deadline;
  do {
    text = bg("show " + id);
  } while (!awaited.Matches(text) && std::chrono::steady_clock::now() < end);
  EXPECT_THAT(text, awaited);
  EXPECT_THAT(text, HasSubstr("\n  running for: "));
}

TEST_F(BackgroundCommandTest, ShowUnknown) {
  EXPECT_EQ(bg("show bg-9"), "bg-9: no such task (known: none)");
  run_to_end("true");
  run_to_end("true");
  EXPECT_EQ(bg("show bg-9"), "bg-9: no such task (known: bg-1, bg-2)");
  EXPECT_EQ(bg("output bg-9"), "bg-9: no such task (known: bg-1, bg-2)");
  EXPECT_EQ(bg("stop bg-9"), "bg-9: no such task (known: bg-1, bg-2)");
}

TEST_F(BackgroundCommandTest, Output) {
  const std::string id = run_to_end("seq 1 30");
  std::string twenty = "=== bg-1 (COMPLETED) ===";
  for (int i = 11; i <= 30; ++i) twenty += "\n" + std::to_string(i);
  EXPECT_EQ(bg("output " + id), twenty);
  EXPECT_EQ(bg("output " + id + " 2"), "=== bg-1 (COMPLETED) ===\n29\n30");
  EXPECT_EQ(bg("output " + id + " 0"), usage_line);
  EXPECT_EQ(bg("output " + id + " x"), usage_line);
}

TEST_F(BackgroundCommandTest, OutputHoldsNoControlCharacters) {
  const std::string id = run_to_end(R"(printf '\033[31mred\033[0m\a \033]0;title\007done\n')");
  EXPECT_EQ(bg("output " + id), "=== bg-1 (COMPLETED) ===\nred done");
}

TEST_F(BackgroundCommandTest, StopSucceeds) {
  const std::string one = start("exec sleep 1000");
  EXPECT_EQ(bg("stop " + one), "bg-1 stopped: 1 process ended.");
  const std::string two = start("echo ready; sleep 1000; true");
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (engine_.inspect(two)->processes.size() != 2 && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_EQ(bg("stop " + two), "bg-2 stopped: 2 processes ended.");
  EXPECT_EQ(engine_.get(two)->status, TaskStatus::cancelled);
}

TEST_F(BackgroundCommandTest, StopOfAFinishedOneIsNoError) {
  const std::string id = run_to_end("true");
  EXPECT_EQ(bg("stop " + id), "bg-1 has already finished (COMPLETED); nothing to stop.");
}

TEST_F(BackgroundCommandTest, StopAll) {
  EXPECT_EQ(bg("stop all"), "No background task is running; nothing to stop.");
  start("exec sleep 1000");
  run_to_end("true");
  start("exec sleep 1000");
  EXPECT_EQ(bg("stop all"), "bg-1 stopped: 1 process ended.\nbg-3 stopped: 1 process ended.");
  EXPECT_EQ(engine_.running_count(), 0);
}

TEST_F(BackgroundCommandTest, NotificationsAreShownAndCleared) {
  run_to_end("true");
  run_to_end("exit 7");
  EXPECT_EQ(bg("notifications"), "🔔 bg-1 - completed (exit code 0)\n🔔 bg-2 - failed (exit code 7)");
  EXPECT_EQ(bg("notifications"), "No pending notifications.");
}

TEST_F(BackgroundCommandTest, NoNotifications) { EXPECT_EQ(bg("notifications"), "No pending notifications."); }

TEST_F(BackgroundCommandTest, UnknownSubcommandPrintsUsage) {
  for (const char* wrong :
       {"frob", "show", "show a b", "output", "stop", "run", "list x", "notifications x", "wait 5", "wait 5x",
        "wait 1s 2s", "watch", "watch bg-1", "output -f", "output bg-1 -f -f", "output bg-1 0", "output bg-1 2 3"})
    EXPECT_EQ(bg(wrong), usage_line) << wrong;
}

TEST_F(BackgroundCommandTest, WaitAnswersForEachTask) {
  EXPECT_EQ(bg("wait"), "No background task is running; nothing to wait for.");
  start("exit 3");
  start("true");
  EXPECT_EQ(bg("wait bg-2 bg-1 bg-2 1h"), "bg-2: completed (exit code 0)\nbg-1: failed (exit code 3)");
  start("sleep 1000");
  EXPECT_EQ(bg("wait bg-3 20ms"), "bg-3: timed out, still running");
  EXPECT_EQ(bg("wait 20ms"), "bg-3: timed out, still running") << "all that run";
  EXPECT_EQ(bg("wait bg-9"), "bg-9: no such task (known: bg-1, bg-2, bg-3)");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(command_("wait", stop.get_token()), "bg-3: the wait was ended, still running");
}

TEST_F(BackgroundCommandTest, WatchPrintsMatchingLines) {
  start("echo one; echo two; printf three; exit 1");
  std::string said;
  const auto say = [&](const std::string& lines) {
    said += lines;
    return true;
  };
  EXPECT_EQ(command_("watch bg-1 ^t.*e", {}, say), "=== bg-1 (FAILED) ===");
  EXPECT_EQ(said, "three\n");
  EXPECT_EQ(bg("watch bg-1 ("), "invalid pattern: missing ): (");
  EXPECT_EQ(bg("watch bg-9 x"), "bg-9: no such task (known: bg-1)");
  start("sleep 1000");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(command_("watch bg-2 x", stop.get_token(), say), "(no longer watching bg-2)");
}

TEST_F(BackgroundCommandTest, OutputFollowsUntilTheOutputEnds) {
  const std::string go = folder_ + "/go";
  start("seq 1 30; until [ -e '" + go + "' ]; do sleep 0.02; done; echo new; printf rest");
  while (engine_.get("bg-1")->output_bytes < 81) std::this_thread::yield();
  std::string said;
  const auto say = [&](const std::string& lines) {
    if (said.empty()) std::ofstream(go).put('\n');
    said += lines + "|";
    return true;
  };
  const std::string last = command_("output bg-1 3 -f", {}, say);
  EXPECT_THAT(said + last, MatchesRegex("=== bg-1 \\(RUNNING\\) ===\n28\n29\n30\n\\|(new\n\\||)(new\n|)rest\n"
                                        "=== bg-1 \\(COMPLETED\\) ==="));
  EXPECT_EQ(bg("output bg-1 -f 1"), "=== bg-1 (COMPLETED) ===\nrest") << "nothing to follow any more";
  EXPECT_EQ(bg("output bg-9 -f"), "bg-9: no such task (known: bg-1)");
  start("sleep 1000");
  EXPECT_EQ(command_("output bg-2 -f", {}, [](const std::string&) { return false; }), "(no longer following bg-2)");
}

// A question, or a code that is to be typed elsewhere, waits for an answer and not for a newline.
TEST_F(BackgroundCommandTest, FollowShowsALineThatStandsStillWithoutItsNewline) {
  const std::string go = folder_ + "/go";
  start("printf 'code 4711: '; for i in $(seq 1500); do [ -e '" + go +
        "' ] && break; sleep 0.02; done; echo; echo new; "
        "printf end");
  std::string said;
  const auto say = [&](const std::string& lines) {
    said += lines + "|";
    if (lines == "code 4711: \n") std::ofstream(go).put('\n');
    return true;
  };
  const std::string last = command_("output bg-1 -f", {}, say);
  EXPECT_THAT(said + last, MatchesRegex("=== bg-1 \\(RUNNING\\) ===\\|code 4711: \n\\|(new\n\\||new\n)end\n"
                                        "=== bg-1 \\(COMPLETED\\) ==="))
      << "shown once";
}

TEST_F(BackgroundCommandTest, WhatMayNeverEndIsKnown) {
  using Pace = BgCommand::Pace;
  for (const char* open : {"wait", "wait bg-1 3s", "watch bg-1 x", "output bg-1 -f", " output  -f bg-1 3"})
    EXPECT_EQ(BgCommand::pace(open), Pace::open_ended) << open;
  EXPECT_EQ(BgCommand::pace("stop bg-1"), Pace::busy);
  for (const char* quick : {"", "list", "output bg-1", "show bg-1", "run sleep 1 -f"})
    EXPECT_EQ(BgCommand::pace(quick), Pace::at_once) << quick;
}

TEST_F(BackgroundCommandTest, RunStartsOneByHand) {
  EXPECT_EQ(bg("run echo hi"), "Background task started: bg-1");
  engine_.wait_end("bg-1", deadline);
  EXPECT_EQ(bg("output bg-1"), "=== bg-1 (COMPLETED) ===\nhi");
  EXPECT_EQ(engine_.get("bg-1")->command, "echo hi");
}

TEST_F(BackgroundCommandTest, RunOverTheLimitSaysWhy) {
  for (int i = 0; i < 5; ++i) start("sleep 1000");
  EXPECT_EQ(bg("run true"),
            "max concurrent background tasks (5) reached; wait for existing tasks to finish or stop them");
}

TEST(NoticeTest, MarkAndText) {
  const Notification notice{"bg-1", TaskStatus::failed, "failed (exit code 7)", 0};
  EXPECT_EQ(notice_line(notice, NoticeMark::bell), "🔔 bg-1 - failed (exit code 7)");
  EXPECT_EQ(notice_line(notice, NoticeMark::star), "* bg-1 - failed (exit code 7)");
}

TEST(ShortCommandTest, CutsAtCharactersAndKeepsOneLine) {
  EXPECT_EQ(short_command("a\nb\tc"), "a b c");
  EXPECT_EQ(short_command(std::string(51, 'x')), std::string(50, 'x') + "...");
  EXPECT_EQ(short_command("测试测试", 3), "测试测...");
}

}  // namespace
}  // namespace errand::repl
