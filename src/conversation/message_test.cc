// SPDX-License-Identifier: Apache-2.0
#include "conversation/message.h"

#include <gtest/gtest.h>

namespace errand {
namespace {

TaskNotificationBlock full_notification() {
  TaskNotificationBlock n;
  n.notice_id = "n-1";
  n.task_id = "bg-1";
  n.task_type = "shell";
  n.output_file = "/s/tasks/bg-1.output";
  n.status = "failed";
  n.summary = "Background command \"make\" failed with exit code 2";
  n.exit_code = 2;
  n.signal = 9;
  n.duration_ms = 41200;
  n.still_running = "4711 node server.js :3000";
  n.tail = "a\nb";
  n.result = "r";
  n.failures = "[x] failed: y";
  n.diagnostics = "d";
  n.recovery = "c";
  n.usage = TaskNotificationBlock::Usage{7, 4, 2, 1, 3, 900, 11, 12345};
  return n;
}

Message every_block() {
  Message m;
  m.id = "msg-1";
  m.role = Role::assistant;
  m.timestamp_ms = 1767225600123;
  json::object input{{"command", "make test"}, {"n", 0.1}};
  m.blocks = {TextBlock{"hé \"quoted\"\n"},
              ThinkingBlock{"hm", "sig=="},
              RedactedThinkingBlock{"blob"},
              ToolUseBlock{"t1", "bash", input},
              ToolResultBlock{"t1", "no", true},
              ToolResultBlock{"t2", "yes", false},
              full_notification(),
              BangBlock{"ls", "a\nb\n", "exit code 0"},
              ErrorBlock{"oh"},
              ImageBlock{"image/png", "aGk="}};
  m.usage = Usage{1, 2, 3, 4};
  return m;
}

TEST(MessageTest, every_block_survives_the_way_to_text_and_back) {
  const std::string text = to_text(to_json(every_block()));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  std::string error;
  const auto value = parse_json(text, error);
  ASSERT_TRUE(value) << error;
  const auto back = message_from_json(value->as_object(), error);
  ASSERT_TRUE(back) << error;
  EXPECT_EQ(to_text(to_json(*back)), text);
  EXPECT_EQ(back->role, Role::assistant);
  EXPECT_EQ(back->timestamp_ms, 1767225600123);
  ASSERT_EQ(back->blocks.size(), 10u);
  EXPECT_EQ(std::get<ToolUseBlock>(back->blocks[3]).input, std::get<ToolUseBlock>(every_block().blocks[3]).input);
  const auto& n = std::get<TaskNotificationBlock>(back->blocks[6]);
  EXPECT_EQ(n.signal, 9);
  EXPECT_EQ(n.usage->agents_empty_result, 3);
  EXPECT_EQ(back->usage->cache_write_tokens, 4);
}

TEST(MessageTest, isMeta_stands_on_disk_only_when_true) {
  Message m;
  m.id = "msg-2";
  m.blocks = {TextBlock{"x"}};
  EXPECT_FALSE(to_json(m).contains("isMeta"));
  m.is_meta = true;
  const json::object object = to_json(m);
  ASSERT_TRUE(object.contains("isMeta"));
  EXPECT_TRUE(object.at("isMeta").as_bool());
  std::string error;
  EXPECT_TRUE(message_from_json(object, error)->is_meta);
}

TEST(MessageTest, a_small_notification_has_no_empty_members) {
  TaskNotificationBlock n;
  n.notice_id = "n";
  const json::object object = to_json(n);
  for (const char* key : {"exit_code", "signal", "duration_ms", "still_running", "tail", "result", "usage"}) {
    EXPECT_FALSE(object.contains(key)) << key;
  }
}

TEST(MessageTest, what_is_no_message_is_refused_with_the_member) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"role":"user","timestamp":"2026-01-01T00:00:00.000Z","blocks":[]})", "\"id\" is missing or no text"},
      {R"({"id":"m","role":"system","timestamp":"2026-01-01T00:00:00.000Z","blocks":[]})",
       "\"role\" is neither user nor assistant"},
      {R"({"id":"m","role":"user","timestamp":"yesterday","blocks":[]})", "\"timestamp\" is no time"},
      {R"({"id":"m","role":"user","timestamp":"2026-01-01T00:00:00.000Z"})", "\"blocks\" is missing or no array"},
      {R"({"id":"m","role":"user","timestamp":"2026-01-01T00:00:00.000Z","blocks":[{"type":"text","text":"x"},7]})",
       "block 2: no object"},
      {R"({"id":"m","role":"user","timestamp":"2026-01-01T00:00:00.000Z","blocks":[{"type":"hologram"}]})",
       "block 1: unknown block type \"hologram\""},
      {R"({"id":"m","role":"user","timestamp":"2026-01-01T00:00:00.000Z","blocks":[{"type":"tool_use","id":"a","name":"b","input":[]}]})",
       "block 1: \"input\" is missing or no object"},
      {R"({"id":"m","role":"user","timestamp":"2026-01-01T00:00:00.000Z","blocks":[{"type":"text"}]})",
       "block 1: \"text\" is missing or no text"},
  };
  for (const auto& [text, expected] : cases) {
    std::string error;
    const auto value = parse_json(text, error);
    ASSERT_TRUE(value) << text;
    EXPECT_FALSE(message_from_json(value->as_object(), error)) << text;
    EXPECT_EQ(error, expected) << text;
  }
}

}  // namespace
}  // namespace errand
