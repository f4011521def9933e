// SPDX-License-Identifier: Apache-2.0
#include "terminal/keys.h"

#include <gtest/gtest.h>

namespace errand::terminal {
namespace {

std::vector<Key> decode(std::string_view bytes) { return KeyDecoder().feed(bytes); }
std::vector<Key> one(KeyCode code, std::string text = {}) { return {{code, std::move(text)}}; }

TEST(KeyDecoderTest, RunsOfCharactersAreOneKey) {
  EXPECT_EQ(decode("abc"), one(KeyCode::text, "abc"));
  EXPECT_EQ(decode("häß\xE6\xB5\x8B"), one(KeyCode::text, "häß\xE6\xB5\x8B"));
}

TEST(KeyDecoderTest, ACharacterMayArriveByteByByte) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.feed("\xF0").empty());
  EXPECT_TRUE(decoder.feed("\x9F").empty());
  EXPECT_TRUE(decoder.feed("\x94").empty());
  EXPECT_FALSE(decoder.waiting());
  EXPECT_EQ(decoder.feed("\x94"), one(KeyCode::text, "\xF0\x9F\x94\x94"));
}

TEST(KeyDecoderTest, InvalidBytesBecomeReplacementCharactersAndBlockNothing) {
  EXPECT_EQ(decode("\xFF\xC3(").front().text, "\xEF\xBF\xBD\xEF\xBF\xBD(");
}

TEST(KeyDecoderTest, ControlKeys) {
  EXPECT_EQ(decode("\x01"), one(KeyCode::home));
  EXPECT_EQ(decode("\x05"), one(KeyCode::end));
  EXPECT_EQ(decode("\x0B"), one(KeyCode::kill_to_end));
  EXPECT_EQ(decode("\x15"), one(KeyCode::kill_to_start));
  EXPECT_EQ(decode("\x17"), one(KeyCode::kill_word));
  EXPECT_EQ(decode("\x03"), one(KeyCode::interrupt));
  EXPECT_EQ(decode("\x04"), one(KeyCode::end_of_input));
  EXPECT_EQ(decode("\x7F"), one(KeyCode::backspace));
  EXPECT_EQ(decode("\r"), one(KeyCode::enter));
}

TEST(KeyDecoderTest, SequencesOfSeveralTerminals) {
  for (const char* up : {"\x1b[A", "\x1bOA"}) EXPECT_EQ(decode(up), one(KeyCode::up));
  for (const char* home : {"\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"}) EXPECT_EQ(decode(home), one(KeyCode::home));
  for (const char* end : {"\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"}) EXPECT_EQ(decode(end), one(KeyCode::end));
  EXPECT_EQ(decode("\x1b[3~"), one(KeyCode::remove));
  EXPECT_EQ(decode("\x1b[1;5D"), one(KeyCode::word_left));
  EXPECT_EQ(decode("\x1b\r"), one(KeyCode::newline));
}

TEST(KeyDecoderTest, AnUnknownSequenceIsSwallowedWhole) {
  const std::vector<Key> expected{{KeyCode::unknown, ""}, {KeyCode::text, "x"}};
  EXPECT_EQ(decode("\x1b[24~x"), expected);
}

TEST(KeyDecoderTest, ASequenceMayBeCutAnywhere) {
  const std::string_view sequence = "\x1b[1;5C";
  for (std::size_t cut = 1; cut < sequence.size(); ++cut) {
    KeyDecoder decoder;
    EXPECT_TRUE(decoder.feed(sequence.substr(0, cut)).empty());
    EXPECT_TRUE(decoder.waiting());
    EXPECT_EQ(decoder.feed(sequence.substr(cut)), one(KeyCode::word_right));
    EXPECT_FALSE(decoder.waiting());
  }
}

TEST(KeyDecoderTest, ALoneEscapeIsAKeyWhenTheTimeIsOver) {
  KeyDecoder decoder;
  EXPECT_TRUE(decoder.feed("\x1b").empty());
  EXPECT_TRUE(decoder.waiting());
  EXPECT_EQ(decoder.flush(), one(KeyCode::escape));
  EXPECT_FALSE(decoder.waiting());
  const std::vector<Key> both{{KeyCode::escape, ""}, {KeyCode::text, "x"}};
  EXPECT_EQ(decode("\x1bx"), both);
}

TEST(KeyDecoderTest, ABracketedPasteIsOneKeyWithItsNewlines) {
  EXPECT_EQ(decode("\x1b[200~one\r\ntwo\rthree\x1b[201~"), one(KeyCode::paste, "one\ntwo\nthree"));
}

TEST(KeyDecoderTest, APasteMayBeCutAnywhereAndHoldEscapes) {
  const std::string bytes = "\x1b[200~a\x1b[Ab\x03\x1b[201~c";
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    KeyDecoder decoder;
    std::vector<Key> keys = decoder.feed(bytes.substr(0, cut));
    for (Key& key : decoder.feed(bytes.substr(cut))) keys.push_back(std::move(key));
    const std::vector<Key> expected{{KeyCode::paste, "a\x1b[Ab\x03"}, {KeyCode::text, "c"}};
    EXPECT_EQ(keys, expected) << cut;
  }
}

}  // namespace
}  // namespace errand::terminal
