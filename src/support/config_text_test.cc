// SPDX-License-Identifier: Apache-2.0
#include "support/config_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/toml_file.h"

namespace errand {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Config loaded(std::vector<std::pair<std::string, std::string>> flags,
              std::function<std::optional<std::string>(const std::string&)> environment) {
  ConfigSources sources;
  sources.user_file = "/dev/null";
  sources.flags = std::move(flags);
  sources.environment = std::move(environment);
  auto result = load_config(sources);
  if (const auto* error = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *error;
    return {};
  }
  return std::get<LoadedConfig>(result).config;
}

std::optional<std::string> nothing(const std::string&) { return std::nullopt; }

TEST(ConfigTextTest, EveryKeyHasALineWithItsOrigin) {
  const std::string text = config_text(loaded({{"max_steps", "7"}}, [](const std::string& name) {
    return name == "ERRAND_MODEL" ? std::optional<std::string>("scripted:a \"b\".json") : std::nullopt;
  }));
  EXPECT_THAT(text, HasSubstr("\nmax_steps = 7                                 # --max-steps\n"));
  EXPECT_THAT(text, HasSubstr("model = \"scripted:a \\\"b\\\".json\"  "));
  EXPECT_THAT(text, HasSubstr("  # ERRAND_MODEL\n"));
  EXPECT_THAT(text, HasSubstr("\nstop_grace_ms = 2000                          # default\n"));
  for (const ConfigKey& key : config_keys())
    EXPECT_THAT(text, ContainsRegex("(^|\n)(# )?" + std::string(key.name) + " = ")) << key.name;
}

TEST(ConfigTextTest, AListFromSeveralPlacesHasALineAnItem) {
  const std::string text = config_text(loaded({{"deny", "bash(b)"}}, [](const std::string& name) {
    return name == "ERRAND_DENY" ? std::optional<std::string>("bash(a)") : std::nullopt;
  }));
  EXPECT_THAT(text, HasSubstr("deny = [\n  \"bash(a)\",                                  # ERRAND_DENY\n"
                              "  \"bash(b)\",                                  # --deny\n]\n"));
}

TEST(ConfigTextTest, WhatIsIgnoredIsAComment) {
  const auto key = [](std::string_view name) -> const ConfigKey* { return Config().entry(name).key; };
  EXPECT_EQ(ignored_text({{key("permission_mode"), ConfigValue(std::string("plan")), "/p/c:2", true}}), "");
  const std::string text = ignored_text({{key("allow"), ConfigValue(std::vector<std::string>{"a\nb"}), "/p/c:1", false},
                                         {key("pass_keys"), ConfigValue(true), "/p/c:3", false}});
  EXPECT_EQ(text,
            "# allow = [\"a\\nb\"]                            # /p/c:1, ignored: folder not trusted\n"
            "# pass_keys = true                            # /p/c:3, ignored: no project's file can set it\n");
}

TEST(ConfigTextTest, WhatIsPrintedIsReadBackAsTheSame) {
  const Config config =
      loaded({{"deny", "bash(\x7f\t\"\\)"}, {"deny", "bash(\xc3\xa9)"}, {"pass_keys", "true"}}, nothing);
  const auto parsed = parse_toml(config_text(config));
  ASSERT_TRUE(std::holds_alternative<std::vector<TomlEntry>>(parsed)) << std::get<std::string>(parsed);
  const auto& entries = std::get<std::vector<TomlEntry>>(parsed);
  ASSERT_EQ(entries.size(), config.entries().size() - 2);  // but for the unset: model, shell
  for (const TomlEntry& entry : entries) {
    if (entry.key == "deny") {
      EXPECT_THAT(std::get<std::vector<std::string>>(entry.value), ElementsAre("bash(\x7f\t\"\\)", "bash(\xc3\xa9)"));
    }
    const bool* flag = std::get_if<bool>(&entry.value);
    EXPECT_EQ(entry.key == "pass_keys", flag != nullptr && *flag) << entry.key;
  }
}

TEST(ConfigTextTest, TheModelThatAnswersWhenNoneIsNamed) {
  EXPECT_THAT(config_text(loaded({}, nothing), "anthropic:m"), HasSubstr("model = \"anthropic:m\"  "));
  EXPECT_THAT(config_text(loaded({}, nothing)), HasSubstr("# model = \"\"  "));
}

}  // namespace
}  // namespace errand
