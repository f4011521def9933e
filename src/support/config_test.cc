// SPDX-License-Identifier: Apache-2.0
#include "support/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "support/log.h"

namespace errand {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/errand-config-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ + "/project/.errand");
    user_ = folder_ + "/user.toml";
    project_ = folder_ + "/project/.errand/config.toml";
    sources_.user_file = user_;
    sources_.project_folder = folder_ + "/project";
    sources_.environment = [this](const std::string& variable) -> std::optional<std::string> {
      const auto found = environment_.find(variable);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    };
    write(user_, "");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

  LoadedConfig load() {
    auto result = load_config(sources_);
    if (const std::string* error = std::get_if<std::string>(&result)) {
      ADD_FAILURE() << *error;
      return {};
    }
    return std::get<LoadedConfig>(std::move(result));
  }
  std::string error() {
    const auto result = load_config(sources_);
    const std::string* text = std::get_if<std::string>(&result);
    return text ? *text : "(none)";
  }
  std::string error_of(const std::string& user_file) {
    write(user_, user_file);
    return error();
  }

  std::string folder_, user_, project_;
  ConfigSources sources_;
  std::map<std::string, std::string> environment_;
};

TEST_F(ConfigTest, DefaultsAreTheContractsTable) {
  const Config config = load().config;
  const std::map<std::string, std::int64_t> numbers = {{"max_concurrent_background", 5},
                                                       {"max_output_chars", 65536},
                                                       {"max_output_file_bytes", 67108864},
                                                       {"max_session_output_bytes", 1073741824},
                                                       {"min_free_bytes", 536870912},
                                                       {"output_keep_days", 7},
                                                       {"stop_grace_ms", 2000},
                                                       {"output_drain_ms", 100},
                                                       {"max_survivor_tasks", 20},
                                                       {"max_concurrent_subagents", 5},
                                                       {"workflow_concurrency", 5},
                                                       {"start_window_ms", 300},
                                                       {"max_steps", 200},
                                                       {"first_event_ms", 600000},
                                                       {"max_tokens", 0}};
  for (const auto& [name, value] : numbers) {
    EXPECT_EQ(config.number(name), value) << name;
    EXPECT_TRUE(config.is_default(name)) << name;
  }
  EXPECT_FALSE(config.flag("wake_for_user_tasks"));
  EXPECT_FALSE(config.flag("pass_keys"));
  EXPECT_EQ(config.text("permission_mode"), "default");
  EXPECT_EQ(config.text("model"), "");
  EXPECT_EQ(config.text("shell"), "");
  EXPECT_TRUE(config.list("allow").empty());
  EXPECT_EQ(config.entries().size(), numbers.size() + 7);
}

TEST_F(ConfigTest, EveryLimitIsExactAtBothEnds) {
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> ranges = {
      {"max_concurrent_background", {1, 10000}},
      {"max_output_chars", {1024, 16777216}},
      {"stop_grace_ms", {0, 60000}},
      {"output_drain_ms", {0, 5000}},
      {"max_concurrent_subagents", {1, 64}},
      {"workflow_concurrency", {1, 64}},
      {"start_window_ms", {0, 5000}},
      {"max_steps", {1, 10000}}};
  for (const auto& [name, range] : ranges) {
    for (const std::int64_t good : {range.first, range.second}) {
      EXPECT_EQ(error_of(name + " = " + std::to_string(good)), "(none)") << name;
    }
    for (const std::int64_t bad : {range.first - 1, range.second + 1}) {
      EXPECT_EQ(error_of("\n" + name + " = " + std::to_string(bad)),
                user_ + ":2: " + name + ": " + std::to_string(bad) +
                    " is not allowed; allowed: " + std::to_string(range.first) + ".." + std::to_string(range.second));
    }
  }
  EXPECT_EQ(error_of("max_output_file_bytes = 131071"),
            user_ + ":1: max_output_file_bytes: 131071 is not allowed; allowed: 131072 or more");
}

TEST_F(ConfigTest, LaterSourcesWinAndOriginsAreKept) {
  write(user_, "# mine\nmax_steps = 10\nstop_grace_ms = 11\nmax_tokens = 12\noutput_drain_ms = 13\n");
  write(project_, "stop_grace_ms = 21\nmax_tokens = 22\noutput_drain_ms = 23\n");
  environment_ = {{"ERRAND_MAX_TOKENS", "32"}, {"ERRAND_OUTPUT_DRAIN_MS", "33"}, {"ERRAND_MAX_STEPS", ""}};
  sources_.flags = {{"output_drain_ms", "43"}};
  const LoadedConfig loaded = load();
  EXPECT_EQ(loaded.config.number("max_steps"), 10);
  EXPECT_EQ(loaded.config.number("stop_grace_ms"), 21);
  EXPECT_EQ(loaded.config.number("max_tokens"), 32);
  EXPECT_EQ(loaded.config.number("output_drain_ms"), 43);
  EXPECT_THAT(loaded.config.entry("max_steps").origins, ElementsAre(user_ + ":2"));
  EXPECT_THAT(loaded.config.entry("stop_grace_ms").origins, ElementsAre(project_ + ":1"));
  EXPECT_THAT(loaded.config.entry("max_tokens").origins, ElementsAre("ERRAND_MAX_TOKENS"));
  EXPECT_THAT(loaded.config.entry("output_drain_ms").origins, ElementsAre("--output-drain-ms"));
  EXPECT_THAT(loaded.config.entry("max_output_chars").origins, ElementsAre("default"));
  EXPECT_FALSE(loaded.config.is_default("max_steps"));
  EXPECT_TRUE(loaded.warnings.empty());
}

TEST_F(ConfigTest, ListsAddUpSoThatNoDenyIsLost) {
  write(user_, "deny = ['bash(a*)']\nallow = ['bash(git status*)',\n 'edit(src/**)']\n");
  write(project_, "deny = []\n");
  environment_ = {{"ERRAND_DENY", "[\"bash(b, c)\", 'bash(d)']"}, {"ERRAND_ALLOW", "bash(ls)"}};
  sources_.flags = {{"deny", "bash(e)"}, {"deny", "bash(f)"}};
  const LoadedConfig loaded = load();
  EXPECT_THAT(loaded.config.list("deny"), ElementsAre("bash(a*)", "bash(b, c)", "bash(d)", "bash(e)", "bash(f)"));
  EXPECT_THAT(loaded.config.entry("deny").origins,
              ElementsAre(user_ + ":1", "ERRAND_DENY", "ERRAND_DENY", "--deny", "--deny"));
  EXPECT_THAT(loaded.config.list("allow"), ElementsAre("bash(git status*)", "edit(src/**)", "bash(ls)"));
}

TEST_F(ConfigTest, UnknownKeysAreRefused) {
  EXPECT_THAT(
      error_of("max_steps = 3\nmax_stepps = 4\n"),
      StartsWith(user_ +
                 ":2: unknown key \"max_stepps\" with the value 4; the keys are model, permission_mode, allow, "));
  EXPECT_THAT(error_of("[engine]\nmax_steps = 3\n"),
              StartsWith(user_ + ":1: unknown key \"engine\" with the value a table; the keys are "));
  EXPECT_THAT(error_of("[[max_steps]]\n"), StartsWith(user_ + ":1: max_steps: a table is not allowed; allowed: "));
  write(user_, "");
  sources_.flags = {{"nonsense", "1"}};
  EXPECT_THAT(error(), StartsWith("unknown key \"nonsense\"; the keys are model, "));
}

TEST_F(ConfigTest, WrongTypesAreRefused) {
  EXPECT_EQ(error_of("max_steps = \"ten\""), user_ + ":1: max_steps: \"ten\" is not allowed; allowed: 1..10000");
  EXPECT_EQ(error_of("max_steps = 1.5"), user_ + ":1: max_steps: 1.5 is not allowed; allowed: 1..10000");
  EXPECT_EQ(error_of("max_steps = [1]"), user_ + ":1: max_steps: [ 1 ] is not allowed; allowed: 1..10000");
  EXPECT_EQ(error_of("pass_keys = 1"), user_ + ":1: pass_keys: 1 is not allowed; allowed: true, false");
  EXPECT_EQ(error_of("allow = \"bash\""),
            user_ + ":1: allow: \"bash\" is not allowed; allowed: a list of strings that are not empty");
  EXPECT_EQ(error_of("deny = ['']"),
            user_ + ":1: deny: [\"\"] is not allowed; allowed: a list of strings that are not empty");
  EXPECT_EQ(error_of("shell = 'zsh'"), user_ + ":1: shell: \"zsh\" is not allowed; allowed: an absolute path");
  EXPECT_EQ(error_of("model = 'gpt'"),
            user_ + ":1: model: \"gpt\" is not allowed; allowed: \"anthropic:NAME\", \"scripted:FILE\"");
  EXPECT_EQ(
      error_of("permission_mode = 'yolo'"),
      user_ +
          ":1: permission_mode: \"yolo\" is not allowed; allowed: \"default\", \"accept-edits\", \"plan\", \"bypass\"");
  EXPECT_THAT(error_of("max_steps = 99999999999999999999"), StartsWith(user_ + ": line 1, column "));
}

TEST_F(ConfigTest, BadTomlNamesItsPlace) {
  EXPECT_THAT(error_of("max_steps = 3\nmodel = \n"), StartsWith(user_ + ": line 2, column "));
  EXPECT_THAT(error_of("max_steps = 3\nmax_steps = 4\n"), StartsWith(user_ + ": line 2, column "));
  EXPECT_THAT(error_of("deny = ['\xff']"), StartsWith(user_ + ": line 1, column "));
}

TEST_F(ConfigTest, WrongVariablesAndFlagsAreNamed) {
  environment_ = {{"ERRAND_MAX_STEPS", "0"}};
  EXPECT_EQ(error(), "ERRAND_MAX_STEPS: \"0\" is not allowed; allowed: 1..10000");
  environment_ = {{"ERRAND_MAX_STEPS", "12x"}};
  EXPECT_EQ(error(), "ERRAND_MAX_STEPS: \"12x\" is not allowed; allowed: 1..10000");
  environment_ = {{"ERRAND_PASS_KEYS", "yes"}};
  EXPECT_EQ(error(), "ERRAND_PASS_KEYS: \"yes\" is not allowed; allowed: true, false");
  environment_ = {{"ERRAND_DENY", "[1]"}};
  EXPECT_EQ(error(), "ERRAND_DENY: \"[1]\" is not allowed; allowed: a list of strings that are not empty");
  environment_.clear();
  sources_.flags = {{"permission_mode", "all"}};
  EXPECT_EQ(error(),
            "--permission-mode: \"all\" is not allowed; allowed: \"default\", \"accept-edits\", \"plan\", \"bypass\"");
}

TEST_F(ConfigTest, AProjectsFileCannotWidenPermissionsOrNamePrograms) {
  write(
      project_,
      "allow = ['bash(*)']\npermission_mode = 'bypass'\nshell = '/tmp/evil'\nmodel = 'anthropic:x'\npass_keys = true\n"
      "deny = ['bash(rm*)']\nmax_steps = 7\n");
  const LoadedConfig loaded = load();
  EXPECT_TRUE(loaded.config.list("allow").empty());
  EXPECT_EQ(loaded.config.text("permission_mode"), "default");
  EXPECT_EQ(loaded.config.text("shell"), "");
  EXPECT_EQ(loaded.config.text("model"), "");
  EXPECT_FALSE(loaded.config.flag("pass_keys"));
  EXPECT_THAT(loaded.config.list("deny"), ElementsAre("bash(rm*)"));
  EXPECT_EQ(loaded.config.number("max_steps"), 7);
  ASSERT_EQ(loaded.warnings.size(), 5u);
  EXPECT_THAT(loaded.warnings[1],
              StartsWith(project_ + ":2: permission_mode is ignored: a project's file cannot widen "));
  EXPECT_THAT(loaded.warnings[1], HasSubstr("run \"errand trust\" in this folder"));
  ASSERT_EQ(loaded.guarded.size(), 5u);
  for (const GuardedSetting& setting : loaded.guarded) EXPECT_FALSE(setting.in_force) << setting.origin;
  write(project_, "allow = 3\n");
  EXPECT_THAT(error(), StartsWith(project_ + ":1: allow: 3 is not allowed"));
}

TEST_F(ConfigTest, ATrustedProjectsFileMayWidenPermissionsAndNamePrograms) {
  write(user_, "allow = ['bash(ls)']\npermission_mode = 'plan'\n");
  write(project_,
        "allow = ['bash(*)']\npermission_mode = 'bypass'\nshell = '/tmp/mine'\nmodel = 'anthropic:x'\nmax_steps = 7\n");
  sources_.project_is_trusted = true;
  const LoadedConfig loaded = load();
  EXPECT_THAT(loaded.config.list("allow"), ElementsAre("bash(ls)", "bash(*)"));
  EXPECT_EQ(loaded.config.text("permission_mode"), "bypass");
  EXPECT_THAT(loaded.config.entry("permission_mode").origins, ElementsAre(project_ + ":2"));
  EXPECT_EQ(loaded.config.text("shell"), "/tmp/mine");
  EXPECT_EQ(loaded.config.text("model"), "anthropic:x");
  EXPECT_TRUE(loaded.warnings.empty());
  ASSERT_EQ(loaded.guarded.size(), 4u);
  for (const GuardedSetting& setting : loaded.guarded) EXPECT_TRUE(setting.in_force) << setting.origin;
}

TEST_F(ConfigTest, NoProjectsFileHandsOutTheUsersKeysTrustedOrNot) {
  write(project_, "pass_keys = true\n");
  for (const bool trusted : {false, true}) {
    sources_.project_is_trusted = trusted;
    const LoadedConfig loaded = load();
    EXPECT_FALSE(loaded.config.flag("pass_keys"));
    EXPECT_THAT(
        loaded.warnings,
        ElementsAre(StartsWith(project_ + ":1: pass_keys is ignored: no project's file can set it; set it in /")));
  }
  for (const char* none : {"env = []", "environment = ['A=b']", "anthropic_api_key = 'x'", "ANTHROPIC_API_KEY = 'x'"}) {
    write(project_, none);
    EXPECT_THAT(error(), StartsWith(project_ + ":1: unknown key ")) << none;
  }
}

TEST_F(ConfigTest, FilesThatCannotBeRead) {
  sources_.user_file = folder_ + "/none.toml";
  EXPECT_EQ(error(), "cannot open \"" + folder_ + "/none.toml\": No such file or directory");
  sources_.user_file = folder_;
  EXPECT_EQ(error(), "cannot read \"" + folder_ + "\": Is a directory");
  sources_.user_file = user_;
  sources_.project_folder = folder_ + "/nowhere";
  EXPECT_EQ(error(), "(none)");
}

TEST_F(ConfigTest, LogIsPrivateAndHoldsNoKey) {
  const std::string home = folder_ + "/state";
  unsetenv("ERRAND_LOG");
  EXPECT_EQ(log::open(home), "");
  EXPECT_FALSE(std::filesystem::exists(home));
  setenv("ERRAND_LOG", "loud", 1);
  EXPECT_EQ(log::open(home), "ERRAND_LOG: \"loud\" is not allowed; allowed: trace, debug, info, warn, error, 1");
  setenv("ERRAND_LOG", "info", 1);
  setenv("ANTHROPIC_API_KEY", "sk-very-secret", 1);
  EXPECT_EQ(log::open(home), "");
  unsetenv("ANTHROPIC_API_KEY");
  unsetenv("ERRAND_LOG");
  EXPECT_FALSE(log::enabled(log::Level::debug));
  log::write(log::Level::debug, "not this");
  log::write(log::Level::warn, "key sk-very-secret and {braces}");
  std::ostringstream text;
  text << std::ifstream(home + "/errand.log").rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("warning key *** and {braces}\n"));
  EXPECT_THAT(text.str(), testing::Not(HasSubstr("not this")));
  struct stat info{};
  ASSERT_EQ(::stat((home + "/errand.log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace errand
