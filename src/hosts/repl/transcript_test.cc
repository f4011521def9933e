// SPDX-License-Identifier: Apache-2.0
#include "repl/transcript.h"

#include <gtest/gtest.h>

#include <utility>

namespace errand::repl {
namespace {

class Collected : public Output {
 public:
  std::string text;

 protected:
  void put(std::string_view piece) override { text += piece; }
};

class TranscriptTest : public ::testing::Test {
 protected:
  void delta(const std::string& id, std::string text) {
    transcript.show(event::AssistantContentUpdated{id, std::move(text), false});
  }
  void end_message() { transcript.show(event::AssistantMessageEnded{}); }
  void start(const ToolUseBlock& use) {
    transcript.show(event::ToolBlockUpdated{"m", use, event::ToolBlockUpdated::Stage::start, std::nullopt});
  }
  void running(const ToolUseBlock& use) {
    transcript.show(event::ToolBlockUpdated{"m", use, event::ToolBlockUpdated::Stage::running, std::nullopt});
  }
  void end(const ToolUseBlock& use, std::string text, bool is_error = false) {
    transcript.show(event::ToolBlockUpdated{"m", use, event::ToolBlockUpdated::Stage::end,
                                            ToolResultBlock{use.id, std::move(text), is_error}});
  }
  static ToolUseBlock call(std::string id, std::string name, json::object input) {
    return {std::move(id), std::move(name), std::move(input)};
  }

  Collected output;
  Transcript transcript{output};
};

TEST_F(TranscriptTest, TheConversationOfTheMission) {
  const ToolUseBlock test = call("1", "background_bash", {{"command", "make test"}});
  const ToolUseBlock grep = call("2", "bash", {{"command", "grep -rn TODO src"}});
  delta("a", "I run the tests ");
  delta("a", "in the background.");
  end_message();
  start(test);
  start(grep);
  running(test);
  end(test, "Background task started: bg-1\nRead it with background_output.\n");
  running(grep);
  end(grep, "src/a.c:42: // TODO\n");
  delta("b", "One TODO.\n");
  end_message();
  EXPECT_EQ(output.text,
            "[Agent] I run the tests in the background.\n"
            "[Tool] background_bash(command=\"make test\")\n"
            "Background task started: bg-1\n"
            "[Tool] bash(command=\"grep -rn TODO src\")\n"
            "src/a.c:42: // TODO\n"
            "[Agent] One TODO.\n");
}

TEST_F(TranscriptTest, AnswersOfToolsThatRanSideBySideSayWhoseTheyAre) {
  const ToolUseBlock one = call("1", "read", {{"path", "a"}}), two = call("2", "read", {{"path", "b"}});
  running(one);
  running(two);
  end(two, "B");
  end(one, "A");
  EXPECT_EQ(output.text, "[Tool] read(path=\"a\")\n[Tool] read(path=\"b\")\nB\n[Tool] read:\nA\n");
}

TEST_F(TranscriptTest, ACallThatWasDeniedIsShownWithItsRefusal) {
  const ToolUseBlock one = call("1", "bash", {{"command", "a"}}), two = call("2", "bash", {{"command", "b"}});
  start(one);
  start(two);
  end(one, "Permission denied", true);
  end(two, "Permission denied", true);
  EXPECT_EQ(output.text,
            "[Tool] bash(command=\"a\")\nPermission denied\n[Tool] bash(command=\"b\")\nPermission denied\n");
}

TEST_F(TranscriptTest, NothingIsBegunForBlanksBeforeAToolCall) {
  delta("a", "\n\n");
  end_message();
  EXPECT_EQ(output.text, "");
  delta("b", "\n");
  delta("b", "\nyes\n\n");
  delta("b", "no\n\n");
  end_message();
  EXPECT_EQ(output.text, "[Agent] yes\n\nno\n");
}

TEST_F(TranscriptTest, MetaMessagesAreNeverShown) {
  transcript.set_user_mark("> ");
  Message meta;
  meta.is_meta = true;
  meta.blocks = {TextBlock{"hidden"}};
  transcript.show(event::UserMessageAdded{meta});
  transcript.show(event::NotificationMessageAdded{"bg-1", "shell", "completed", "s", meta});
  EXPECT_EQ(output.text, "");
}

TEST_F(TranscriptTest, AMessageThatWasTypedIsShownOnce) {
  transcript.set_user_mark("> ");
  Message message;
  message.blocks = {TextBlock{"hello"}};
  transcript.shown_already("hello");
  transcript.show(event::UserMessageAdded{message});
  EXPECT_EQ(output.text, "");
  transcript.show(event::UserMessageAdded{message});
  EXPECT_EQ(output.text, "> hello\n");
}

TEST_F(TranscriptTest, ControlCharactersOfModelsAndTasksAreRemovedAlsoWhenASequenceIsCut) {
  const ToolUseBlock use = call("1", "bash\x1b[2J", {{"command", "printf '\x1b[31m\nx'"}});
  delta("a", "re\x1b[3");
  delta("a", "1md");
  end_message();
  running(use);
  end(use, "\x1b]0;title\x07out\r\n");
  EXPECT_EQ(output.text, "[Agent] red\n[Tool] bash(command=\"printf '\\\\x1b[31m\\nx'\")\nout\n");
}

TEST_F(TranscriptTest, LongResultsAreCutWithACount) {
  const ToolUseBlock use = call("1", "bash", {});
  std::string text;
  for (int i = 1; i <= 13; ++i) text += std::to_string(i) + "\n";
  EXPECT_EQ(result_text(use, {"1", text, false}), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n... (3 more lines)");
  EXPECT_EQ(result_text(use, {"1", "1\n2\n", false}), "1\n2");
  EXPECT_EQ(result_text(use, {"1", "", false}), "");
}

TEST_F(TranscriptTest, AfterAnAbortNothingOfTheTurnIsShown) {
  const ToolUseBlock one = call("1", "bash", {}), two = call("2", "bash", {});
  transcript.show(event::LoadingChange{true});
  running(one);
  transcript.show(event::TurnAborted{});
  end(one, "half of its output");
  end(two, "Aborted by the user before it ran.");
  transcript.show(event::LoadingChange{false});
  delta("b", "next");
  end_message();
  EXPECT_EQ(output.text, "[Tool] bash()\n(aborted)\n[Agent] next\n");
}

TEST_F(TranscriptTest, AnAnswerThatIsTriedAgainBeginsAnew) {
  delta("a", "half");
  transcript.show(event::AssistantContentReset{"a"});
  delta("a", "whole");
  end_message();
  EXPECT_EQ(output.text, "[Agent] half\n(that answer broke off; it is tried again)\n[Agent] whole\n");
}

TEST_F(TranscriptTest, AUsersCommandShowsItsEndingOnlyWhenItIsNoSuccess) {
  Message message;
  message.blocks = {BangBlock{"false", "", "exit code 1"}};
  transcript.show(event::BangOutput{"out"});
  transcript.show(event::UserMessageAdded{message});
  message.blocks = {BangBlock{"true", "", "exit code 0"}};
  transcript.show(event::UserMessageAdded{message});
  EXPECT_EQ(output.text, "out\n(exit code 1)\n");
}

}  // namespace
}  // namespace errand::repl
