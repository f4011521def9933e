// SPDX-License-Identifier: Apache-2.0
// The view shows what a terminal would, however the output is cut into pieces.
#include "engine/view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"

namespace errand {
namespace {

class Lines : public LineSink {
 public:
  void plain_lines(std::string_view lines) override {
    text += lines;
    raw += lines.size();
  }
  void line(std::string_view line, std::uint64_t raw_bytes, bool cut) override {
    text.append(line) += '\n';
    raw += raw_bytes;
    any_cut = any_cut || cut;
  }
  std::string text;
  std::uint64_t raw = 0;
  bool any_cut = false;
};

std::string shown_in_pieces(std::string_view bytes, std::size_t piece) {
  Lines lines;
  View view;
  for (std::size_t at = 0; at < bytes.size(); at += piece) view.feed(bytes.substr(at, piece), lines);
  view.finish();
  EXPECT_EQ(lines.raw, view.line_start());
  return lines.text + view.unfinished_text();
}

std::string shown_in_two(std::string_view bytes, std::size_t at) {
  Lines lines;
  View view;
  view.feed(bytes.substr(0, at), lines);
  EXPECT_TRUE(is_valid_utf8(view.unfinished_text()));
  view.feed(bytes.substr(at), lines);
  view.finish();
  return lines.text + view.unfinished_text();
}

struct Case {
  const char* name;
  std::string_view bytes;
  std::string_view shown;
};

using std::string_view_literals::operator""sv;

const std::vector<Case> kCases = {
    {"plain", "one\ntwo\n", "one\ntwo\n"},
    {"no newline at the end", "one\ntwo", "one\ntwo"},
    {"empty lines", "\n\na\n\n", "\n\na\n\n"},
    {"tabs stay", "a\tb\n\tc", "a\tb\n\tc"},
    {"carriage return", "abc\rX\n", "Xbc\n"},
    {"carriage return, newline", "abc\r\ndef\r\n", "abc\ndef\n"},
    {"progress", "10%\r 20%\r100%\ndone\n", "100%\ndone\n"},
    {"carriage return at the end", "abc\r", "abc"},
    {"backspace", "ab\bc\b\b\b\bX\n", "Xc\n"},
    {"backspace erases nothing", "abc\b\b\n", "abc\n"},
    {"overstrike", "_\bb_\bo", "bo"},
    {"CSI K", "progress\r\x1b[Kend\n", "end\n"},
    {"CSI 0K", "progress\r\x1b[0Kend", "end"},
    {"CSI 1K", "abcdef\x1b[3D\x1b[1K\n", "    ef\n"},
    {"CSI 1K at the end", "abc\x1b[1Kd", "   d"},
    {"CSI 2K", "abc\x1b[2K\rd\n", "d\n"},
    {"CSI 2K leaves the cursor", "abc\x1b[2Kd\n", "   d\n"},
    {"CSI K, unknown", "abc\r\x1b[3Kd\n", "dbc\n"},
    {"CSI C", "a\x1b[3Cb\n", "a   b\n"},
    {"CSI C over text", "abcdef\r\x1b[2CX\x1b[CY\n", "abXdYf\n"},
    {"CSI D", "abcdef\x1b[4DX\x1b[DY\n", "abYdef\n"},
    {"CSI D to the margin", "abc\x1b[1000DX", "Xbc"},
    {"CSI G", "abcdef\x1b[3GX\x1b[GY\x1b[0GZ", "ZbXdef"},
    {"blanks that nobody printed", "abc\x1b[20C\n", "abc\n"},
    {"blanks that somebody printed", "abc   \n", "abc   \n"},
    {"newline from the middle", "abcdef\r\nx", "abcdef\nx"},
    {"colours", "\x1b[1;31merror:\x1b[0m bad\n", "error: bad\n"},
    {"true colour", "\x1b[38:2::1:2:3mx\x1b[38;5;9;1my", "xy"},
    {"private CSI", "\x1b[?25lx\x1b[?Ky\x1b[>cz\x1b[!pw", "xyzw"},
    {"CSI with an intermediate", "ab\r\x1b[2 Kc\x1b[4\"q", "cb"},
    {"other cursor moves are removed", "a\x1b[2Ab\x1b[3;4Hc\x1b[Jd\x1b[2Xe", "abcde"},
    {"OSC, BEL", "\x1b]0;title\ax\n", "x\n"},
    {"OSC, ST", "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link\n"},
    {"DCS", "a\x1bP1$r0m\x1b\\b", "ab"},
    {"APC", "a\x1b_Gpayload\x1b\\b", "ab"},
    {"PM", "a\x1b^secret\x1b\\b", "ab"},
    {"SOS", "a\x1bXsecret\x1b\\b", "ab"},
    {"two bytes",
     "a\x1b"
     "7b\x1b"
     "8c\x1b"
     "cd\x1b=e",
     "abcde"},
    {"with an intermediate", "a\x1b(Bb\x1b#8c\x1b%Gd", "abcd"},
    {"unfinished ESC", "a\x1b", "a"},
    {"unfinished CSI", "a\x1b[12;", "a"},
    {"unfinished OSC", "a\x1b]0;tit", "a"},
    {"unfinished CSI before a newline", "a\x1b[12\nb\n", "a\nb\n"},
    {"unfinished OSC before a newline", "a\x1b]0;title\nb\n", "a\nb\n"},
    {"unfinished DCS before a newline", "a\x1bPq#0\nb\n", "a\nb\n"},
    {"a control character ends a CSI", "abc\x1b[1\rX\n", "Xbc\n"},
    {"CAN ends a sequence", "a\x1b[1\x18m\x1b]0;x\x18y", "amy"},
    {"ESC begins anew", "a\x1b[1\x1b[31mb\x1b]0\x1b[1mc", "abc"},
    {"ESC ESC", "a\x1b\x1b[31mb", "ab"},
    {"a text byte ends a CSI", "a\x1b[1\xC3\xA9", "a\xC3\xA9"},
    {"control characters", "a\0b\x01\x02\a\v\fc\x7F\n"sv, "abc\n"},
    {"C1 control characters",
     "a\xC2\x85\xC2\x9B"
     "b",
     "ab"},
    {"invalid bytes",
     "a\xFF"
     "b\xC0\x80\xED\xA0\x80",
     "a\xEF\xBF\xBD"
     "b\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"maximal subpart", "\xF0\x9F\x98x\xE2\x82", "\xEF\xBF\xBDx\xEF\xBF\xBD"},
    {"GBK", "\xC4\xE3\xBA\xC3\n", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\n"},
    {"four bytes", "\xF0\x9F\x98\x80!\n", "\xF0\x9F\x98\x80!\n"},
    {"wide", "\xE4\xB8\x96\xE7\x95\x8C\rX\n", "X \xE7\x95\x8C\n"},
    {"wide over narrow", "abc\r\xE4\xB8\x96\n",
     "\xE4\xB8\x96"
     "c\n"},
    {"the right half of a wide one", "\xE4\xB8\x96\xE7\x95\x8C\r\x1b[CX\n", " X\xE7\x95\x8C\n"},
    {"backspace over a wide one", "\xE4\xB8\x96\b\bab\n", "ab\n"},
    {"erased half of a wide one", "\xE4\xB8\x96\x1b[D\x1b[Ka", " a"},
    {"combining", "e\xCC\x81x\n", "e\xCC\x81x\n"},
    {"combining, overwritten", "e\xCC\x81x\rE\n", "Ex\n"},
    {"combining at the begin", "\xCC\x81x\n", "\xCC\x81x\n"},
    {"zero width joiner", "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\n",
     "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB\n"},
    {"text over a tab", "a\tb\rXY\n", "XY      b\n"},
    {"text before a tab", "a\tb\rX\n", "X\tb\n"},
    {"a tab over text", "abcdefghij\r\tX\n", "abcdefghXj\n"},
};

TEST(ViewTest, ShowsWhatATerminalShows) {
  for (const Case& one : kCases) {
    EXPECT_EQ(view_text(one.bytes), one.shown) << one.name;
  }
}

TEST(ViewTest, EscapesAndCodePointsMayBeCutAnywhere) {
  for (const Case& one : kCases) {
    for (std::size_t at = 0; at <= one.bytes.size(); ++at) {
      EXPECT_EQ(shown_in_two(one.bytes, at), one.shown) << one.name << ", cut at " << at;
    }
    EXPECT_EQ(shown_in_pieces(one.bytes, 1), one.shown) << one.name << ", byte by byte";
  }
}

TEST(ViewTest, WhatIsStillComingIsNotShown) {
  Lines lines;
  View view;
  view.feed("a\xF0\x9F\x98", lines);
  EXPECT_EQ(view.unfinished_text(), "a");
  view.feed("\x80\x1b[3", lines);
  EXPECT_EQ(view.unfinished_text(), "a\xF0\x9F\x98\x80");
  view.feed("1mb", lines);
  EXPECT_EQ(view.unfinished_text(),
            "a\xF0\x9F\x98\x80"
            "b");
  EXPECT_TRUE(view.unfinished());
  EXPECT_EQ(view.line_start(), 0u);
  view.feed("\n", lines);
  EXPECT_FALSE(view.unfinished());
  EXPECT_EQ(view.line_start(), 12u);
}

TEST(ViewTest, ABrokenEscapeDoesNotSwallowTheRest) {
  EXPECT_EQ(view_text("\x1b[" + std::string(300, '1') + "\nnext\n"), std::string(300 - 256, '1') + "\nnext\n");
  const std::string shown = view_text("\x1b]0;" + std::string(3 << 20, 'x') + "\nnext\n");
  EXPECT_TRUE(shown.starts_with("xxx"));
  EXPECT_TRUE(shown.ends_with("x\nnext\n"));
  EXPECT_EQ(view_text("\x1b]0;" + std::string(1 << 19, 'x') + "\atext"), "text") << "an image is not broken";
}

TEST(ViewTest, LongLinesAreCutInTheMiddleWithACount) {
  const std::string fits(2000, 'x');
  EXPECT_EQ(view_text(fits + "\n"), fits + "\n");
  const std::string note = "... (29 characters cut) ...";
  const std::string text = std::string(1000, 'a') + std::string(1002, 'b');
  EXPECT_EQ(view_text(text), std::string(987, 'a') + note + std::string(986, 'b'));
  EXPECT_EQ(utf8_length(view_text(text)), 2000u);
  std::string wide;
  for (int i = 0; i < 2002; ++i) wide += i < 1001 ? "\xE4\xB8\x96" : "\xE7\x95\x8C";
  EXPECT_EQ(utf8_length(view_text(wide)), 2000u);
  EXPECT_NE(view_text(wide).find(note), std::string::npos);
  Lines lines;
  View view;
  view.feed(fits + "\n", lines);
  EXPECT_FALSE(lines.any_cut);
  view.feed(text + "\n", lines);
  EXPECT_TRUE(lines.any_cut);
}

TEST(ViewTest, AVeryLongLineIsCountedExactlyInBoundedMemory) {
  std::string long_line = "begin ";
  long_line.append(3'000'000, 'm');
  long_line += " end";
  const std::string shown = view_text(long_line + "\n");
  const std::string note = "... (" + std::to_string(long_line.size() - 1968) + " characters cut) ...";
  EXPECT_TRUE(shown.starts_with("begin mmm"));
  EXPECT_TRUE(shown.ends_with("mmm end\n"));
  EXPECT_NE(shown.find(note), std::string::npos) << shown.substr(960, 100);
  for (const std::size_t piece : {1000u, 4096u, 65536u, 100'001u}) {
    EXPECT_EQ(shown_in_pieces(long_line + "\n", piece), shown) << piece;
  }
}

TEST(ViewTest, AFarCursorDoesNotMakeAFarLine) {
  EXPECT_LE(view_text("\x1b[99999Cx").size(), 2001u);
  EXPECT_LE(view_text("\x1b[99999C\x1b[99999C\x1b[99999Gx").size(), 2001u);
  EXPECT_LE(view_text(std::string(1'000'000, 'x') + "\x1b[2Ky").size(), 2001u);
}

TEST(ViewTest, ManyMarksOnACellAreBounded) {
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i) marks += "\xCC\x81";
  EXPECT_LT(view_text(marks).size(), 30u);
  std::string frames;
  for (int i = 0; i < 100'000; ++i) frames += "\re\xCC\x81";
  EXPECT_EQ(view_text(frames), "e\xCC\x81");
}

}  // namespace
}  // namespace errand
