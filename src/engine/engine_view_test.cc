// SPDX-License-Identifier: Apache-2.0
// What is read of real tasks: the view, cursors, what stays of very much output, and what stays of ended tasks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/utf8.h"
#include "engine/engine_testing.h"
#include "engine/output.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

std::string gigabyte() {
  const char* const wanted = std::getenv("ERRAND_STRESS");
  return wanted != nullptr && std::string_view(wanted) == "full" && !kSanitized ? "1000000000" : "100000000";
}

TEST(OutputViewTest, ATaskIsShownAsATerminalShowsIt) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string id =
      launch(engine, R"(printf 'real\n\033[31mred\033[0m\n10%%\r\033[K50%%\r100%%\nab\bX\n\033]0;t\007end')");
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(output_of(engine, id), "real\nred\n100%\naX\nend");
  EXPECT_FALSE(task->output_truncated);
  EXPECT_NE(read_file(task->output_file).find("\x1b[31mred"), std::string::npos) << "the file keeps the raw bytes";
}

TEST(OutputViewTest, NulBytesAndOtherEncodingsAreValidAndBounded) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string nul = launch(engine, "printf 'a\\0b\\n'; head -c 300000 /dev/zero; printf 'c\\n'");
  await_ended(engine, nul);
  EXPECT_EQ(output_of(engine, nul), "ab\nc\n");
  const std::string gbk = launch(engine, R"(for i in 1 2 3; do printf '\304\343\272\303\n'; done)");
  await_ended(engine, gbk);
  const std::string line = "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\n";
  EXPECT_EQ(output_of(engine, gbk), line + line + line);
  EXPECT_EQ(read_file(engine.get(gbk)->output_file).substr(0, 5), "\xC4\xE3\xBA\xC3\n");
}

TEST(OutputViewTest, ACursorGivesEachLineOnceAndTheUnfinishedOneAgain) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string gate = folder / "gate";
  const std::string id = launch(engine, "printf 'one\\ntw'; while [ ! -e " + gate +
                                            " ]; do sleep 0.02; done; printf 'o\\n1%%\\r2%%\\rthree\\nfour'");
  ASSERT_TRUE(eventually([&] { return engine.get(id)->output_bytes == 6; }));
  OutputRead read = engine.read(id, 0).value();
  EXPECT_EQ(read.text, "one\n");
  EXPECT_EQ(read.unfinished, "tw");
  EXPECT_EQ(read.next_cursor, 4u);
  std::ofstream{gate};
  await_ended(engine, id);
  read = engine.read(id, 4).value();
  EXPECT_EQ(read.text, "two\nthree\n");
  EXPECT_EQ(read.unfinished, "four");
  EXPECT_EQ(read.next_cursor, 20u);
  EXPECT_EQ(read.dropped, 0u) << "overwritten frames are not dropped bytes";
  EXPECT_EQ(engine.read(id, 6)->text, "two\nthree\n") << "a line is read whole";
  read = engine.read(id, 1'000'000).value();
  EXPECT_EQ(read.text, "");
  EXPECT_EQ(read.unfinished, "four");
  EXPECT_EQ(read.next_cursor, 20u);
  EXPECT_FALSE(engine.read("bg-9", 0));
}

TEST(OutputViewTest, WhatIsNoLongerRetainedIsCounted) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const TaskSnapshot task = await_ended(engine, launch(engine, "seq 100000 199999"));
  EXPECT_TRUE(task->output_truncated);
  const OutputRead read = engine.read(task->id, 7).value();
  EXPECT_TRUE(read.text.ends_with("199999\n"));
  EXPECT_LE(read.text.size(), 65536u);
  EXPECT_EQ(read.dropped, 700'000 - 7 - read.text.size());
  EXPECT_EQ(read.next_cursor, 700'000u);
}

// A 4-byte character at every place of chunk, line and limit.
TEST(OutputViewTest, NoCharacterIsCutAtAChunkALineOrTheLimit) {
  const std::string smile = "\xF0\x9F\x98\x80";
  for (std::size_t shift = 0; shift < 8; ++shift) {
    for (const std::size_t chunk : {1u, 2u, 3u, 4u, 5u, 7u, 64u, 1024u, 4096u}) {
      Output output(1024, nullptr);
      std::string bytes(shift, 'x');
      for (int i = 0; i < 900; ++i) bytes += smile + (i % 97 == 96 ? "\n" : "");
      for (std::size_t at = 0; at < bytes.size(); at += chunk) {
        output.append(std::string_view(bytes).substr(at, chunk), 1, false);
        const std::string text = output.tail(0).text;
        ASSERT_TRUE(is_valid_utf8(text));
        ASSERT_LE(text.size(), 1024u);
        ASSERT_EQ(text.find("\xEF\xBF\xBD"), std::string::npos) << shift << " " << chunk << " " << at;
      }
    }
  }
}

TEST(OutputViewTest, EndedTasksShareFourMebibytesAndStayReadable) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_chars = 1 << 20;
  Engine engine(config);
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) {
    ids.push_back(launch(engine, "seq 100000 228999; echo task " + std::to_string(i)));  // 0.9 MB
    await_ended(engine, ids.back());
  }
  for (int i = 0; i < 6; ++i) {
    const std::string text = output_of(engine, ids[static_cast<std::size_t>(i)]);
    EXPECT_TRUE(text.starts_with("100000\n") && text.ends_with("task " + std::to_string(i) + "\n"));
    EXPECT_FALSE(engine.get(ids[static_cast<std::size_t>(i)])->output_truncated);
  }
  // Who still has its memory is seen by what is left when the file has gone.
  const auto left_without_file = [&](const std::string& id) {
    const std::string path = engine.get(id)->output_file;
    EXPECT_TRUE(eventually([&] { return read_file(path).size() > 900'000; }));
    EXPECT_EQ(::unlink(path.c_str()), 0);
    return output_of(engine, id).size();
  };
  EXPECT_EQ(left_without_file(ids[0]), 0u);
  EXPECT_TRUE(engine.tail(ids[0], 1)->truncated) << "what is gone is said";
  EXPECT_EQ(left_without_file(ids[1]), 0u);
  EXPECT_GT(left_without_file(ids[2]), 900'000u);
  EXPECT_GT(left_without_file(ids[5]), 900'000u);
}

// --- very much of it ---

class OutputStressTest : public ::testing::Test {
 protected:
  std::string shown(const std::string& command) {
    EngineConfig config = test_config(folder_);
    config.max_output_file_bytes = 1 << 20;
    Engine engine(config);
    const std::string id = launch(engine, command);
    task_ = engine.wait_end(id, 600s);
    EXPECT_EQ(task_->status, TaskStatus::completed);
    EXPECT_LE(read_file(task_->output_file).size(), config.max_output_file_bytes);
    const std::string text = output_of(engine, id);
    EXPECT_LE(text.size(), config.max_output_chars);
    EXPECT_TRUE(is_valid_utf8(text));
    return text;
  }
  const TemporaryFolder folder_;
  TaskSnapshot task_;
};

TEST_F(OutputStressTest, AGigabyteWithoutANewline) {
  const std::string text = shown("echo begin; head -c " + gigabyte() + " /dev/zero | tr '\\0' x; echo; echo end");
  EXPECT_TRUE(text.starts_with("begin\nxxx"));
  EXPECT_TRUE(text.ends_with("xxx\nend\n"));
  const std::size_t note = text.find("... (");
  ASSERT_NE(note, std::string::npos);
  const auto shown_of_it = std::count(text.begin(), text.end(), 'x');
  EXPECT_EQ(std::stoll(text.substr(note + 5)) + shown_of_it, std::stoll(gigabyte())) << "the count is exact";
  EXPECT_LT(text.size(), 2100u);
  EXPECT_FALSE(task_->output_truncated) << "no line is gone";
}

TEST_F(OutputStressTest, AGigabyteOfFramesLeavesTheRealLines) {
  const std::string text =
      shown("seq 100; yes 'progress 50%' | head -c " + gigabyte() + " | tr '\\n' '\\r'; printf '\\rdone\\033[K\\n'");
  EXPECT_TRUE(text.starts_with("1\n2\n3\n"));
  EXPECT_TRUE(text.ends_with("\n100\ndone\n")) << text;
  EXPECT_FALSE(task_->output_truncated) << "overwritten frames are no loss";
}

TEST_F(OutputStressTest, AGigabyteOfErasedFramesLeavesTheRealLines) {
  const std::string text = shown("seq 100; yes \"$(printf '\\r\\033[K\\033[32m50%%\\033[0m of it')\" | head -c " +
                                 gigabyte() + " | tr -d '\\n'; printf '\\r\\033[Kdone\\n'");
  EXPECT_TRUE(text.starts_with("1\n2\n3\n"));
  EXPECT_TRUE(text.ends_with("\n100\ndone\n")) << text;
  EXPECT_FALSE(task_->output_truncated);
}

TEST_F(OutputStressTest, AGigabyteAfterAnUnterminatedEscape) {
  const std::string text =
      shown("printf '\\033]0;title'; head -c " + gigabyte() + " /dev/zero | tr '\\0' x; echo; echo end");
  EXPECT_TRUE(text.ends_with("xxx\nend\n"));
  EXPECT_LT(text.size(), 2100u);
}

}  // namespace
}  // namespace errand
