// SPDX-License-Identifier: Apache-2.0
// What tasks print: floods, caps, encodings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/utf8.h"
#include "engine/engine_testing.h"
#include "engine/output_file.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

std::uint64_t resident_bytes() {
  std::uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * 4096;
}

TEST(OutputTest, FloodsStayWithinTheirBoundsAndDelayNobody) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_file_bytes = 1 << 20;
  Engine engine(config);
  for (int i = 0; i < 3; ++i) launch(engine, "yes flood");
  ASSERT_TRUE(eventually([&] { return engine.get("bg-3")->output_bytes > (8 << 20); }));
  const std::uint64_t before = resident_bytes();
  const auto until = std::chrono::steady_clock::now() + 3s;
  int rounds = 0;
  for (; std::chrono::steady_clock::now() < until; ++rounds) {
    const TaskSnapshot task = await_ended(engine, launch(engine, "echo seen"));
    EXPECT_EQ(task->status, TaskStatus::completed);
    EXPECT_EQ(output_of(engine, task->id), "seen\n");
  }
  EXPECT_GT(rounds, 3);
  if (!kSanitized) {
    EXPECT_LT(resident_bytes(), before + (16 << 20));
  }
  for (const char* id : {"bg-1", "bg-2", "bg-3"}) {
    EXPECT_EQ(engine.stop(id).outcome, StopReport::Outcome::stopped);
    const TaskSnapshot task = engine.get(id);
    EXPECT_TRUE(task->output_truncated);
    EXPECT_FALSE(task->output_error);
    const std::string text = output_of(engine, id);
    EXPECT_LE(text.size(), config.max_output_chars);
    EXPECT_TRUE(text.starts_with("flood\n"));
    EXPECT_TRUE(eventually([&] { return engine.get(id)->output_unwritten_bytes + (2 << 20) > task->output_bytes; }));
    EXPECT_TRUE(
        eventually([&] { return read_file(task->output_file).find("bytes left out here]\n") != std::string::npos; }));
    EXPECT_LE(read_file(task->output_file).size(), config.max_output_file_bytes);
  }
}

// Every byte is either in the file or counted, in the order in which it came.
TEST(OutputTest, ACappedFileHoldsHeadMarkerAndEnd) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_file_bytes = 131072;
  Engine engine(config);
  const TaskSnapshot task = await_ended(engine, launch(engine, "seq 100000 199999"));  // 700,000 bytes
  EXPECT_EQ(task->output_bytes, 700'000u);
  const std::string file = read_file(task->output_file);
  const std::size_t head = 131072 - OutputFile::kRing - OutputFile::kMarkerSpace;
  const std::uint64_t left_out = 700'000 - head - OutputFile::kRing;
  EXPECT_EQ(task->output_unwritten_bytes, left_out);
  const std::string marker = "[errand: " + std::to_string(left_out) + " bytes left out here]\n";
  const std::size_t at = file.find(marker);
  ASSERT_NE(at, std::string::npos);
  EXPECT_TRUE(at == head || at == head + 1) << "a newline stands before it when the head ends within a line";
  EXPECT_TRUE(file.starts_with("100000\n100001\n"));
  EXPECT_TRUE(file.ends_with("\n199998\n199999\n"));
  EXPECT_EQ(file.size() - at - marker.size(), OutputFile::kRing);
  EXPECT_LE(file.size(), config.max_output_file_bytes);
}

TEST(OutputTest, BelowTheCapTheFileIsTheOutput) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const TaskSnapshot task =
      await_ended(engine, launch(engine, "head -c 20000000 /dev/urandom | tee " + (folder / "copy")));
  EXPECT_EQ(task->output_bytes, 20'000'000u);
  EXPECT_EQ(task->output_unwritten_bytes, 0u);
  EXPECT_TRUE(read_file(task->output_file) == read_file(folder / "copy"));
  EXPECT_TRUE(is_valid_utf8(output_of(engine, task->id)));
}

TEST(OutputTest, ACodePointThatIsStillComingIsNotShownAsGarbage) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string gate = folder / "gate";
  const std::string id =
      launch(engine, "printf 'a\\303'; while [ ! -e " + gate + " ]; do sleep 0.02; done; printf '\\251\\377'");
  ASSERT_TRUE(eventually([&] { return engine.get(id)->output_bytes == 2; }));
  EXPECT_EQ(output_of(engine, id), "a");
  ASSERT_EQ(std::system(("touch " + gate).c_str()), 0);
  await_ended(engine, id);
  EXPECT_EQ(output_of(engine, id), "a\xC3\xA9\xEF\xBF\xBD");
}

TEST(OutputTest, AnythingThatIsPrintedIsReadAsValidUtf8) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  // A lone continuation, an overlong form, a surrogate, a cut character before a letter, NUL, GBK.
  const std::string id = launch(engine, R"(printf 'a\200b\300\257c\355\240\200d\360\237\230e\000f\304\343g\377\n')");
  await_ended(engine, id);
  const std::string text = output_of(engine, id);
  EXPECT_TRUE(is_valid_utf8(text)) << text;
  EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos);
  EXPECT_EQ(read_file(engine.get(id)->output_file).size(), 21u) << "the file keeps the raw bytes";
}

TEST(OutputTest, StdoutAndStderrComeInTheirOrder) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string id = launch(engine, "for i in 1 2 3; do echo out$i; echo err$i >&2; done");
  await_ended(engine, id);
  EXPECT_EQ(output_of(engine, id), "out1\nerr1\nout2\nerr2\nout3\nerr3\n");
}

TEST(OutputTest, WithoutAFolderNothingIsWritten) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.output_folder.clear();
  Engine engine(config);
  const TaskSnapshot task = await_ended(engine, launch(engine, "echo x"));
  EXPECT_EQ(task->output_file, "");
  EXPECT_EQ(output_of(engine, task->id), "x\n");
  EXPECT_FALSE(file_exists(folder / "tasks"));
}

TEST(OutputTest, ARemovedFileIsSaidAndEndsNothing) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string gate = folder / "gate";
  const std::string id =
      launch(engine, "echo one; while [ ! -e " + gate + " ]; do sleep 0.02; done; echo two; sleep 0.1; echo three");
  ASSERT_TRUE(eventually([&] { return read_file(engine.get(id)->output_file) == "one\n"; }));
  ASSERT_EQ(std::remove(engine.get(id)->output_file.c_str()), 0);
  ASSERT_EQ(std::system(("touch " + gate).c_str()), 0);
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(task->output_error, "write: file removed");
  EXPECT_EQ(output_of(engine, id), "one\ntwo\nthree\n");
}

TEST(OutputTest, AQuietTaskShowsWhenItSpokeLast) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string id = launch(engine, "sleep 0.2; echo x; sleep 1000");
  EXPECT_FALSE(engine.get(id)->last_output_at_ms);
  ASSERT_TRUE(await_output(engine, id, "x"));
  const TaskSnapshot task = engine.get(id);
  ASSERT_TRUE(task->last_output_at_ms);
  EXPECT_GE(*task->last_output_at_ms, task->started_at_ms);
  EXPECT_GE(task->duration_ms, 100);
  EXPECT_TRUE(eventually([&] { return *engine.get(id)->last_output_age_ms > 20; }));
}

// The pipe's last full load is read before an end is published, however slow the loop was.
TEST(OutputTest, NothingIsLostBetweenExitAndPublication) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.output_drain = 0ms;
  Engine engine(config);
  for (int i = 0; i < 20; ++i) {
    const TaskSnapshot task = await_ended(engine, launch(engine, "head -c 60000 /dev/zero"));
    EXPECT_EQ(task->output_bytes, 60'000u);
    EXPECT_EQ(task->output_bytes_after_end, 0u);
  }
}

// A FIFO that nobody reads from stands for a disk that hangs: its task goes on with the tail after two seconds, and
// neither its end nor anybody else's output waits.
TEST(OutputTest, AHungDiskSlowsItsTaskForAMomentAndNobodyElse) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  ASSERT_EQ(::mkdir(config.output_folder.c_str(), 0700), 0);
  const std::string fifo = config.output_folder + "/bg-1.output";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader);
  Engine engine(config);
  const std::string id = launch(engine, "seq 1000000 2999999; echo done");  // 16 MB
  ASSERT_TRUE(eventually([&] { return engine.get(id)->output_bytes > 200'000; }));
  const TaskSnapshot other = await_ended(engine, launch(engine, "echo other"));
  EXPECT_EQ(output_of(engine, other->id), "other\n");
  EXPECT_TRUE(eventually([&] { return read_file(other->output_file) == "other\n"; })) << "another writer takes over";
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->exit_code, 0);
  EXPECT_EQ(task->output_bytes, 16'000'005u);
  EXPECT_GT(task->output_unwritten_bytes, 15'000'000u);
  EXPECT_TRUE(output_of(engine, id).ends_with("2999999\ndone\n"));
  EXPECT_EQ(task->output_error, "write: no progress for 2 s");
  reader.reset();  // now the write fails
  EXPECT_TRUE(engine.close().left.empty());
}

// A disk that is slower than the task slows the task: nothing is left out.
TEST(OutputTest, ASlowDiskSlowsItsTask) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  ASSERT_EQ(::mkdir(config.output_folder.c_str(), 0700), 0);
  const std::string fifo = config.output_folder + "/bg-1.output";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader);
  Engine engine(config);
  const std::string id = launch(engine, "seq 1000000 1249999");  // 2 MB
  std::string read;
  std::vector<char> buffer(64 * 1024);
  ASSERT_TRUE(eventually([&] {
    const ssize_t got = ::read(reader.get(), buffer.data(), buffer.size());
    if (got > 0) read.append(buffer.data(), static_cast<std::size_t>(got));
    return read.size() >= 2'000'000;
  }));
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->output_unwritten_bytes, 0u);
  EXPECT_TRUE(read.starts_with("1000000\n") && read.ends_with("1249999\n"));
}

TEST(OutputFolderTest, WhatPrintsNothingHasItsFileSoonForThoseWhoFollowIt) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string id = launch(engine, "sleep 1000");
  const std::string path = engine.get(id)->output_file;
  EXPECT_TRUE(eventually([&] { return ::access(path.c_str(), F_OK) == 0; })) << path;
}

}  // namespace
}  // namespace errand
