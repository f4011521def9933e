// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <thread>

#include "tools/tools_testing.h"

namespace errand {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using testing::ToolFixture;

TEST(BashToolTest, OutputInOrderAndWithoutTheWhitespaceAtItsEnd) {
  ToolFixture fixture;
  const ToolResult result = fixture.bash("echo a; echo b >&2; echo c; echo");
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(result.text, "a\nb\nc");
  EXPECT_EQ(fixture.bash("true").text, "(no output)");
  EXPECT_THAT(fixture.engine->list(), IsEmpty());
  EXPECT_FALSE(fs::exists(fixture.root() + "/session/tasks/fg-1.output"));
}

TEST(BashToolTest, AFailureNamesExitCodeOrSignal) {
  ToolFixture fixture;
  ToolResult result = fixture.bash("echo no; exit 3");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "Exit code: 3\nno");
  EXPECT_EQ(fixture.bash("kill -9 $$").text, "Signal: 9 (SIGKILL)\n(no output)");
  EXPECT_EQ(fixture.run("bash", "{}").text, "missing required argument: command (string)");
  EXPECT_EQ(fixture.bash("  ").text, "command must not be blank");
  EXPECT_EQ(fixture.bash(std::string("echo a\0; rm b", 13)).text, "command must not contain NUL bytes");
}

TEST(BashToolTest, EveryExitStatusPassesTheFolderReportUnchanged) {
  ToolFixture fixture;
  const std::pair<const char*, int> rows[] = {{"false", 1},
                                              {"set -e; false; echo x", 1},
                                              {"(exit 4)", 4},
                                              {"exec sh -c 'exit 5'", 5},
                                              {"set -eu; echo $UNSET_FOR_SURE", 1},
                                              {"trap 'exit 6' EXIT", 6},
                                              {"f() { return 7; }; f", 7},
                                              {"set -o pipefail; false | true", 1},
                                              {"exit 255", 255},
                                              {"cd sub; rmdir deep; cd deep 2>/dev/null", 1},
                                              {"set -C; exit 8", 8},
                                              {"false &\nwait $!", 1}};
  for (const auto& [command, code] : rows) {
    const ToolResult result = fixture.bash(command);
    EXPECT_THAT(result.text, StartsWith("Exit code: " + std::to_string(code) + "\n")) << command;
  }
  EXPECT_FALSE(fixture.bash("trap 'exit 0' EXIT; false").is_error);
}

TEST(BashToolTest, TheFolderPersistsInsideTheProjectAndAChangeIsNamed) {
  ToolFixture fixture;
  const std::string project = fixture.project();
  EXPECT_EQ(fixture.bash("cd sub && echo in").text, "in\n(the folder is now " + project + "/sub)");
  EXPECT_EQ(fixture.bash("pwd").text, project + "/sub");
  EXPECT_EQ(fixture.bash("cd deep; exit 3").text,
            "Exit code: 3\n(no output)\n(the folder is now " + project + "/sub/deep)");
  EXPECT_EQ(fixture.bash("cd /tmp; pwd").text,
            "/tmp\n(/tmp is outside the project; the folder is still " + project + "/sub/deep)");
  EXPECT_EQ(fixture.bash("pwd").text, project + "/sub/deep");
  EXPECT_EQ(fixture.bash("set -e; cd ../..; false").text,
            "Exit code: 1\n(no output)\n(the folder is now " + project + ")");
  EXPECT_EQ(fixture.bash("(cd sub); pwd").text, project) << "a subshell's folder is its own";
  EXPECT_EQ(fixture.bash("cd 'sub' && set -x && true").text, "+ true\n(the folder is now " + project + "/sub)");
  EXPECT_EQ(fixture.bash("cd ..; exec true").text, "(no output)") << "after exec there is no shell that could tell";
  EXPECT_EQ(fixture.bash("cd ../sub; pwd() { echo no; }; true").text, "(no output)");
}

TEST(BashToolTest, AFolderThatIsGoneFallsBackToTheProject) {
  ToolFixture fixture;
  fixture.bash("mkdir gone; cd gone");
  EXPECT_EQ(fixture.context->cwd, fixture.project() + "/gone");
  fs::remove(fixture.project() + "/gone");
  EXPECT_EQ(fixture.bash("pwd").text, fixture.project() + "\n(" + fixture.project() +
                                          "/gone does not exist any more; this command ran in " + fixture.project() +
                                          ")");
}

TEST(BashToolTest, NothingOfTheReportIsLeftOrLeaksIntoTheCommand) {
  ToolFixture fixture;
  fixture.bash("true");
  EXPECT_EQ(fixture.bash("ls -l /proc/self/fd | grep -c -- '->'").text, "4") << "0, 1, 2 and the folder that ls reads";
  const int before = testing::open_descriptors();
  for (int i = 0; i < 5; ++i) fixture.bash("cd sub; cd ..");
  // The engine closes those of an ended command a little after its end.
  EXPECT_TRUE(testing::eventually([&] { return testing::open_descriptors() <= before; }));
  for (const auto& entry : fs::directory_iterator(fixture.root() + "/session")) {
    EXPECT_EQ(entry.path().filename(), "tasks") << "a report was left";
  }
  EXPECT_THAT(fixture.bash("echo 'unclosed").text, Not(HasSubstr("trap")));
  EXPECT_THAT(fixture.bash("if").text, Not(HasSubstr("trap")));
  EXPECT_EQ(fixture.bash("echo ${ERRAND_TASK_ID-none} ${#ERRAND_TASK_TOKEN}").text.substr(0, 5), "none ");
}

TEST(BashToolTest, TheTimeoutEndsTheWholeTreeAndSaysSo) {
  ToolFixture fixture;
  const ToolResult result =
      fixture.run("bash", R"({"command": "echo begin; sleep 1000 & echo $! > pid; wait", "timeout_ms": 1000})");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text,
            "The command timed out after 1 s; it was ended with all its processes. Run what takes longer with "
            "background_bash.\nbegin");
  EXPECT_FALSE(testing::process_exists(std::stoi(testing::read_file(fixture.project() + "/pid"))));
  EXPECT_THAT(fixture.engine->list(), IsEmpty());
  EXPECT_EQ(fixture.run("bash", R"({"command": "true", "timeout_ms": 600001})").text,
            "argument out of range: timeout_ms (expected 1 to 600000, got 600001)");
}

TEST(BashToolTest, SurvivorsAreAdoptedAndNamedOneAndTwo) {
  ToolFixture fixture;
  ToolResult result = fixture.bash("sleep 1221 & echo hi");
  EXPECT_FALSE(result.is_error);
  std::regex one("hi\n\\(1 process of this command still run in the background as bg-1 \\(folder " + fixture.project() +
                 "\\): [0-9]+ sleep 1221; background_stop ends it\\)");
  EXPECT_TRUE(std::regex_match(result.text, one)) << result.text;
  EXPECT_THAT(result.ends_shown, ElementsAre("bg-1"));
  result = fixture.bash("cd sub; sleep 1222 & sleep 1223 & echo hi");
  std::regex two(
      "hi\n\\(2 processes of this command still run in the background as bg-2 \\(folder " + fixture.project() +
      "\\): [0-9]+ sleep 122[23], [0-9]+ sleep 122[23]; background_stop ends them\\)\n\\(the folder is now .*/sub\\)");
  EXPECT_TRUE(std::regex_match(result.text, two)) << result.text;
  EXPECT_EQ(fixture.engine->get("bg-2")->command, "cd sub; sleep 1222 & sleep 1223 & echo hi")
      << "the record shows what was asked for";
  EXPECT_EQ(fixture.run("background_stop", R"({"task_id": "bg-1"})").text,
            "Task bg-1 had already finished (COMPLETED); 1 remaining process ended.");
  EXPECT_EQ(fixture.run("background_stop", R"({"task_id": "bg-2"})").text,
            "Task bg-2 had already finished (COMPLETED); 2 remaining processes ended.");
}

TEST(BashToolTest, AnAbortEndsTheCommandAndSaysSo) {
  ToolFixture fixture;
  std::stop_source stop;
  std::jthread aborter([&] {
    testing::eventually([&] { return fs::exists(fixture.project() + "/pid"); });
    stop.request_stop();
  });
  const ToolResult result =
      fixture.bash("echo begin; sleep 1000 & echo $! > pid.new; mv pid.new pid; wait", stop.get_token());
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "The command was aborted by the user; its processes were ended.\nbegin");
  EXPECT_FALSE(testing::process_exists(std::stoi(testing::read_file(fixture.project() + "/pid"))));
  EXPECT_THAT(fixture.engine->list(), IsEmpty());
}

TEST(BashToolTest, LongOutputIsCutAndTheWholeIsKept) {
  ToolFixture fixture;
  // Under what is retained, over what is shown; then over both.
  for (const int lines : {7000, 200000}) {
    const std::string count = std::to_string(lines);
    const ToolResult result = fixture.bash("seq 1 " + count);
    EXPECT_FALSE(result.is_error);
    EXPECT_THAT(result.text, StartsWith("1\n2\n3\n"));
    EXPECT_THAT(result.text, EndsWith("\n" + count));
    EXPECT_LT(result.text.size(), 31000u);
    std::smatch match;
    ASSERT_TRUE(std::regex_search(result.text, match, std::regex("whole output is in ([^)]*\\.output)")))
        << result.text;
    const std::string whole = testing::read_file(match[1]);
    EXPECT_THAT(whole, StartsWith("1\n2\n"));
    EXPECT_THAT(whole, EndsWith("\n" + count + "\n"));
  }
}

TEST(BashToolTest, ThePermissionIsForTheExactCommandInItsFolder) {
  ToolFixture fixture;
  fixture.bash("cd sub");
  const PreparedCall call = fixture.registry.prepare("bash", json::object{{"command", "make  x"}}, *fixture.context);
  ASSERT_TRUE(call.permission);
  EXPECT_EQ(call.permission->subject, "make  x");
  EXPECT_EQ(call.permission->folder, fixture.project() + "/sub");
  EXPECT_EQ(call.permission->project, fixture.project());
  EXPECT_EQ(call.permission->tool, "bash");
}

}  // namespace
}  // namespace errand
