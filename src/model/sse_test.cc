// SPDX-License-Identifier: Apache-2.0
#include "model/sse.h"

#include <gtest/gtest.h>

namespace errand {
namespace {

using Events = std::vector<std::pair<std::string, std::string>>;

Events parse(const std::vector<std::string_view>& chunks) {
  SseParser parser;
  std::vector<SseEvent> events;
  for (const std::string_view chunk : chunks) parser.feed(chunk, events);
  Events result;
  for (const SseEvent& event : events) result.emplace_back(event.name, event.data);
  return result;
}

constexpr std::string_view kSample =
    "\xEF\xBB\xBF: hello\r\n"
    "event: message_start\r\ndata: {\"a\": 1}\r\n\r\n"
    "event: ping\ndata: {}\n\n"
    "data: one\rdata:two\rdata:  three\r\r"
    "retry: 10\nid: 7\nevent: empty\n\n"
    "data\n\n"
    ":\n\n\n"
    "event: \xC3\xA9\ndata: {\"type\": \"content_block_delta\", \"text\": \"\xE2\x82\xAC\"}\n\n"
    "event: cut\ndata: never ended\n";

const Events kExpected = {
    {"message_start", "{\"a\": 1}"},
    {"ping", "{}"},
    {"message", "one\ntwo\n three"},
    {"message", ""},
    {"\xC3\xA9", "{\"type\": \"content_block_delta\", \"text\": \"\xE2\x82\xAC\"}"},
};

TEST(Sse, WholeAndByteByByte) {
  EXPECT_EQ(parse({kSample}), kExpected);
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < kSample.size(); ++i) bytes.push_back(kSample.substr(i, 1));
  EXPECT_EQ(parse(bytes), kExpected);
}

TEST(Sse, EverySplitInTwoAndThree) {
  for (std::size_t i = 0; i <= kSample.size(); ++i) {
    ASSERT_EQ(parse({kSample.substr(0, i), kSample.substr(i)}), kExpected) << i;
    for (std::size_t j = i; j <= kSample.size(); ++j) {
      ASSERT_EQ(parse({kSample.substr(0, i), kSample.substr(i, j - i), kSample.substr(j)}), kExpected) << i << " " << j;
    }
  }
}

TEST(Sse, ABrokenLastEventIsNone) {
  SseParser parser;
  std::vector<SseEvent> events;
  parser.feed("data: a\n\n", events);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_FALSE(parser.unfinished());
  parser.feed("data: {\"half\"", events);
  EXPECT_TRUE(parser.unfinished());
  parser.feed("\n", events);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_TRUE(parser.unfinished());
}

TEST(Sse, ByteOrderMarkOnlyAtTheStart) {
  EXPECT_EQ(parse({"\xEF\xBB\xBF"
                   "data: a\n\n\xEF\xBB\xBF"
                   "data: b\n\ndata: c\n\n"}),
            (Events{{"message", "a"}, {"message", "c"}}));
}

TEST(Sse, EndlessLinesAreBounded) {
  SseParser parser;
  std::vector<SseEvent> events;
  const std::string megabyte(1 << 20, 'x');
  parser.feed("data: ", events);
  for (int i = 0; i < 40; ++i) parser.feed(megabyte, events);
  EXPECT_TRUE(parser.too_large());
  parser.feed("\n\ndata: later\n\n", events);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace errand
