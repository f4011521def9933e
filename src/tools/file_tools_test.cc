// SPDX-License-Identifier: Apache-2.0
// read and grep, grep with and without ripgrep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "tools/run_program.h"
#include "tools/tools_testing.h"

namespace errand {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::ToolFixture;

json::object path_input(const std::string& path) { return json::object{{"path", path}}; }

TEST(ReadToolTest, LinesHaveNumbers) {
  ToolFixture fixture;
  const std::string path = fixture.write("a.txt", "one\ntwo\r\n\nfour");
  const std::string whole = "     1\tone\n     2\ttwo\n     3\t\n     4\tfour";
  EXPECT_EQ(fixture.run("read", path_input("a.txt")).text, whole);
  EXPECT_EQ(fixture.run("read", path_input(path)).text, whole);
  EXPECT_EQ(fixture.run("read", path_input("./sub/../a.txt")).text, whole);
  fixture.context->cwd = fixture.project() + "/sub";
  EXPECT_EQ(fixture.run("read", path_input("../a.txt")).text, whole);
}

TEST(ReadToolTest, OffsetAndLimit) {
  ToolFixture fixture;
  std::string text;
  for (int i = 1; i <= 5000; ++i) text += std::to_string(i) + "\n";
  fixture.write("n", text);
  EXPECT_EQ(fixture.run("read", R"({"path": "n", "offset": 10, "limit": 2})").text,
            "    10\t10\n    11\t11\n(there are more lines; go on with offset 12)");
  EXPECT_EQ(fixture.run("read", R"({"path": "n", "offset": 5000})").text, "  5000\t5000");
  EXPECT_THAT(fixture.run("read", R"({"path": "n"})").text,
              EndsWith("\n  2000\t2000\n(there are more lines; go on with offset 2001)"));
  const ToolResult past = fixture.run("read", R"({"path": "n", "offset": 5001})");
  EXPECT_TRUE(past.is_error);
  EXPECT_EQ(past.text, "offset 5001 is past the end: \"" + fixture.project() + "/n\" has 5000 lines");
  fixture.write("empty", "");
  EXPECT_EQ(fixture.run("read", path_input("empty")).text, "(the file is empty)");
}

TEST(ReadToolTest, WhatIsNoTextFileIsRefusedClearly) {
  ToolFixture fixture;
  const std::string project = fixture.project();
  fixture.write("bin", std::string("\x7f"
                                   "ELF\0\0\1",
                                   7));
  ASSERT_EQ(::mkfifo((project + "/fifo").c_str(), 0600), 0);
  const std::pair<std::string, std::string> rows[] = {
      {"nope", "cannot open \"" + project + "/nope\": No such file or directory"},
      {"sub", "\"" + project + "/sub\" is a folder; list it with bash (ls), or search it with grep"},
      {"fifo", "\"" + project + "/fifo\" is not a regular file"},
      {"bin", "\"" + project + "/bin\" is a binary file (7 bytes)"},
      {"", "path must be the name of a file"},
      {std::string("a\0b", 3), "path must be the name of a file"},
  };
  for (const auto& [path, text] : rows) {
    const ToolResult result = fixture.run("read", path_input(path));
    EXPECT_TRUE(result.is_error);
    EXPECT_EQ(result.text, text);
  }
}

TEST(ReadToolTest, LongLinesAndBadBytesAreTamed) {
  ToolFixture fixture;
  fixture.write("long", std::string(3 << 20, 'x') + "\n\xff\xfe end\n");
  const std::string text = fixture.run("read", path_input("long")).text;
  EXPECT_LT(text.size(), 3000u);
  EXPECT_THAT(text, HasSubstr("characters cut"));
  EXPECT_THAT(text, HasSubstr("more bytes)"));
  EXPECT_THAT(text, EndsWith("     2\t\xef\xbf\xbd\xef\xbf\xbd end"));
}

TEST(ReadToolTest, OutsideTheProjectAndTheSessionPermissionIsNeeded) {
  ToolFixture fixture;
  fixture.write("a", "x");
  fs::create_symlink("/etc", fixture.project() + "/link");
  auto needs = [&](const std::string& path) {
    return fixture.registry.prepare("read", path_input(path), *fixture.context).permission;
  };
  EXPECT_FALSE(needs("a"));
  EXPECT_FALSE(needs("new/file"));
  EXPECT_FALSE(needs(fixture.root() + "/session/tasks/bg-1.output"));
  ASSERT_TRUE(needs("/etc/hostname"));
  EXPECT_EQ(needs("/etc/hostname")->kind, ActionKind::read_outside);
  EXPECT_EQ(needs("/etc/../etc/passwd")->subject, "/etc/passwd");
  ASSERT_TRUE(needs("link/passwd")) << "a link leads out of the project";
  EXPECT_EQ(needs("link/passwd")->subject, "/etc/passwd");
  EXPECT_TRUE(needs("../session2/x"));
  EXPECT_TRUE(needs(".."));
  EXPECT_TRUE(needs(fixture.project() + "2/x")) << "a name that only begins alike";
  EXPECT_TRUE(
      fixture.registry.prepare("grep", json::object{{"pattern", "x"}, {"path", "/etc"}}, *fixture.context).permission);
  EXPECT_FALSE(fixture.registry.prepare("grep", json::object{{"pattern", "x"}}, *fixture.context).permission);
}

// Both ways answer the same.
class GrepToolTest : public ::testing::TestWithParam<bool> {
 protected:
  GrepToolTest() {
    if (GetParam()) {
      if (find_program("rg").empty()) skip_ = true;
    } else {
      if (const char* path = std::getenv("PATH")) old_path_ = path;
      ::setenv("PATH", "/nowhere", 1);
    }
    fixture_.write("a.cc", "int todo;\n// TODO one\nint x;\n");
    fixture_.write("sub/b.h", "// TODO two\n// todo three\n");
    fixture_.write("sub/deep/c.cc", "nothing\n");
    fixture_.write("bin", std::string("TODO\0x", 6));
    fixture_.write(".hidden", "TODO\n");
    fixture_.write(".git/x", "TODO\n");
  }
  ~GrepToolTest() override {
    if (!old_path_.empty()) ::setenv("PATH", old_path_.c_str(), 1);
  }
  void SetUp() override {
    if (skip_) GTEST_SKIP() << "ripgrep is not installed";
  }

  std::string grep(const std::string& input) { return fixture_.run("grep", input).text; }

  ToolFixture fixture_;
  bool skip_ = false;
  std::string old_path_;
};

TEST_P(GrepToolTest, Matches) {
  EXPECT_EQ(grep(R"({"pattern": "TODO"})"), "a.cc:2:// TODO one\nsub/b.h:1:// TODO two");
  EXPECT_EQ(grep(R"({"pattern": "todo", "ignore_case": true, "path": "sub"})"),
            "sub/b.h:1:// TODO two\nsub/b.h:2:// todo three");
  EXPECT_EQ(grep(R"({"pattern": "TODO", "glob": "*.h"})"), "sub/b.h:1:// TODO two");
  EXPECT_EQ(grep(R"({"pattern": "TODO", "path": "a.cc"})"), "a.cc:2:// TODO one");
  EXPECT_EQ(grep(R"({"pattern": "TODO", "mode": "files"})"), "a.cc\nsub/b.h");
  EXPECT_EQ(grep(R"({"pattern": "(?i)todo", "mode": "count"})"), "a.cc:2\nsub/b.h:2");
  EXPECT_EQ(grep(R"({"pattern": "one", "context": 1})"), "a.cc-1-int todo;\na.cc:2:// TODO one\na.cc-3-int x;");
  EXPECT_EQ(grep(R"({"pattern": "nowhere to be found"})"), "No matches.");
  EXPECT_EQ(grep(R"({"pattern": "-x"})"), "No matches.") << "a pattern is no option";
  EXPECT_EQ(grep(R"({"pattern": "TODO", "limit": 1})"),
            "a.cc:2:// TODO one\n(there are more; narrow the pattern, the path or the glob)");
  fixture_.context->cwd = fixture_.project() + "/sub";
  EXPECT_EQ(grep(R"({"pattern": "TODO"})"), "b.h:1:// TODO two");
  EXPECT_EQ(grep(R"({"pattern": "one", "path": ".."})"), fixture_.project() + "/a.cc:2:// TODO one");
}

TEST_P(GrepToolTest, FaultsAreErrors) {
  const ToolResult bad = fixture_.run("grep", R"({"pattern": "("})");
  EXPECT_TRUE(bad.is_error) << bad.text;
  const ToolResult missing = fixture_.run("grep", R"({"pattern": "x", "path": "nope"})");
  EXPECT_TRUE(missing.is_error);
  EXPECT_EQ(missing.text, "cannot open \"" + fixture_.project() + "/nope\": No such file or directory");
  EXPECT_EQ(grep(R"({"pattern": "x", "mode": "lines"})"),
            "wrong value of argument: mode (expected one of \"content\", \"files\", \"count\", got \"lines\")");
}

TEST_P(GrepToolTest, AFloodIsBoundedAndAStopEndsIt) {
  std::string flood;
  for (int i = 0; i < 20000; ++i) flood += "TODO line " + std::to_string(i) + "\n";
  fixture_.write("flood", flood);
  const ToolResult result = fixture_.run("grep", R"({"pattern": "TODO", "limit": 10000})");
  EXPECT_LT(result.text.size(), 31000u);
  EXPECT_THAT(result.text, EndsWith("\n(there are more; narrow the pattern, the path or the glob)"));
  std::stop_source stop;
  stop.request_stop();
  const ToolResult stopped = fixture_.run("grep", R"({"pattern": "TODO"})", stop.get_token());
  EXPECT_TRUE(stopped.is_error);
  EXPECT_EQ(stopped.text, "the search was aborted by the user");
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutRipgrep, GrepToolTest, ::testing::Bool());

TEST(RunProgramTest, OutputErrorsAndStop) {
  const std::string sh = find_program("sh");
  ASSERT_FALSE(sh.empty());
  const int before = testing::open_descriptors();
  ProgramResult ran = run_program({sh, "-c", "echo out; echo err >&2; pwd; exit 3"}, "/", 1000, {});
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out, "out\n/\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(ran.exit_code, 3);
  ran = run_program({sh, "-c", "while :; do echo flood; done"}, "/", 1000, {});
  EXPECT_TRUE(ran.cut);
  EXPECT_EQ(ran.out.size(), 1000u);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(run_program({sh, "-c", "exec sleep 1000"}, "/", 1000, stop.get_token()).stopped);
  EXPECT_THAT(run_program({"/does/not/exist"}, "/", 1000, {}).error, EndsWith("No such file or directory"));
  EXPECT_EQ(testing::open_descriptors(), before);
}

}  // namespace
}  // namespace errand
