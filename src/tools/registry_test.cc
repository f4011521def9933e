// SPDX-License-Identifier: Apache-2.0
#include "tools/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tools/builtin.h"
#include "tools/tools_testing.h"

namespace errand {
namespace {

using ::testing::ElementsAre;
using testing::ToolFixture;

class ThrowingTool : public Tool {
 public:
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return true; }
  std::optional<PermissionQuery> permission(const json::object&, const ToolContext&) const override {
    return std::nullopt;
  }
  ToolResult run(const json::object& input, ToolContext&, std::stop_token) override {
    if (flag_argument(input, "odd")) throw 5;
    throw std::runtime_error("boom");
  }

 private:
  const ToolSpec spec_ = make_spec("thrower", "", R"({"type": "object", "properties": {"odd": {"type": "boolean"}}})");
};

TEST(RegistryTest, SpecsStandInAStableOrder) {
  ToolFixture fixture;
  std::vector<std::string> names;
  std::string bytes;
  for (const ToolSpec& spec : fixture.registry.specs()) {
    names.push_back(spec.name);
    bytes += to_text(spec.input_schema);
    EXPECT_FALSE(spec.description.empty());
    EXPECT_EQ(get_string(spec.input_schema, "type"), "object");
  }
  EXPECT_THAT(names, ElementsAre("bash", "background_bash", "background_output", "background_wait", "background_stop",
                                 "background_list", "read", "grep"));
  std::string again;
  for (const ToolSpec& spec : fixture.registry.specs()) again += to_text(spec.input_schema);
  EXPECT_EQ(bytes, again);
}

TEST(RegistryTest, EveryCallGetsAResult) {
  ToolFixture fixture;
  fixture.registry.add(std::make_unique<ThrowingTool>());
  ToolResult result = fixture.run("thrower", "{}");
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "the tool failed: boom");
  EXPECT_EQ(fixture.run("thrower", R"({"odd": true})").text, "the tool failed: unknown exception");
  EXPECT_EQ(
      fixture.run("frobnicate", "{}").text,
      "unknown tool: frobnicate (known: bash, background_bash, background_output, background_wait, background_stop, "
      "background_list, read, grep, thrower)");
  EXPECT_EQ(fixture.run("bash", json::object{{"__invalid_json", "{\"command\": "}}).text,
            "the arguments of bash are no valid JSON object; nothing was run. Received: {\"command\": ");
}

TEST(RegistryTest, ReadOnlyToolsAreKnownAsSuch) {
  ToolFixture fixture;
  const std::pair<const char*, bool> rows[] = {{"bash", false},
                                               {"background_bash", false},
                                               {"background_output", true},
                                               {"background_wait", true},
                                               {"background_stop", false},
                                               {"background_list", true},
                                               {"read", true},
                                               {"grep", true}};
  for (const auto& [name, read_only] : rows) EXPECT_EQ(fixture.registry.find(name)->read_only(), read_only) << name;
}

TEST(RegistryTest, ValidationNamesTheFieldAndWhatWasExpected) {
  std::string error;
  const json::object schema = parse_json(R"({"type": "object", "properties": {
      "s": {"type": "string"}, "i": {"type": "integer", "minimum": 1, "maximum": 5}, "n": {"type": "number", "minimum": 0.5},
      "b": {"type": "boolean"}, "e": {"type": "string", "enum": ["x", "y"]}, "a": {"type": "array", "items": {"type": "string"}},
      "m": {"type": "integer", "maximum": 9}, "o": {"type": "object"}}, "required": ["s"]})",
                                         error)
                                  ->get_object();
  const std::pair<const char*, const char*> rows[] = {
      {R"({"s": "x", "i": 1, "n": 1, "b": true, "e": "y", "a": ["p"], "m": -3, "o": {}})", ""},
      {R"({"s": "x", "i": 5.0})", ""},
      {R"({})", "missing required argument: s (string)"},
      {R"({"s": null})", "wrong type of argument: s (expected string, got null)"},
      {R"({"s": 5})", "wrong type of argument: s (expected string, got integer)"},
      {R"({"s": "x", "i": 1.5})", "wrong type of argument: i (expected integer, got number)"},
      {R"({"s": "x", "i": 6})", "argument out of range: i (expected 1 to 5, got 6)"},
      {R"({"s": "x", "i": 99999999999999999999})", "argument out of range: i (expected 1 to 5, got 1E20)"},
      {R"({"s": "x", "n": 0})", "argument out of range: n (expected at least 5E-1, got 0)"},
      {R"({"s": "x", "m": 10})", "argument out of range: m (expected at most 9, got 10)"},
      {R"({"s": "x", "b": "true"})", "wrong type of argument: b (expected boolean, got string)"},
      {R"({"s": "x", "e": "z"})", "wrong value of argument: e (expected one of \"x\", \"y\", got \"z\")"},
      {R"({"s": "x", "a": ["p", 5]})", "wrong type of argument: a[1] (expected string, got integer)"},
      {R"({"s": "x", "q": 1})", "unknown argument: q (known: s, i, n, b, e, a, m, o)"},
      {R"({"q": 1, "b": 1})",
       "missing required argument: s (string)\nunknown argument: q (known: s, i, n, b, e, a, m, o)\nwrong type of "
       "argument: b (expected boolean, got integer)"},
  };
  for (const auto& [text, fault] : rows) {
    const auto value = parse_json(text, error);
    ASSERT_TRUE(value) << text << error;
    EXPECT_EQ(validate_input(schema, value->get_object()).value_or(""), fault) << text;
  }
}

}  // namespace
}  // namespace errand
