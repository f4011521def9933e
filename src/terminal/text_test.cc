// SPDX-License-Identifier: Apache-2.0
#include "terminal/text.h"

#include <gtest/gtest.h>

namespace errand::terminal {
namespace {

TEST(TextTest, Widths) {
  EXPECT_EQ(text_width("abc"), 3);
  EXPECT_EQ(text_width("测试"), 4);
  EXPECT_EQ(text_width("e\xCC\x81"), 1);                                     // combining acute
  EXPECT_EQ(text_width("\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA"), 2);              // a flag
  EXPECT_EQ(text_width("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7"), 2);  // a family
  EXPECT_EQ(text_width("🔔"), 2);
}

TEST(TextTest, ClustersAreWhole) {
  const std::string family = "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7";
  EXPECT_EQ(cluster_length(family + "x"), family.size());
  EXPECT_EQ(last_cluster_length("x" + family), family.size());
  EXPECT_EQ(last_cluster_length("a\nb"), 1U);
  EXPECT_EQ(last_cluster_length("a\n"), 1U);
  EXPECT_EQ(last_cluster_length(""), 0U);
}

TEST(TextFilterTest, RemovesEscapeSequencesWhole) {
  EXPECT_EQ(plain_text("\x1b[1;31mred\x1b[0m"), "red");
  EXPECT_EQ(plain_text("a\x1b]0;title\x07"
                       "b\x1b]8;;http://x\x1b\\c"),
            "abc");
  EXPECT_EQ(plain_text("\x1b(Bx\x1b"
                       "7y"),
            "xy");
  EXPECT_EQ(plain_text("a\x1bPdcs\x1b\\b"), "ab");
}

TEST(TextFilterTest, RemovesControlCharactersButNotNewlineAndTab) {
  EXPECT_EQ(plain_text("a\x07\x08\x7F"
                       "b\r\n\tc\xC2\x9B"
                       "31md"),
            "ab\n\tcd");
}

TEST(TextFilterTest, AnUnfinishedSequenceDoesNotSwallowTheNextLine) {
  EXPECT_EQ(plain_text("a\x1b[12\nb"), "a\nb");
  EXPECT_EQ(plain_text("a\x1b]0;x\nb"), "a\nb");
}

TEST(TextFilterTest, CutAnywhereTheResultIsTheSame) {
  const std::string bytes = "x\x1b[1mü测🔔\x1b]0;t\x1b\\y";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    TextFilter filter;
    std::string text = filter.feed(bytes.substr(0, cut));
    text += filter.feed(bytes.substr(cut));
    EXPECT_EQ(text, "xü测🔔y") << cut;
  }
}

TEST(VisibleTextTest, WhatHidesOrReordersIsWrittenOut) {
  EXPECT_EQ(visible_text("rm \xE2\x80\xAE"
                         "gpj.exe\x1b[2K\ttab\nnext"),
            "rm \\u202egpj.exe\\x1b[2K\\x09tab\nnext");
}

}  // namespace
}  // namespace errand::terminal
