// SPDX-License-Identifier: Apache-2.0
// Ended tasks whose memory has been freed are read from their files; what is gone is said.
#include "engine/saved_output.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "base/utf8.h"
#include "engine/ended_outputs.h"
#include "engine/engine_testing.h"
#include "engine/output.h"

namespace errand {
namespace {

using namespace errand::testing;

constexpr std::uint64_t kCap = 131072;
constexpr std::size_t kHead = kCap - OutputFile::kRing - OutputFile::kMarkerSpace;

class SavedOutputTest : public ::testing::Test {
 protected:
  // Printed, ended and written.
  std::shared_ptr<Output> output_of_bytes(std::string_view bytes, std::size_t max_retained = 65536,
                                          std::uint64_t cap = 1 << 26) {
    const auto budget = std::make_shared<OutputBudget>(real_file_system(), 0, 0);
    const std::string path = folder_ / ("f" + std::to_string(++files_));
    auto output = std::make_shared<Output>(max_retained, std::make_unique<OutputFile>(budget, path, cap));
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, 50'000);
      output->append(piece, 1, false);
      work_off(*output);
      bytes.remove_prefix(piece.size());
    }
    output->finish();
    work_off(*output);
    return output;
  }
  static void work_off(Output& output) {
    while (output.file()->work()) {
    }
  }
  static std::string path_of(const Output& output) { return output.file()->path(); }

  TemporaryFolder folder_;
  int files_ = 0;
};

TEST_F(SavedOutputTest, ReadsTheSameAsFromMemory) {
  std::string bytes;
  std::mt19937 random(7);
  const std::string words[] = {"error", "\x1b[31mred\x1b[0m", "10%\r20%", "\xE4\xB8\x96", "\xFF", "\n", "\n", "a\tb",
                               " "};
  while (bytes.size() < 60'000) bytes += words[random() % std::size(words)];
  const auto kept = output_of_bytes(bytes), freed = output_of_bytes(bytes);
  freed->free_memory();
  EXPECT_EQ(freed->retained_bytes(), 0u);
  EXPECT_EQ(kept->tail(0).text, freed->tail(0).text);
  EXPECT_EQ(kept->tail(7).text, freed->tail(7).text);
  EXPECT_FALSE(freed->tail(0).truncated);
  for (std::uint64_t cursor = 0; cursor < bytes.size() + 10; cursor += 1 + random() % 997) {
    const OutputRead a = kept->read(cursor), b = freed->read(cursor);
    ASSERT_EQ(a.text, b.text) << cursor;
    ASSERT_EQ(a.unfinished, b.unfinished) << cursor;
    ASSERT_EQ(a.next_cursor, b.next_cursor) << cursor;
    ASSERT_EQ(a.dropped, b.dropped) << cursor;
  }
  TaskRecord record;
  freed->describe(record);
  EXPECT_FALSE(record.output_truncated);
}

TEST_F(SavedOutputTest, ManyReadsGiveEveryLineOnce) {
  std::string bytes;
  for (int i = 0; i < 40'000; ++i) bytes += "line " + std::to_string(i) + "\n";
  bytes += "last";
  const auto output = output_of_bytes(bytes);
  output->free_memory();
  std::string text;
  std::uint64_t cursor = 0;
  for (int i = 0; i < 100; ++i) {
    const OutputRead read = output->read(cursor);
    EXPECT_EQ(read.dropped, 0u);
    EXPECT_LE(read.text.size(), 65536u);
    text += read.text;
    if (read.next_cursor == cursor) {
      text += read.unfinished;
      break;
    }
    cursor = read.next_cursor;
  }
  EXPECT_TRUE(text == bytes);
  EXPECT_TRUE(output->tail(0).truncated) << "not all of it fits";
  EXPECT_EQ(output->tail(2).text, "line 39999\nlast");
}

TEST_F(SavedOutputTest, TheGapOfACappedFileIsCounted) {
  std::string bytes;
  for (int i = 0; i < 30'000; ++i) bytes += "line " + std::to_string(i) + "\n";
  const auto output = output_of_bytes(bytes, 1 << 20, kCap);
  output->free_memory();
  const OutputRead head = output->read(0);
  EXPECT_EQ(head.dropped, 0u);
  EXPECT_EQ(head.next_cursor, kHead);
  EXPECT_EQ(head.text, bytes.substr(0, kHead) + "\n") << "the line that was cut has no other end";
  const OutputRead end = output->read(head.next_cursor);
  EXPECT_EQ(end.dropped, bytes.size() - kHead - OutputFile::kRing);
  EXPECT_EQ(end.text, bytes.substr(bytes.size() - OutputFile::kRing));
  EXPECT_EQ(end.next_cursor, bytes.size());
  EXPECT_EQ(output->read(bytes.size()).text, "");
  const OutputTail tail = output->tail(0);
  EXPECT_TRUE(tail.truncated);
  EXPECT_NE(tail.text.find("bytes left out here]\n"), std::string::npos);
}

TEST_F(SavedOutputTest, WhatIsGoneIsSaid) {
  const auto output = output_of_bytes("one\ntwo\nthree");
  output->free_memory();
  EXPECT_EQ(output->tail(0).text, "one\ntwo\nthree");
  ASSERT_EQ(::unlink(path_of(*output).c_str()), 0);
  EXPECT_EQ(output->tail(0).text, "");
  EXPECT_TRUE(output->tail(0).truncated);
  const OutputRead read = output->read(4);
  EXPECT_EQ(read.text, "");
  EXPECT_EQ(read.dropped, 9u);
  EXPECT_EQ(read.next_cursor, 8u);

  Output without(65536, nullptr);
  without.append("one\ntwo\n", 1, false);
  without.finish();
  without.free_memory();
  EXPECT_EQ(without.tail(0).text, "");
  EXPECT_TRUE(without.tail(0).truncated);
  EXPECT_EQ(without.read(0).dropped, 8u);
  TaskRecord record;
  without.describe(record);
  EXPECT_TRUE(record.output_truncated);
  EXPECT_EQ(record.output_bytes, 8u);
}

TEST_F(SavedOutputTest, AListenerOfAFreedOutputIsToldFromItsFile) {
  class Listener : public LineListener {
   public:
    void on_line(std::string_view text) override { heard += std::string(text) + "|"; }
    void on_unfinished(std::string_view text) override { heard += std::string(text) + "?"; }
    void on_end() override { heard += "end"; }
    std::string heard;
  };
  const auto output = output_of_bytes("one\ntwo\nthree");
  const auto before = std::make_shared<Listener>(), after = std::make_shared<Listener>();
  output->listen(before);
  output->free_memory();
  output->listen(after);
  EXPECT_EQ(before->heard, "one|two|three?end");
  EXPECT_EQ(after->heard, before->heard);
}

TEST_F(SavedOutputTest, SomethingElseInTheFilesPlaceIsNotRead) {
  const auto output = output_of_bytes("one\n");
  output->free_memory();
  const std::string path = path_of(*output);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::symlink("/etc/passwd", path.c_str()), 0);
  EXPECT_EQ(output->tail(0).text, "");
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(output->tail(0).text, "") << "nor waited for";
  ASSERT_EQ(::unlink(path.c_str()), 0);
  std::ofstream(path) << "two\n";
  EXPECT_EQ(output->tail(0).text, "") << "nor taken for it";
  EXPECT_EQ(output->read(0).text, "");
}

TEST_F(SavedOutputTest, EndedOutputsFreeTheOldestFirst) {
  EndedOutputs ended(100);
  const auto one = output_of_bytes(std::string(40, '1')), two = output_of_bytes(std::string(40, '2')),
             three = output_of_bytes(std::string(40, '3'));
  ended.keep(one);
  ended.keep(two);
  ended.keep(two);  // counted once
  EXPECT_EQ(one->retained_bytes(), 40u);
  ended.keep(three);
  EXPECT_EQ(one->retained_bytes(), 0u);
  EXPECT_EQ(two->retained_bytes(), 40u);
  EXPECT_EQ(three->retained_bytes(), 40u);
  EXPECT_EQ(one->tail(0).text, std::string(40, '1'));
  ended.keep(output_of_bytes(std::string(300, '4')));
  EXPECT_EQ(two->retained_bytes() + three->retained_bytes(), 0u);
}

TEST_F(SavedOutputTest, WhatSurvivorsPrintCountsAndGoesOn) {
  EndedOutputs ended(100);
  auto survivor = std::make_shared<Output>(65536, nullptr);
  survivor->append(std::string(80, 'x') + "\n", 1, false);
  ended.keep(survivor);
  survivor->append(std::string(80, 'y') + "\n", 1, true);
  ended.keep(survivor);
  EXPECT_EQ(survivor->retained_bytes(), 0u);
  survivor->append("more\n", 1, true);
  ended.keep(survivor);
  EXPECT_EQ(survivor->tail(0).text, "more\n");
  EXPECT_TRUE(survivor->tail(0).truncated);
  EXPECT_EQ(survivor->read(0).dropped, 162u);
}

}  // namespace
}  // namespace errand
