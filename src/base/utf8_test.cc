// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/char_width.h"

namespace errand {
namespace {

TEST(Utf8Test, EveryCodePointIsReadAsItWasWritten) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const CodePoint read = next_code_point(text);
    ASSERT_TRUE(read.valid);
    ASSERT_EQ(read.value, c);
    ASSERT_EQ(read.size, text.size());
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const CodePoint part = next_code_point(std::string_view(text).substr(0, cut));
      ASSERT_FALSE(part.valid);
      ASSERT_TRUE(part.unfinished);
      ASSERT_EQ(part.size, cut);
    }
  }
}

TEST(Utf8Test, WrongSequencesAreNeverUnfinished) {
  for (const std::string_view wrong :
       {"\xC0", "\xC1\x80", "\xE0\x80", "\xED\xA0", "\xF0\x80", "\xF4\x90", "\xF5", "\xFF", "\x80"}) {
    EXPECT_FALSE(next_code_point(wrong).valid);
    EXPECT_FALSE(next_code_point(wrong).unfinished) << wrong;
  }
}

TEST(Utf8Test, TheMiddleOfATextThatLostPartOfItIsCutWhereItIsLost) {
  EXPECT_EQ(cut_middle("abc", 0, "def", 10), "abcdef");
  EXPECT_EQ(cut_middle("abc", 7, "def", 100), "abc... (7 characters cut) ...def");
  const std::string cut = cut_middle(std::string(100, 'a'), 1'000'000, std::string(100, 'b'), 60);
  EXPECT_EQ(cut, std::string(14, 'a') + "... (1000172 characters cut) ..." + std::string(14, 'b'));
}

TEST(CharWidthTest, NarrowWideAndJoining) {
  for (const char32_t narrow : {U'a', U'\u00E9', U'\u0416', U'\u2500', U'\u4DC0', U'\uFFFD', U'\u00AD'})
    EXPECT_EQ(char_width(narrow), 1) << std::hex << std::uint32_t{narrow};
  for (const char32_t wide : {U'\u4E16', U'\u3042', U'\uAC00', U'\uFF21', U'\U0001F600', U'\u1100', U'\U00020000'})
    EXPECT_EQ(char_width(wide), 2) << std::hex << std::uint32_t{wide};
  for (const char32_t joining : {U'\u0301', U'\u200D', U'\uFE0F', U'\u1161', U'\u20D0', U'\U000E0100'})
    EXPECT_EQ(char_width(joining), 0) << std::hex << std::uint32_t{joining};
}

}  // namespace
}  // namespace errand
