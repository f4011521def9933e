// SPDX-License-Identifier: Apache-2.0
#include "permission/permission.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "permission/pattern.h"

namespace errand {
namespace {

namespace fs = std::filesystem;

class PermissionTest : public ::testing::Test {
 protected:
  PermissionTest() {
    std::string name = (fs::temp_directory_path() / "errand-permission-XXXXXX").string();
    root_ = fs::canonical(::mkdtemp(name.data()));
    fs::create_directories(root_ / "project/src");
    fs::create_directories(root_ / "outside");
    fs::create_directory_symlink(root_ / "outside", root_ / "project/link");
  }
  ~PermissionTest() override { fs::remove_all(root_); }

  std::string project() const { return (root_ / "project").string(); }
  std::string outside() const { return (root_ / "outside").string(); }
  PermissionQuery command(const std::string& text, const std::string& tool = "bash") const {
    return PermissionQuery{ActionKind::command, tool, text, project(), "main", project()};
  }
  PermissionQuery edit(const std::string& path) const {
    return PermissionQuery{ActionKind::edit, "write", path, project(), "main", project()};
  }
  PermissionQuery read(const std::string& path) const {
    return PermissionQuery{ActionKind::read_outside, "read", path, project(), "main", project()};
  }

  fs::path root_;
};

TEST_F(PermissionTest, DefaultModeAsksForEveryCommandInFrontAndBehind) {
  PermissionPipeline pipeline(PermissionMode::default_mode);
  for (const char* tool : {"bash", "background_bash"}) {
    for (const char* text : {"ls", "cat a", "git status", "make", "echo hi > x"}) {
      const Decision decision = pipeline.decide(command(text, tool));
      EXPECT_EQ(decision.verdict, Verdict::ask) << text;
      EXPECT_EQ(decision.rule, "mode default");
      EXPECT_EQ(decision.reason, "commands need permission in mode default");
    }
  }
}

TEST_F(PermissionTest, AnAllowPatternHoldsForEveryCommandInsideACompoundOne) {
  PermissionPipeline pipeline(PermissionMode::default_mode);
  ASSERT_EQ(pipeline.add_allow("bash(git status*)"), "");
  ASSERT_EQ(pipeline.add_allow("bash(npm test *)"), "");
  for (const char* text :
       {"git status", "git status -s", "npm test", "npm test -- a", "git status && npm test", "cd src && git status",
        "git status | git status", "git status > /dev/null 2>&1", "X=1; git status", "(git status)",
        "timeout 5 git status", "bash -c 'git status'", "for i in 1 2; do git status; done", "git status \"$X\""}) {
    EXPECT_EQ(pipeline.decide(command(text)).verdict, Verdict::allow)
        << text << ": " << pipeline.decide(command(text)).part;
    EXPECT_EQ(pipeline.decide(command(text, "background_bash")).verdict, Verdict::allow) << text;
  }
  EXPECT_EQ(pipeline.decide(command("git status && npm test")).rule, "allow bash(git status*)");
  for (const char* text : {"git push",
                           "git status; make",
                           "git status && rm x",
                           "git status | tee x",
                           "git status $(make)",
                           "git status <(make)",
                           "git status > x.txt",
                           "PATH=/x git status",
                           "PATH=/x; git status",
                           "git() { make; }; git status",
                           "cd / && git status",
                           "sudo git status",
                           "bash -c 'git status; make'",
                           "npm testing",
                           "ssh host git status",
                           "eval \"$X\"",
                           "LD_PRELOAD=x.so git status",
                           "git status `make`",
                           "git status\nmake",
                           "git status & make",
                           "cd src",
                           ""}) {
    EXPECT_EQ(pipeline.decide(command(text)).verdict, Verdict::ask) << text;
  }
}

TEST_F(PermissionTest, DenyWinsOverAskAndAllow) {
  PermissionPipeline pipeline(PermissionMode::bypass);
  ASSERT_EQ(pipeline.add_allow("bash"), "");
  ASSERT_EQ(pipeline.add_deny("bash(curl *)"), "");
  for (const char* text : {"curl x", "curl", "ls; curl x", "sudo curl x", "/usr/bin/curl x", "echo $(curl x)",
                           "bash -c 'curl x'", "c=curl; $c x"}) {
    const Decision decision = pipeline.decide(command(text));
    EXPECT_EQ(decision.verdict, Verdict::deny) << text;
    EXPECT_EQ(decision.rule, "deny bash(curl *)") << text;
  }
  EXPECT_EQ(pipeline.decide(command("git push -f")).verdict, Verdict::ask);
  EXPECT_EQ(pipeline.decide(command("rm -rf /")).verdict, Verdict::deny);
  EXPECT_EQ(pipeline.decide(command("echo curl x")).verdict, Verdict::allow);
}

TEST_F(PermissionTest, PlanDeniesWhatDoesNotPlainlyOnlyRead) {
  PermissionPipeline pipeline(PermissionMode::plan);
  ASSERT_EQ(pipeline.add_allow("bash"), "");
  for (const char* text : {"ls -la", "git status", "git log --oneline | head", "cat a | grep b", "find . -name x",
                           "git diff > /dev/null", "cd src && ls", "git branch -a", "sort a | uniq -c"}) {
    EXPECT_EQ(pipeline.decide(command(text)).verdict, Verdict::allow)
        << text << ": " << pipeline.decide(command(text)).part;
  }
  for (const char* text : {"make",
                           "rm x",
                           "ls > x",
                           "echo a >> b",
                           "git commit -m x",
                           "git branch new",
                           "find . -delete",
                           "find . -exec rm {} +",
                           "sort -o x y",
                           "git diff --output=x",
                           "./ls",
                           "ls; make",
                           "cat a | tee b",
                           "$X",
                           "git -c core.pager=x log",
                           "FOO=1 ls",
                           "git push -f",
                           "curl x",
                           "sed -i s/a/b/ x",
                           "bash x.sh",
                           "ssh h ls",
                           "date -s 1"}) {
    EXPECT_EQ(pipeline.decide(command(text)).verdict, Verdict::deny) << text;
  }
  EXPECT_EQ(pipeline.decide(command("make")).rule, "mode plan");
  EXPECT_EQ(pipeline.decide(edit(project() + "/a")).verdict, Verdict::deny);
  PermissionPipeline bare(PermissionMode::plan);
  EXPECT_EQ(bare.decide(command("ls")).verdict, Verdict::ask);
}

TEST_F(PermissionTest, AcceptEditsAllowsEditsInsideTheProjectOnly) {
  PermissionPipeline pipeline(PermissionMode::accept_edits);
  EXPECT_EQ(pipeline.decide(edit(project() + "/src/new.cc")).verdict, Verdict::allow);
  EXPECT_EQ(pipeline.decide(edit(outside() + "/x")).verdict, Verdict::ask);
  EXPECT_EQ(pipeline.decide(edit(project() + "/../outside/x")).verdict, Verdict::ask);
  EXPECT_EQ(pipeline.decide(edit(project() + "/link/x")).verdict, Verdict::ask) << "a link leads out of the project";
  EXPECT_EQ(pipeline.decide(edit(project() + "/.git/hooks/pre-commit")).verdict, Verdict::ask);
  EXPECT_EQ(pipeline.decide(edit(project() + "/.errand/config.toml")).verdict, Verdict::ask);
  EXPECT_EQ(pipeline.decide(command("touch x")).verdict, Verdict::ask);
  PermissionPipeline standard(PermissionMode::default_mode);
  EXPECT_EQ(standard.decide(edit(project() + "/a")).verdict, Verdict::ask);
  ASSERT_EQ(standard.add_allow("edit(src/**)"), "");
  EXPECT_EQ(standard.decide(edit(project() + "/src/deep/a")).verdict, Verdict::allow);
  EXPECT_EQ(standard.decide(edit(project() + "/src/../a")).verdict, Verdict::ask);
  // A redirection of an allowed command counts as an edit.
  ASSERT_EQ(standard.add_allow("bash(echo *)"), "");
  EXPECT_EQ(standard.decide(command("echo x > src/a")).verdict, Verdict::allow);
  EXPECT_EQ(standard.decide(command("echo x > a")).verdict, Verdict::ask);
}

TEST_F(PermissionTest, ReadingOutsideAsksAndStoppingOwnTasksNeverDoes) {
  PermissionPipeline pipeline(PermissionMode::default_mode);
  EXPECT_EQ(pipeline.decide(read(outside() + "/x")).verdict, Verdict::ask);
  ASSERT_EQ(pipeline.add_allow("read(" + outside() + "/**)"), "");
  EXPECT_EQ(pipeline.decide(read(outside() + "/x")).verdict, Verdict::allow);
  ASSERT_EQ(pipeline.add_deny("read(" + outside() + "/secret*)"), "");
  EXPECT_EQ(pipeline.decide(read(outside() + "/secret.txt")).verdict, Verdict::deny);
  for (PermissionMode mode :
       {PermissionMode::default_mode, PermissionMode::accept_edits, PermissionMode::plan, PermissionMode::bypass}) {
    pipeline.set_mode(mode);
    EXPECT_EQ(pipeline.mode(), mode);
    EXPECT_EQ(pipeline.decide(PermissionQuery{ActionKind::stop_own_task, "background_stop", "bg-1", project()}).verdict,
              Verdict::allow);
  }
}

TEST_F(PermissionTest, ABadPatternIsReported) {
  PermissionPipeline pipeline(PermissionMode::default_mode);
  EXPECT_EQ(pipeline.add_allow("bash(git status*"),
            "permission pattern \"bash(git status*\": the closing parenthesis is missing");
  EXPECT_EQ(pipeline.add_allow("(x)"), "permission pattern \"(x)\": expected tool(pattern), e.g. bash(git status*)");
  EXPECT_EQ(pipeline.add_deny("shell(x)"),
            "permission pattern \"shell(x)\": unknown tool \"shell\" (known: bash, background_bash, read, grep, glob, "
            "edit, write)");
  EXPECT_EQ(pipeline.add_deny("bash()"),
            "permission pattern \"bash()\": nothing stands between the parentheses; write bash for everything");
}

TEST_F(PermissionTest, ThePatternOfAlwaysAllowsTheSameAndNothingBroad) {
  const std::pair<const char*, const char*> rows[] = {
      {"npm test -- --watch", "bash(npm test*)"},
      {"git status", "bash(git status*)"},
      {"cd src && git status", "bash(git status*)"},
      {"ls -la", "bash(ls *)"},
      {"./gradlew test", "bash(./gradlew test*)"},
      {"rm -rf build/*", "bash(rm -rf build/\\*)"},
      {"sudo make", "bash(sudo make)"},
      {"make && ./run", "bash(make && ./run)"},
      {"echo a > b", "bash(echo a > b)"},
      {"git -c x=y log", "bash(git -c x=y log)"},
  };
  for (const auto& [text, pattern] : rows) {
    PermissionPipeline pipeline(PermissionMode::default_mode);
    EXPECT_EQ(pipeline.pattern_for(command(text)), pattern);
    ASSERT_EQ(pipeline.add_allow(pattern), "");
    EXPECT_EQ(pipeline.decide(command(text)).verdict, Verdict::allow) << text;
  }
  PermissionPipeline pipeline(PermissionMode::default_mode);
  ASSERT_EQ(pipeline.add_allow(pipeline.pattern_for(command("rm -rf build/*"))), "");
  EXPECT_EQ(pipeline.decide(command("rm -rf build/x src")).verdict, Verdict::ask);
  EXPECT_EQ(pipeline.pattern_for(read(outside() + "/x")), "read(" + outside() + "/**)");
  EXPECT_EQ(pipeline.pattern_for(edit(project() + "/src/a.cc")), "edit(src/**)");
}

TEST_F(PermissionTest, Wildcards) {
  EXPECT_TRUE(matches_wildcards("a*c", "abbc"));
  EXPECT_TRUE(matches_wildcards("*", ""));
  EXPECT_TRUE(matches_wildcards("a\\*", "a*"));
  EXPECT_FALSE(matches_wildcards("a\\*", "ab"));
  EXPECT_FALSE(matches_wildcards("a*c", "abcd"));
  EXPECT_FALSE(matches_wildcards("", "a"));
  EXPECT_FALSE(matches_wildcards("*a*a*a*a*a*a*a*a*b", std::string(20000, 'a')));
}

}  // namespace
}  // namespace errand
