// SPDX-License-Identifier: Apache-2.0
#include "agent/tool_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <stdexcept>

#include "agent/session_testing.h"

namespace errand {
namespace {

using testing::ElementsAre;
using testing_support::use;

class FakeTool : public Tool {
 public:
  using Body = std::function<ToolResult(std::stop_token)>;
  FakeTool(std::string name, bool reads, Body body) : reads_(reads), body_(std::move(body)) {
    spec_.name = std::move(name);
    spec_.input_schema = {{"type", "object"}, {"properties", json::object{}}};
  }
  const ToolSpec& spec() const override { return spec_; }
  bool read_only() const override { return reads_; }
  std::optional<PermissionQuery> permission(const json::object&, const ToolContext&) const override {
    return std::nullopt;
  }
  ToolResult run(const json::object&, ToolContext&, std::stop_token stop) override { return body_(std::move(stop)); }

 private:
  ToolSpec spec_;
  bool reads_;
  Body body_;
};

class ToolRunnerTest : public testing::Test {
 protected:
  void add(std::string name, bool reads, FakeTool::Body body) {
    registry.add(std::make_unique<FakeTool>(std::move(name), reads, std::move(body)));
  }
  void run(const std::vector<ToolUseBlock>& uses) {
    ToolRunner runner(registry, context, desk, events);
    runner.run("msg-1", uses, stop.get_token(), [this](std::vector<ToolResultBlock> group, const auto& shown) {
      groups.push_back(group.size());
      for (auto& result : group) results.push_back(std::move(result));
      ends.insert(ends.end(), shown.begin(), shown.end());
    });
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> out;
    for (const auto& result : results) out.push_back(result.text);
    return out;
  }

  Engine engine{EngineConfig{}};
  ToolContext context{engine};
  event::Queue events;
  PermissionPipeline pipeline{PermissionMode::bypass};
  PermissionDesk desk{pipeline, events, true, [](bool) {}};
  Registry registry;
  std::stop_source stop;
  std::vector<ToolResultBlock> results;
  std::vector<std::size_t> groups;
  std::vector<std::string> ends;
};

TEST_F(ToolRunnerTest, neighbours_that_only_read_run_side_by_side_and_answer_in_order) {
  std::barrier all(3);  // none gets on before all three run
  add("look", true, [&](std::stop_token) -> ToolResult {
    all.arrive_and_wait();
    return {"seen", false, {"bg-1"}};
  });
  const std::vector<ToolUseBlock> uses = {use("look", {}), use("look", {}), use("look", {})};
  run(uses);
  ASSERT_EQ(results.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i].tool_use_id, uses[i].id);
  EXPECT_THAT(groups, ElementsAre(3u));
  EXPECT_EQ(ends.size(), 3u);
}

TEST_F(ToolRunnerTest, the_others_run_one_after_another_in_order) {
  std::atomic<int> running{0};
  int turn = 0;
  add("change", false, [&](std::stop_token) -> ToolResult {
    EXPECT_EQ(++running, 1);
    --running;
    return {"change " + std::to_string(++turn), false, {}};
  });
  add("look", true, [&](std::stop_token) -> ToolResult { return {"look after " + std::to_string(turn), false, {}}; });
  run({use("look", {}), use("change", {}), use("look", {}), use("change", {}), use("change", {}), use("look", {})});
  EXPECT_THAT(texts(), ElementsAre("look after 0", "change 1", "look after 1", "change 2", "change 3", "look after 3"));
}

TEST_F(ToolRunnerTest, unknown_tools_bad_arguments_and_tools_that_throw_are_failed_results) {
  add("throws", false, [](std::stop_token) -> ToolResult { throw std::runtime_error("kaputt"); });
  add("throws_odd", true, [](std::stop_token) -> ToolResult { throw 7; });
  run({use("nonsense", {}), use("throws", {}), use("throws_odd", {}), use("throws", {{"extra", 1}})});
  ASSERT_EQ(results.size(), 4u);
  for (const auto& result : results) EXPECT_TRUE(result.is_error) << result.text;
  EXPECT_NE(results[0].text.find("unknown tool: nonsense"), std::string::npos);
  EXPECT_NE(results[1].text.find("kaputt"), std::string::npos);
  EXPECT_NE(results[3].text.find("extra"), std::string::npos);
}

TEST_F(ToolRunnerTest, after_an_abort_what_has_not_run_says_so_and_what_ran_keeps_its_result) {
  int ran = 0;
  add("change", false, [&](std::stop_token) -> ToolResult {
    ++ran;
    stop.request_stop();
    return {"done", false, {}};
  });
  run({use("change", {}), use("change", {}), use("nonsense", {})});
  EXPECT_EQ(ran, 1);
  EXPECT_THAT(texts(), ElementsAre("done", "Aborted by the user before it ran.", "Aborted by the user before it ran."));
}

TEST_F(ToolRunnerTest, each_use_starts_once_and_ends_once) {
  add("look", true, [](std::stop_token) -> ToolResult { return {"x", false, {}}; });
  run({use("look", {}), use("nonsense", {}), use("look", {})});
  std::map<std::string, std::vector<int>> stages;
  for (const auto& event : events.drain()) {
    if (const auto* block = std::get_if<event::ToolBlockUpdated>(&event)) {
      EXPECT_EQ(block->message_id, "msg-1");
      EXPECT_EQ(block->result.has_value(), block->stage == event::ToolBlockUpdated::Stage::end);
      stages[block->use.id].push_back(static_cast<int>(block->stage));
    }
  }
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_THAT(stages[results[0].tool_use_id], ElementsAre(0, 1, 2));
  EXPECT_THAT(stages[results[1].tool_use_id], ElementsAre(0, 2)) << "an unknown tool never runs";
  EXPECT_THAT(stages[results[2].tool_use_id], ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace errand
