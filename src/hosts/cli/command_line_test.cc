// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace errand::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::variant<Request, UsageError> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "errand");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}
Request good(std::vector<const char*> arguments) {
  auto parsed = parse(std::move(arguments));
  EXPECT_TRUE(std::holds_alternative<Request>(parsed));
  return std::holds_alternative<Request>(parsed) ? std::get<Request>(parsed) : Request{};
}
std::string wrong(std::vector<const char*> arguments) {
  auto parsed = parse(std::move(arguments));
  return std::holds_alternative<UsageError>(parsed) ? std::get<UsageError>(parsed).text : "(accepted)";
}

TEST(CommandLineTest, NothingIsTheRepl) { EXPECT_EQ(good({}).what, Request::What::repl); }

TEST(CommandLineTest, OptionsBecomeFlagsOfTheConfiguration) {
  const Request request = good({"--model", "scripted:a.json", "--permission-mode=plan", "--config", "c.toml"});
  EXPECT_THAT(request.flags, ElementsAre(Pair("model", "scripted:a.json"), Pair("permission_mode", "plan")));
  EXPECT_EQ(request.config_file, "c.toml");
}

TEST(CommandLineTest, Demo) { EXPECT_EQ(good({"demo"}).what, Request::What::demo); }

TEST(CommandLineTest, ConfigTakesTheOptionsOnBothSides) {
  const Request request = good({"--permission-mode", "plan", "config", "--model", "scripted:a.json"});
  EXPECT_EQ(request.what, Request::What::config);
  EXPECT_THAT(request.flags, ElementsAre(Pair("model", "scripted:a.json"), Pair("permission_mode", "plan")));
}

TEST(CommandLineTest, TrustIsGivenTakenBackOrListed) {
  EXPECT_EQ(good({"trust"}).what, Request::What::trust);
  EXPECT_EQ(good({"trust"}).trust, Request::Trust::add);
  EXPECT_EQ(good({"trust", "--remove"}).trust, Request::Trust::remove);
  EXPECT_EQ(good({"trust", "--list"}).trust, Request::Trust::list);
  EXPECT_THAT(wrong({"trust", "--list", "--remove"}), HasSubstr("--remove"));
  EXPECT_EQ(wrong({"trust", "/elsewhere"}), "/elsewhere: unknown command (see errand --help)");
  EXPECT_EQ(wrong({"--remove"}), "--remove: unknown option (see errand --help)");
  EXPECT_THAT(good({"--help"}).text, ContainsRegex("\n  trust  .*--remove, --list"));
}

TEST(CommandLineTest, VersionAndHelpAreTexts) {
  EXPECT_EQ(good({"--version"}).text, std::string("errand ") + version + "\n");
  EXPECT_THAT(good({"--help"}).text, HasSubstr("--permission-mode"));
}

TEST(CommandLineTest, WhatIsNotOfferedIsRefused) {
  EXPECT_EQ(wrong({"-p", "hello"}), "-p: unknown option (see errand --help)");
  EXPECT_EQ(wrong({"--frob"}), "--frob: unknown option (see errand --help)");
  EXPECT_EQ(wrong({"mcp"}), "mcp: unknown command (see errand --help)");
  EXPECT_EQ(wrong({"demo", "more"}), "more: unknown command (see errand --help)");
  EXPECT_EQ(wrong({"config", "more"}), "more: unknown command (see errand --help)");
  EXPECT_EQ(wrong({"config", "--frob"}), "--frob: unknown option (see errand --help)");
  EXPECT_THAT(wrong({"--model"}), HasSubstr("--model: "));
}

}  // namespace
}  // namespace errand::cli
