// SPDX-License-Identifier: Apache-2.0
// Engine::watch(): matching lines as events, gathered and bounded.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>

#include "base/utf8.h"
#include "engine/engine_testing.h"
#include "engine/watch.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

// What a watch has said so far.
class Said {
 public:
  void add(const WatchBatch& batch) {
    const std::scoped_lock lock(mutex_);
    batches_.push_back(batch);
    at_.push_back(std::chrono::steady_clock::now());
  }
  WatchCallback callback() {
    return [this](const WatchBatch& batch) { add(batch); };
  }
  std::string text() const {
    const std::scoped_lock lock(mutex_);
    std::string text;
    for (const WatchBatch& batch : batches_) text += batch.text;
    return text;
  }
  std::vector<WatchBatch> batches() const {
    const std::scoped_lock lock(mutex_);
    return batches_;
  }
  std::vector<std::chrono::steady_clock::time_point> times() const {
    const std::scoped_lock lock(mutex_);
    return at_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<WatchBatch> batches_;
  std::vector<std::chrono::steady_clock::time_point> at_;
};

class WatchTest : public ::testing::Test {
 protected:
  std::optional<Watch> watch(const std::string& id, const std::string& regex, WatchCallback callback) {
    auto result = engine_.watch(id, regex, std::move(callback));
    if (auto* rejected = std::get_if<Rejected>(&result)) {
      ADD_FAILURE() << rejected->reason;
      return std::nullopt;
    }
    return std::get<Watch>(std::move(result));
  }

  TemporaryFolder folder_;
  Said said_;
  Engine engine_{test_config(folder_)};
};

TEST_F(WatchTest, EachMatchingLineBecomesAnEventUntilTheOutputEnds) {
  const std::string go = folder_ / "go";
  launch(engine_, "echo error: one; echo fine; until [ -e '" + go +
                      "' ]; do sleep 0.02; done; echo error: two; echo fine; printf 'error: three'; exit 1");
  ASSERT_TRUE(await_output(engine_, "bg-1", "fine"));
  auto handle = watch("bg-1", "^error: (\\w+)", said_.callback());
  ASSERT_TRUE(eventually([&] { return said_.text() == "error: one\n"; })) << "what is retained comes first";
  EXPECT_FALSE(handle->ended());
  std::ofstream(go).put('\n');
  ASSERT_TRUE(eventually([&] { return handle->ended(); }));
  EXPECT_EQ(said_.text(), "error: one\nerror: two\nerror: three\n");
  EXPECT_TRUE(said_.batches().back().last);
  std::size_t lines = 0;
  for (const WatchBatch& batch : said_.batches()) lines += batch.lines;
  EXPECT_EQ(lines, 3u);
}

TEST_F(WatchTest, AnEndedTasksOutputIsWatchedAndEndsAtOnce) {
  launch(engine_, "echo a; echo b; echo ab");
  await_ended(engine_, "bg-1");
  auto handle = watch("bg-1", "b", said_.callback());
  ASSERT_TRUE(eventually([&] { return handle->ended(); }));
  EXPECT_EQ(said_.text(), "b\nab\n");
}

TEST_F(WatchTest, LinesAreGatheredAndAFloodIsCutWithANote) {
  // 2 MB of matching lines: far more than the queue holds.
  const std::string go = folder_ / "go";
  launch(engine_, "until [ -e '" + go + "' ]; do sleep 0.02; done; seq 1000001 1250000");
  auto handle = watch("bg-1", "^1", said_.callback());
  std::ofstream(go).put('\n');
  ASSERT_TRUE(eventually([&] { return handle->ended(); }));
  std::uint64_t lines = 0, dropped = 0;
  for (const WatchBatch& batch : said_.batches()) {
    EXPECT_LE(utf8_length(batch.text), WatchBatch::kMaxCharacters);
    const std::string note = "(" + std::to_string(batch.dropped) + " matching lines dropped)\n";
    EXPECT_EQ(batch.text.starts_with(note), batch.dropped > 0) << batch.text.substr(0, 60);
    lines += batch.lines;
    dropped += batch.dropped;
  }
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(lines + dropped, 250'000u);
  EXPECT_TRUE(said_.text().ends_with("1250000\n")) << "the newest are kept";
}

TEST_F(WatchTest, BatchesKeepTheirDistance) {
  launch(engine_, "for i in $(seq 1 40); do echo $i; sleep 0.02; done; sleep 1000");
  const auto start = std::chrono::steady_clock::now();
  auto handle = watch("bg-1", ".", said_.callback());
  ASSERT_TRUE(eventually([&] { return said_.text().ends_with("40\n"); }));
  const auto times = said_.times();
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_GE(times[i] - start, (i + 1) * WatchBatch::kGather);
}

TEST_F(WatchTest, ACallbackThatBlocksDelaysNeitherTheTaskNorTheEngine) {
  std::promise<void> release;
  auto released = release.get_future().share();
  launch(engine_, "seq 1 300000");
  auto handle = watch("bg-1", ".", [this, released](const WatchBatch& batch) {
    released.wait();
    said_.add(batch);
  });
  EXPECT_EQ(await_ended(engine_, "bg-1")->status, TaskStatus::completed);
  EXPECT_EQ(await_ended(engine_, launch(engine_, "echo hello"))->status, TaskStatus::completed);
  EXPECT_EQ(said_.text(), "");
  release.set_value();
  ASSERT_TRUE(eventually([&] { return handle->ended(); }));
  EXPECT_TRUE(said_.text().ends_with("300000\n"));
}

TEST_F(WatchTest, DestroyingTheHandleEndsTheWatchAndLeavesTheTask) {
  launch(engine_, "while sleep 0.01; do echo tick; done");
  {
    auto handle = watch("bg-1", "tick", said_.callback());
    ASSERT_TRUE(eventually([&] { return !said_.batches().empty(); }));
  }
  const std::size_t count = said_.batches().size();
  const std::uint64_t bytes = engine_.get("bg-1")->output_bytes;
  ASSERT_TRUE(eventually([&] { return engine_.get("bg-1")->output_bytes > bytes + 200; }));
  EXPECT_EQ(said_.batches().size(), count);
  EXPECT_EQ(engine_.get("bg-1")->status, TaskStatus::running);
}

TEST_F(WatchTest, AHandleMayOutliveItsEngine) {
  auto engine = std::make_unique<Engine>(test_config(folder_));
  launch(*engine, "echo one; sleep 1000");
  ASSERT_TRUE(await_output(*engine, "bg-1", "one"));
  auto result = engine->watch("bg-1", "one", said_.callback());
  engine.reset();
  Watch handle = std::get<Watch>(std::move(result));
  EXPECT_TRUE(eventually([&] { return said_.text() == "one\n"; }));
}

TEST_F(WatchTest, WhatCannotBeWatchedIsRefusedWithTheReason) {
  launch(engine_, "sleep 1000");
  const auto reason = [&](const std::string& id, const std::string& regex) {
    return std::get<Rejected>(engine_.watch(id, regex, said_.callback())).reason;
  };
  EXPECT_EQ(reason("bg-9", "x"), "bg-9: no such task");
  EXPECT_EQ(reason("bg-1", "["), "invalid pattern: missing ]: [");
}

// --- the queue alone ---

TEST(WatchQueueTest, ABatchHoldsWholeLinesUpToItsLimit) {
  WatchQueue queue;
  const std::string line(999, 'x');
  for (int i = 0; i < 4; ++i) queue.push(line);
  const WatchBatch first = queue.take();
  EXPECT_EQ(first.lines, 3u);
  EXPECT_EQ(first.text.size(), 3000u);
  EXPECT_EQ(queue.take().lines, 1u);
  EXPECT_TRUE(queue.empty());
}

TEST(WatchQueueTest, CharactersCountNotBytes) {
  WatchQueue queue;
  std::string line;
  for (int i = 0; i < 1499; ++i) line += "\xC3\xA4";
  queue.push(line);
  queue.push(line);
  EXPECT_EQ(queue.take().lines, 2u);
}

TEST(WatchQueueTest, TheOldestAreDroppedAndCounted) {
  WatchQueue queue;
  for (int i = 0; i < 31; ++i) queue.push(std::string(999, static_cast<char>('a' + i % 26)));
  const WatchBatch batch = queue.take();
  EXPECT_EQ(batch.dropped, 1u);
  EXPECT_TRUE(batch.text.starts_with("(1 matching line dropped)\nbbb")) << batch.text.substr(0, 40);
  EXPECT_EQ(batch.lines, 2u) << "the note takes room";
  EXPECT_EQ(queue.take().dropped, 0u);
}

TEST(WatchQueueTest, ALineLongerThanABatchIsCut) {
  WatchQueue queue;
  queue.push(std::string(10'000, 'x'));
  const WatchBatch batch = queue.take();
  EXPECT_EQ(batch.lines, 1u);
  EXPECT_LE(batch.text.size(), WatchBatch::kMaxCharacters);
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace errand
