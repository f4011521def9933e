// SPDX-License-Identifier: Apache-2.0
#include "engine/line_store.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace errand {
namespace {

// What a store of unlimited memory and patience would keep.
struct Model {
  struct Line {
    std::string text;
    std::uint64_t raw;
  };
  std::deque<Line> lines;
  std::uint64_t begin = 0, end = 0;
};

TEST(LineStoreTest, KeepsTheLastLinesAndTheirPlaces) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::size_t limit = 1024 + random() % 1000;
    LineStore store(limit);
    Model model;
    const bool only_plain = round % 3 == 0;
    for (int step = 0; step < 200; ++step) {
      if (only_plain || random() % 2 == 0) {
        std::string lines;
        for (std::size_t k = 1 + random() % 30; k > 0; --k) {
          const std::string line(random() % 70, static_cast<char>('a' + random() % 26));
          lines += line + "\n";
          model.lines.push_back({line, line.size() + 1});
        }
        model.end += lines.size();
        store.add_plain(lines);
      } else {
        const std::string line(random() % 90, static_cast<char>('A' + random() % 26));
        const std::uint64_t raw = 1 + random() % (random() % 2 == 0 ? 100 : 100'000);
        model.lines.push_back({line, raw});
        model.end += raw;
        store.add(line, raw);
      }
      ASSERT_EQ(store.end(), model.end);
      ASSERT_LE(store.size(), limit);
      while (model.begin < store.begin()) {
        model.begin += model.lines.front().raw;
        model.lines.pop_front();
      }
      ASSERT_EQ(store.begin(), model.begin) << "it begins at a line";
      std::string text;
      for (const Model::Line& line : model.lines) text += line.text + "\n";
      std::uint64_t from = 0;
      ASSERT_EQ(store.text(0, limit, from), text);
      ASSERT_EQ(from, model.begin);
      if (only_plain && model.begin > 0) {
        ASSERT_GT(text.size() + 71, limit) << "as much as fits";
      }

      // From some offset on, and the last of it.
      const std::uint64_t after = model.end - random() % (model.end - model.begin + 1);
      const std::size_t most = random() % (limit + 1);
      std::uint64_t expected_from = model.begin;
      std::string expected = text;
      for (const Model::Line& line : model.lines) {
        if (expected_from + line.raw > after && expected.size() <= most) break;
        expected_from += line.raw;
        expected.erase(0, line.text.size() + 1);
      }
      ASSERT_EQ(store.text(after, most, from), expected);
      ASSERT_EQ(from, expected_from);
    }
  }
}

TEST(LineStoreTest, OfALineOverTheLimitTheEndStaysUntilTheNextComes) {
  LineStore store(1024);
  std::uint64_t from = 0;
  store.add_plain("before\n");
  store.add(std::string(3000, 'x') + "end", 3004);
  const std::string text = store.text(0, 1024, from);
  EXPECT_TRUE(text.ends_with("xxend\n"));
  EXPECT_GT(text.size(), 900u);
  EXPECT_LE(store.size(), 1024u);
  EXPECT_EQ(from, store.end() - text.size());
  store.add_plain("next\n");
  EXPECT_EQ(store.text(0, 1024, from), "next\n");
  EXPECT_EQ(from, 3011u);
}

TEST(LineStoreTest, DroppingKeepsThePlace) {
  LineStore store(1024);
  store.add_plain("one\n");
  store.add("two", 20);
  store.drop();
  EXPECT_EQ(store.begin(), 24u);
  EXPECT_EQ(store.end(), 24u);
  store.add("three", 9);
  std::uint64_t from = 0;
  EXPECT_EQ(store.text(0, 1024, from), "three\n");
  EXPECT_EQ(from, 24u);
}

}  // namespace
}  // namespace errand
