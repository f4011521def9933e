// SPDX-License-Identifier: Apache-2.0
#include "permission/shell_parse.h"

#include <gtest/gtest.h>

#include <random>

namespace errand {
namespace {

ShellSurroundings surroundings() {
  ShellSurroundings result;
  result.folder = "/home/tester/project";
  result.home = "/home/tester";
  result.variable = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TOOL") return "make all";
    return std::nullopt;
  };
  return result;
}

std::vector<std::string> commands_of(const std::string& text) {
  std::vector<std::string> result;
  for (const ShellCommand& command : parse_shell(text, surroundings()).commands) {
    if (!command.words.empty()) result.push_back(command.text);
  }
  return result;
}

using Texts = std::vector<std::string>;

TEST(ShellParseTest, EverySimpleCommandOfACompoundOneIsSeen) {
  EXPECT_EQ(commands_of("a 1 && b | c; d & (e; f) || { g; }"), (Texts{"a 1", "b", "c", "d", "e", "f", "g"}));
  EXPECT_EQ(commands_of("if a; then b; elif c; then d; else e; fi"), (Texts{"a", "b", "c", "d", "e"}));
  EXPECT_EQ(commands_of("while a; do b; done; until c; do d; done"), (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(commands_of("case $x in a) b;; *) c;; esac"), (Texts{"b", "c"}));
  EXPECT_EQ(commands_of("! a; time b"), (Texts{"a", "time b", "b"}));
  EXPECT_EQ(commands_of("a \"$(b `c`)\" <(d)"),
            (Texts{"c", "b ${_unresolved_}", "d", "a ${_unresolved_} ${_unresolved_}"}));
  EXPECT_EQ(commands_of("a $((1 + $(c))) $[$(d)]"), (Texts{"c", "d", "a ${_unresolved_} ${_unresolved_}"}));
  EXPECT_EQ(commands_of("a ${x:-$(b)}").front(), "b");
  EXPECT_EQ(commands_of("cat <<EOF | b && c\ntext $(d)\nEOF"), (Texts{"d", "cat", "b", "c"}));
  EXPECT_EQ(commands_of("[ -n \"$(a)\" ] && [[ x == $(b) ]]"), (Texts{"a", "b"}));
}

TEST(ShellParseTest, WordsAreWhatTheShellWouldSee) {
  EXPECT_EQ(commands_of("\\a 'b c'\"d\"e\\ f $'g\\th' \"\""), (Texts{"a 'b cde f' 'g\th' ''"}));
  EXPECT_EQ(commands_of("x='1 2'; a $x \"$x\" ${x} ${#x}").back(), "a 1 2 '1 2' 1 2 ${_unresolved_}");
  EXPECT_EQ(commands_of("a {1..3} x{b,c}y ~ ~/d"), (Texts{"a 1 2 3 xby xcy /home/tester /home/tester/d"}));
  EXPECT_EQ(commands_of("$TOOL x"), (Texts{"make all x"}));
  EXPECT_EQ(commands_of("for f in a 'b c'; do cp $f \"$f\"; done"), (Texts{"cp a a", "cp b c 'b c'"}));
  EXPECT_EQ(commands_of("a=(1 2); b \"${a[@]}\" ${a[1]} $a"), (Texts{"b 1 2 2 1"}));
  EXPECT_EQ(commands_of("set -- p q; a \"$@\" $2"), (Texts{"set -- p q", "a p q q"}));
  EXPECT_EQ(commands_of("p=/x/y.tar.gz; a ${p##*/} ${p%.*} ${p%%.*} ${p#/} ${p:1:3}"),
            (Texts{"a y.tar.gz /x/y.tar /x/y x/y.tar.gz x/y"}));
  EXPECT_EQ(commands_of("f() { g $1; }; f x"), (Texts{"f x", "g x"}));
  EXPECT_EQ(commands_of("a $(echo b c)"), (Texts{"echo b c", "a b c"}));
  EXPECT_EQ(commands_of("x=a; x+=b; c $x"), (Texts{"c ab"}));
}

TEST(ShellParseTest, BothWaysOfAConditionCount) {
  EXPECT_EQ(commands_of("if t; then x=1; else x=2; fi; a $x"), (Texts{"t", "a 1", "a 2"}));
  EXPECT_EQ(commands_of("x=1; t && x=2; a $x"), (Texts{"t", "a 1", "a 2"}));
  EXPECT_EQ(commands_of("x=1; (x=2); a $x"), (Texts{"a 1"}));
}

TEST(ShellParseTest, CommandsThatRunCommandsAreFollowed) {
  EXPECT_EQ(commands_of("sudo -u u A=1 env -i B=2 nohup nice -n 5 timeout -k 1 2 xargs -n 1 a b").back(),
            "a b ${_unresolved_}");
  EXPECT_EQ(commands_of("find . -name x -exec a {} \\; -exec b {} +").size(), 3u);
  EXPECT_EQ(commands_of("ssh -p 1 h 'a; b'"), (Texts{"ssh -p 1 h 'a; b'", "a", "b"}));
  EXPECT_EQ(commands_of("bash -c 'a \"$1\"' _ x").back(), "a x");
  EXPECT_EQ(commands_of("eval a b").back(), "a b");
  EXPECT_EQ(commands_of("bash <<E\na\nE").back(), "a");
  EXPECT_EQ(commands_of("echo 'a b' | sh").back(), "a b");
}

TEST(ShellParseTest, TheFolderIsFollowed) {
  const ShellScript script = parse_shell("cd src; a; cd \"$X\"; b", surroundings());
  ASSERT_EQ(script.commands.size(), 4u);
  EXPECT_EQ(script.commands[1].folders, (Texts{"/home/tester/project/src"}));
  EXPECT_TRUE(script.commands[3].folders.empty());
}

TEST(ShellParseTest, WhatCannotBeFollowedIsAFinding) {
  auto finding = [](const std::string& text) {
    const ShellScript script = parse_shell(text, surroundings());
    return script.findings.empty() ? -1 : static_cast<int>(script.findings[0].kind);
  };
  EXPECT_EQ(finding("a; b | c"), -1);
  EXPECT_EQ(finding("$X y"), static_cast<int>(ShellFinding::Kind::unresolved_command));
  EXPECT_EQ(finding("a ("), static_cast<int>(ShellFinding::Kind::unreadable));
  EXPECT_EQ(finding(std::string(300000, 'x')), static_cast<int>(ShellFinding::Kind::unreadable));
  std::string deep = "a";
  for (int i = 0; i < 400; ++i) deep = "$(" + deep + ")";
  EXPECT_EQ(finding("echo " + deep), static_cast<int>(ShellFinding::Kind::unreadable));
  std::string evals = "a";
  for (int i = 0; i < 12; ++i) evals = "for i in 1 2 3 4 5 6 7 8; do " + evals + "; done";
  EXPECT_EQ(finding(evals), static_cast<int>(ShellFinding::Kind::unreadable)) << "work is bounded";
}

// Random pieces of shell, and random bytes: neither crashes nor takes long.
TEST(ShellParseTest, RandomInputIsReadOrRefused) {
  const char* const kPieces[] = {"a",          " ",        "'",
                                 "\"",         "$",        "{",
                                 "}",          "(",        ")",
                                 "$(",         "`",        "<<E",
                                 "\n",         "E",        ";",
                                 "&",          "|",        "&&",
                                 "if ",        "then ",    "fi",
                                 "for x in ",  "do ",      "done",
                                 "case ",      "in ",      "esac",
                                 "$'\\",       "\\",       "=",
                                 "x=",         "${x:-",    "${!x",
                                 "[",          "]",        "[[",
                                 "]]",         "((",       "))",
                                 "<(",         ">(",       ">",
                                 "2>&1",       "#",        "*",
                                 "~",          "bash -c ", "eval ",
                                 "sudo ",      "xargs ",   "find . -exec ",
                                 "function f", "f()",      "$@",
                                 "\xff",       "\x01",     ",",
                                 "..",         "-rf /",    "rm "};
  std::mt19937 random(20240601);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const int pieces = static_cast<int>(random() % 30);
    for (int i = 0; i < pieces; ++i) {
      if (random() % 10 == 0) {
        text += static_cast<char>(random() % 256);
      } else {
        text += kPieces[random() % std::size(kPieces)];
      }
    }
    parse_shell(text, surroundings());
  }
}

}  // namespace
}  // namespace errand
