// SPDX-License-Identifier: Apache-2.0
#include "model/scripted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>

namespace errand {
namespace {

using testing::ElementsAre;

struct Deltas : ModelObserver {
  void on_text(std::string_view delta) override {
    texts.emplace_back(delta);
    if (stop_after == static_cast<int>(texts.size())) source.request_stop();
  }
  void on_thinking(std::string_view) override {}
  void on_retry(const std::string&, int, std::int64_t) override {}
  std::vector<std::string> texts;
  int stop_after = 0;
  std::stop_source source;
};

class ScriptedTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/errand-scripted-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    file_ = folder_ + "/script.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Model> load(const std::string& script) {
    std::ofstream(file_) << script;
    auto loaded = load_scripted(file_);
    if (const auto* error = std::get_if<std::string>(&loaded)) {
      ADD_FAILURE() << *error;
      return nullptr;
    }
    return std::get<0>(std::move(loaded));
  }
  std::string error_of(const std::string& script) {
    std::ofstream(file_) << script;
    const auto loaded = load_scripted(file_);
    const auto* error = std::get_if<std::string>(&loaded);
    const std::string start = "scripted: \"" + file_ + "\": ";
    if (error == nullptr || !error->starts_with(start)) return error ? *error : "(none)";
    return error->substr(start.size());
  }
  static ModelRequest says(const std::string& text) {
    ModelRequest request;
    request.turns = {{Role::user, {TextBlock{text}}}};
    return request;
  }
  std::string text_of(Model& model, const ModelRequest& request) {
    const ModelResult result = model.respond(request, deltas_, {});
    const auto& blocks = std::get<ModelReply>(result).blocks;
    return blocks.empty() ? "" : std::get<TextBlock>(blocks[0]).text;
  }

  std::string folder_, file_;
  Deltas deltas_;
};

TEST_F(ScriptedTest, TurnsInOrderThenTheEnd) {
  const auto model = load(R"({"turns": [{"text": "one"}, {"text": "two"}]})");
  EXPECT_TRUE(model->is_script());
  EXPECT_EQ(model->name(), "scripted:" + file_);
  EXPECT_EQ(text_of(*model, says("a")), "one");
  EXPECT_EQ(text_of(*model, says("b")), "two");
  EXPECT_EQ(text_of(*model, says("c")), "(end of script)");
  EXPECT_EQ(text_of(*model, says("d")), "(end of script)");
}

TEST_F(ScriptedTest, WhenIsSoughtInTheNewestUserTurn) {
  const auto model = load(R"({"turns": [{"text": "plain"}, {"text": "ended", "when": "<status>completed"},
    {"text": "ended again", "when": "<status>"}, {"text": "result", "when": "(?s)^bg-1.*world$"}]})");
  ModelRequest request = says("<status>completed</status>");
  request.turns.push_back({Role::assistant, {TextBlock{"<status>"}}});
  request.turns.push_back({Role::user, {ToolResultBlock{"t", "bg-1", false}, TextBlock{"hello\nworld"}}});
  EXPECT_EQ(text_of(*model, request), "result");
  EXPECT_EQ(text_of(*model, says("x <status>completed</status>")), "ended");
  EXPECT_EQ(text_of(*model, says("x <status>completed</status>")), "ended again");
  EXPECT_EQ(text_of(*model, says("x <status>completed</status>")), "plain");
  EXPECT_EQ(text_of(*model, says("x <status>completed</status>")), "(end of script)");
}

TEST_F(ScriptedTest, ToolsHaveUniqueIdsAndInputs) {
  const std::string turn =
      R"({"text": "I run", "tools": [{"name": "bash", "input": {"command": "ls"}}, {"name": "list"}]})";
  const auto model = load("{\"turns\": [" + turn + "," + turn + "]}");
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const auto reply = std::get<ModelReply>(model->respond(says("x"), deltas_, {}));
    ASSERT_EQ(reply.blocks.size(), 3u);
    EXPECT_EQ(reply.stop, StopReason::tool_use);
    EXPECT_EQ(to_text(std::get<ToolUseBlock>(reply.blocks[1]).input), R"({"command":"ls"})");
    EXPECT_EQ(std::get<ToolUseBlock>(reply.blocks[2]).name, "list");
    for (int j = 1; j < 3; ++j) EXPECT_TRUE(ids.insert(std::get<ToolUseBlock>(reply.blocks[j]).id).second);
  }
}

TEST_F(ScriptedTest, TextComesInWords) {
  const auto model = load(R"({"turns": [{"text": " Grüße  an\nalle"}]})");
  text_of(*model, says("x"));
  EXPECT_THAT(deltas_.texts, ElementsAre(" ", "Grüße  ", "an\n", "alle"));
}

TEST_F(ScriptedTest, AbortBetweenWordsKeepsWhatCame) {
  const auto model = load(R"({"turns": [{"text": "one two three", "tools": [{"name": "bash"}]}]})");
  deltas_.stop_after = 2;
  const ModelResult result = model->respond(says("x"), deltas_, deltas_.source.get_token());
  const auto& failure = std::get<ModelFailure>(result);
  EXPECT_TRUE(failure.aborted);
  ASSERT_EQ(failure.partial.size(), 1u);
  EXPECT_EQ(std::get<TextBlock>(failure.partial[0]).text, "one two ");
}

TEST_F(ScriptedTest, AbortDuringTheDelay) {
  const auto model = load(R"({"turns": [{"text": "late", "delay_ms": 3600000}]})");
  std::stop_source source;
  auto result = std::async(std::launch::async, [&] { return model->respond(says("x"), deltas_, source.get_token()); });
  source.request_stop();
  ASSERT_EQ(result.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_TRUE(std::get<ModelFailure>(result.get()).aborted);
  EXPECT_TRUE(deltas_.texts.empty());
}

TEST_F(ScriptedTest, BadFilesAreRefusedWithLineAndField) {
  EXPECT_EQ(error_of("{\"turns\": [\n{\"text\": \"a\"}\n{}]}"), "line 3, column 1: expected ',' or ']'");
  EXPECT_EQ(error_of("[]"), "line 1: must be an object with the field \"turns\"");
  EXPECT_EQ(error_of("\n{}"), "line 2: \"turns\" must be a list");
  EXPECT_EQ(error_of("{\n\"turns\": {}}"), "line 2: turns: \"turns\" must be a list");
  EXPECT_EQ(error_of("{\"turns\": [],\n \"trns\": 1}"), "line 2: trns: unknown field; the fields are turns");
  EXPECT_EQ(error_of("{\"turns\": [{},\n{},\n{\"text\":\n 3}]}"), "line 4: turns[2].text: must be a string");
  EXPECT_EQ(error_of("{\"turns\": [\n{\"txt\": \"a\"}]}"),
            "line 2: turns[0].txt: unknown field; the fields are text, tools, when, delay_ms");
  EXPECT_EQ(error_of("{\"turns\": [\n7]}"), "line 2: turns[0]: must be an object");
  EXPECT_EQ(error_of("{\"turns\": [{\n\"when\": \"(ab\"}]}"),
            "line 2: turns[0].when: is no regular expression: missing ): (ab");
  EXPECT_EQ(error_of("{\"turns\": [{\n\"delay_ms\": -1}]}"),
            "line 2: turns[0].delay_ms: must be a whole number, 0..3600000");
  EXPECT_EQ(error_of("{\"turns\": [{\n\"delay_ms\": \"1\"}]}"),
            "line 2: turns[0].delay_ms: must be a whole number, 0..3600000");
  EXPECT_EQ(error_of("{\"turns\": [{\n\"tools\": {}}]}"), "line 2: turns[0].tools: must be a list");
  EXPECT_EQ(error_of("{\"turns\": [{\"tools\": [\n{\"input\": {}}]}]}"),
            "line 2: turns[0].tools[0].name: must be a name");
  EXPECT_EQ(error_of("{\"turns\": [{\"tools\": [\n{\"name\": 1}]}]}"),
            "line 2: turns[0].tools[0].name: must be a string");
  EXPECT_EQ(error_of("{\"turns\": [{\"tools\": [{\"name\": \"x\",\n\"input\": []}]}]}"),
            "line 2: turns[0].tools[0].input: must be an object");
  EXPECT_EQ(error_of("{\"turns\": [{\"tools\": [{\"name\": \"x\",\n\"args\": {}}]}]}"),
            "line 2: turns[0].tools[0].args: unknown field; the fields are name, input");
}

TEST_F(ScriptedTest, FilesThatCannotBeRead) {
  const auto error = [](const std::string& file) { return std::get<std::string>(load_scripted(file)); };
  EXPECT_EQ(error(folder_ + "/none"), "scripted: \"" + folder_ + "/none\": cannot be read: No such file or directory");
  EXPECT_EQ(error(folder_), "scripted: \"" + folder_ + "\": cannot be read: Is a directory");
  EXPECT_EQ(error_of(""), "line 1, column 1: the text is empty");
}

}  // namespace
}  // namespace errand
