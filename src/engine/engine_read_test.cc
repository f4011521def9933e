// SPDX-License-Identifier: Apache-2.0
// Reading behind a cursor, and what a reader of the file finds at any time.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace errand::testing;

std::string numbers(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(CursorTest, WhatIsNewTheUnfinishedLineAgainAndTheNextCursor) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string gate = folder / "gate";
  const std::string id =
      launch(engine, "printf 'one\\ntwo\\nthr'; until [ -e " + gate + " ]; do sleep 0.02; done; printf 'ee\\nfour'");
  ASSERT_TRUE(await_output(engine, id, "thr"));
  const auto first = engine.read(id, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->text, "one\ntwo\n");
  EXPECT_EQ(first->unfinished, "thr");
  EXPECT_EQ(first->next_cursor, 8u);
  EXPECT_EQ(first->dropped, 0u);
  EXPECT_EQ(engine.read(id, 8)->text, "");
  EXPECT_EQ(engine.read(id, 8)->unfinished, "thr") << "it comes again";
  ASSERT_EQ(std::system(("touch " + gate).c_str()), 0);
  await_ended(engine, id);
  const auto second = engine.read(id, first->next_cursor);
  EXPECT_EQ(second->text, "three\n");
  EXPECT_EQ(second->unfinished, "four");
  EXPECT_EQ(second->next_cursor, 14u);
  EXPECT_FALSE(engine.read("bg-9", 0));
}

TEST(CursorTest, WhatCanNoLongerBeReadIsCounted) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_chars = 1024;
  config.output_folder.clear();
  Engine engine(config);
  const std::string id = launch(engine, "seq 1 5000");
  await_ended(engine, id);
  const auto read = engine.read(id, 0);
  ASSERT_TRUE(read);
  const std::string all = numbers(1, 5000);
  EXPECT_LE(read->text.size(), 1024u);
  EXPECT_TRUE(all.ends_with(read->text));
  EXPECT_EQ(read->dropped + read->text.size(), all.size());
  EXPECT_EQ(read->next_cursor, all.size());
}

TEST(CursorTest, AProgressBarDoesNotPushOutTheLinesBeforeItAndIsNotCountedAsDropped) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_chars = 4096;
  Engine engine(config);
  const std::string id =
      launch(engine,
             "echo before; for i in $(seq 1 20000); do printf '\\r\\033[K%5d of 20000' $i; done; printf '\\nafter\\n'");
  await_ended(engine, id);
  EXPECT_EQ(output_of(engine, id), "before\n20000 of 20000\nafter\n");
  EXPECT_EQ(engine.read(id, 0)->text, "before\n20000 of 20000\nafter\n");
  EXPECT_EQ(engine.read(id, 0)->dropped, 0u);
}

// Whoever follows the file sees it grow, never change: past its cap too.
TEST(OutputFileLifeTest, TheFileOnlyEverGrows) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_file_bytes = 131072;
  Engine engine(config);
  const std::string id = launch(engine, "for i in 1 2 3 4 5 6 7 8; do seq 1 20000; sleep 0.02; done");
  std::string seen;
  int looks = 0;
  const auto look = [&] {
    const std::string now = read_file(engine.get(id)->output_file);
    EXPECT_EQ(now.compare(0, seen.size(), seen), 0) << "what was there is not there any more";
    seen = now;
    ++looks;
    return engine.get(id)->status != TaskStatus::running;
  };
  EXPECT_TRUE(eventually(look));
  ASSERT_TRUE(eventually([&] {
    look();
    return seen.ends_with("\n19999\n20000\n");
  }));
  EXPECT_GT(looks, 2);
  EXPECT_LE(seen.size(), 131072u);
  EXPECT_TRUE(seen.starts_with(numbers(1, 5000)));
}

TEST(OutputFileLifeTest, AfterAKillOfTheHostTheFileEndsWithItsHead) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_file_bytes = 131072;
  const std::string done = folder / "done";
  const pid_t host = ::fork();
  if (host == 0) {
    Engine engine(config);
    engine.launch(request_of("seq 1 100000; touch " + done + "; sleep 1000"));
    for (;;) ::pause();
  }
  ASSERT_TRUE(eventually([&] { return file_exists(done); }));
  const std::string file = config.output_folder + "/bg-1.output";
  ASSERT_TRUE(eventually([&] { return read_file(file).size() > 60000; })) << read_file(file).size();
  ASSERT_EQ(::kill(host, SIGKILL), 0);
  ASSERT_EQ(::waitpid(host, nullptr, 0), host);
  const std::string left = read_file(file);
  EXPECT_LE(left.size(), 65536u) << "neither a marker nor the end: nobody was there to write them";
  EXPECT_EQ(numbers(1, 100000).compare(0, left.size(), left), 0);
}

}  // namespace
}  // namespace errand
