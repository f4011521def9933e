// SPDX-License-Identifier: Apache-2.0
#include "terminal/screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "terminal/text.h"
#include "terminal/tiny_terminal_testing.h"

namespace errand::terminal {
namespace {

using ::testing::ElementsAre;

// A screen and the terminal behind it.
class Bench {
 public:
  explicit Bench(int width, int height = 10)
      : terminal(width, height), screen(width, height), width_(width), height_(height) {}
  void show(std::vector<std::string> lines, std::size_t line, std::size_t byte) {
    screen.set_block({std::move(lines), line, byte});
    flush();
  }
  void edit(const std::string& line) { show({line}, 0, line.size()); }
  void print(std::string_view text) {
    screen.print(text);
    flush();
  }
  void flush() {
    screen.update(0, width_, height_);
    terminal.feed(screen.pending_output());
    screen.pending_output().clear();
  }
  TinyTerminal terminal;
  Screen screen;

 private:
  int width_, height_;
};

TEST(ScreenTest, ANoticeIsPrintedAboveTheLineAndTheLineIsLeftAsItWas) {
  Bench bench(20);
  bench.show({"> half a line"}, 0, 6);
  bench.print("* bg-1 - completed (exit code 0)");
  EXPECT_THAT(bench.terminal.lines(), ElementsAre("* bg-1 - completed (exit code 0)", "> half a line"));
  EXPECT_EQ(bench.terminal.row(), 2);
  EXPECT_EQ(bench.terminal.column(), 6);
}

TEST(ScreenTest, ALineOfSeveralRowsIsErasedWhole) {
  Bench bench(10);
  const std::string line = "> " + std::string(33, 'a');
  bench.show({line}, 0, 7);
  for (int i = 0; i < 3; ++i) bench.print("notice " + std::to_string(i));
  EXPECT_THAT(bench.terminal.lines(), ElementsAre("notice 0", "notice 1", "notice 2", line));
}

TEST(ScreenTest, AnExactlyFullRowGivesTheCursorARowOfItsOwn) {
  Bench bench(10);
  bench.edit("> 12345678");
  EXPECT_EQ(bench.terminal.row(), 1);
  EXPECT_EQ(bench.terminal.column(), 0);
  bench.print("n");
  bench.edit("> 123456789");
  EXPECT_THAT(bench.terminal.lines(), ElementsAre("n", "> 123456789"));
  EXPECT_EQ(bench.terminal.column(), 1);
}

TEST(ScreenTest, AWideCharacterAtTheMarginGoesToTheNextRow) {
  Bench bench(9);
  const std::string line = "> " + std::string("测试测试测试");
  bench.edit(line);
  EXPECT_EQ(bench.terminal.rows()[0], "> 测试测 ");
  EXPECT_EQ(bench.terminal.rows()[1], "试测试");
  EXPECT_EQ(bench.terminal.column(), 6);
  bench.print("* 通知");
  EXPECT_EQ(bench.terminal.rows()[0], "* 通知");
  EXPECT_EQ(bench.terminal.rows()[1], "> 测试测 ");
}

TEST(ScreenTest, AShorterBlockLeavesNothingBehind) {
  Bench bench(20);
  bench.show({"streamed", "> " + std::string(50, 'x')}, 1, 10);
  bench.edit("> ");
  EXPECT_THAT(bench.terminal.lines(), ElementsAre(">"));
}

TEST(ScreenTest, ABlockTallerThanTheScreenShowsTheRowsRoundTheCursor) {
  Bench bench(10, 5);
  std::vector<std::string> lines;
  for (int i = 0; i < 12; ++i) lines.push_back("line " + std::to_string(i));
  bench.show(lines, 11, 7);
  EXPECT_EQ(bench.terminal.rows()[3], "line 11");
  bench.show(lines, 2, 0);
  EXPECT_EQ(bench.terminal.rows()[bench.terminal.row()], "line 2");
  bench.print("notice");
  bench.edit("> ");
  EXPECT_EQ(bench.terminal.lines().back(), ">");
  for (const std::string& line : bench.terminal.lines()) EXPECT_EQ(line.find("line"), std::string::npos) << line;
}

TEST(ScreenTest, NothingIsDrawnWhileAResizeSettles) {
  Bench bench(20);
  bench.edit("> abc");
  bench.screen.resized(1000);
  bench.screen.print("late");
  bench.screen.update(1000 + Screen::settle_ms - 1, 20, 10);
  EXPECT_TRUE(bench.screen.pending_output().empty());
  ASSERT_TRUE(bench.screen.deadline());
  bench.screen.update(*bench.screen.deadline(), 20, 10);
  bench.terminal.feed(bench.screen.pending_output());
  EXPECT_FALSE(bench.screen.deadline());
  EXPECT_THAT(bench.terminal.lines(), ElementsAre("late", "> abc"));
}

TEST(ScreenTest, ManyNoticesOfEveryLengthStandOnceAndInOrder) {
  for (const int width : {7, 10, 40}) {
    Bench bench(width, 8);
    const std::string line = "> " + std::string(static_cast<std::size_t>(width) * 2, 'b') + "测e\xCC\x81";
    bench.show({"tail " + std::string(5, 't'), line}, 1, 4);
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < 60; ++i) {
      expected.push_back("n" + std::to_string(i) + std::string(i % 23, 'c'));
      bench.print(expected.back());
    }
    expected.push_back("tail ttttt");
    expected.push_back(line);
    std::vector<std::string> lines = bench.terminal.lines();
    for (std::string& shown : lines) shown.erase(shown.find_last_not_of(' ') + 1);
    EXPECT_EQ(lines, expected) << width;
  }
}

TEST(ScreenTest, TabsAndControlCharactersOfTheInputAreShown) {
  Bench bench(20);
  bench.edit("> a\tb\x03");
  EXPECT_THAT(bench.terminal.lines(), ElementsAre("> a    b^C"));
  EXPECT_EQ(bench.terminal.column(), 10);
}

}  // namespace
}  // namespace errand::terminal
