// SPDX-License-Identifier: Apache-2.0
#include "terminal/line_buffer.h"

#include <gtest/gtest.h>

namespace errand::terminal {
namespace {

void press(LineBuffer& line, std::initializer_list<KeyCode> keys) {
  for (const KeyCode code : keys) line.apply({code, {}});
}

TEST(LineBufferTest, InsertsAtTheCursor) {
  LineBuffer line;
  line.insert("ac");
  press(line, {KeyCode::left});
  line.insert("b");
  EXPECT_EQ(line.text(), "abc");
  EXPECT_EQ(line.cursor(), 2U);
}

TEST(LineBufferTest, MovesAndDeletesByCluster) {
  const std::string family = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
  LineBuffer line;
  line.insert("a" + family + "e\xCC\x81");
  press(line, {KeyCode::left});
  EXPECT_EQ(line.cursor(), 1 + family.size());
  press(line, {KeyCode::backspace});
  EXPECT_EQ(line.text(), "ae\xCC\x81");
  press(line, {KeyCode::remove});
  EXPECT_EQ(line.text(), "a");
  press(line, {KeyCode::remove, KeyCode::right, KeyCode::backspace, KeyCode::backspace});
  EXPECT_EQ(line.text(), "");
}

TEST(LineBufferTest, Kills) {
  LineBuffer line;
  line.set("one two  three");
  press(line, {KeyCode::kill_word});
  EXPECT_EQ(line.text(), "one two  ");
  press(line, {KeyCode::kill_word});
  EXPECT_EQ(line.text(), "one ");
  line.insert("x");
  press(line, {KeyCode::left, KeyCode::kill_to_start});
  EXPECT_EQ(line.text(), "x");
  line.set("abc");
  press(line, {KeyCode::home, KeyCode::right, KeyCode::kill_to_end});
  EXPECT_EQ(line.text(), "a");
}

TEST(LineBufferTest, HistoryKeepsTheDraft) {
  LineBuffer line;
  line.remember("first");
  line.remember("second");
  line.remember("second");
  line.insert("draft");
  press(line, {KeyCode::up});
  EXPECT_EQ(line.text(), "second");
  press(line, {KeyCode::up, KeyCode::up});
  EXPECT_EQ(line.text(), "first");
  press(line, {KeyCode::down, KeyCode::down});
  EXPECT_EQ(line.text(), "draft");
  press(line, {KeyCode::down});
  EXPECT_EQ(line.text(), "draft");
}

TEST(LineBufferTest, UpAndDownMoveWithinSeveralLinesFirst) {
  LineBuffer line;
  line.remember("old");
  line.set("one\ntwo测\nthree");
  press(line, {KeyCode::up});
  EXPECT_EQ(line.cursor(), std::string("one\ntwo测").size());
  press(line, {KeyCode::home, KeyCode::up});
  EXPECT_EQ(line.cursor(), 0U);
  press(line, {KeyCode::up});
  EXPECT_EQ(line.text(), "old");
}

TEST(LineBufferTest, HomeAndEndStayInTheLine) {
  LineBuffer line;
  line.set("one\ntwo");
  press(line, {KeyCode::home});
  EXPECT_EQ(line.cursor(), 4U);
  press(line, {KeyCode::left, KeyCode::home, KeyCode::end});
  EXPECT_EQ(line.cursor(), 3U);
}

}  // namespace
}  // namespace errand::terminal
