// SPDX-License-Identifier: Apache-2.0
// Tasks whose output files meet a full, limited, slow or followed disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/fd.h"
#include "engine/engine_testing.h"
#include "engine/output_file.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

// A disk of one mebibyte, where one may be mounted.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path) : path_(path) {
    ::mkdir(path.c_str(), 0700);
    if (::mount("none", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") != 0) why_ = std::strerror(errno);
  }
  ~SmallDisk() {
    if (why_.empty()) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  const std::string& why_not() const { return why_; }

 private:
  std::string path_, why_;
};

TEST(OutputDiskTest, ADiskThatFillsUpEndsNothingAndIsSaid) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.min_free_bytes = 0;
  const SmallDisk disk(config.output_folder);
  if (!disk.why_not().empty()) GTEST_SKIP() << "cannot mount a small tmpfs: " << disk.why_not();
  Engine engine(config);
  const std::string big = launch(engine, "seq 1000000 1499999; echo last; exit 7");  // 4 MB
  const TaskSnapshot task = await_ended(engine, big);
  EXPECT_EQ(task->exit_code, 7);
  EXPECT_EQ(task->output_bytes, 4'000'005u);
  EXPECT_EQ(task->output_error, "write: No space left on device");
  EXPECT_GT(task->output_unwritten_bytes, 2'900'000u);
  EXPECT_TRUE(output_of(engine, big).ends_with("1499999\nlast\n"));
  // While the disk is full another task is not harmed, nor after there is room again.
  const TaskSnapshot other = await_ended(engine, launch(engine, "echo other; exit 3"));
  EXPECT_EQ(other->exit_code, 3);
  EXPECT_EQ(output_of(engine, other->id), "other\n");
  EXPECT_EQ(other->output_error, "write: No space left on device");
  EXPECT_EQ(other->output_unwritten_bytes, 6u);
  ASSERT_EQ(::unlink(task->output_file.c_str()), 0);
  const TaskSnapshot later = await_ended(engine, launch(engine, "echo later"));
  EXPECT_FALSE(later->output_error);
  EXPECT_TRUE(eventually([&] { return read_file(later->output_file) == "later\n"; }));
}

TEST(OutputDiskTest, BelowTheFloorNothingIsWritten) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.min_free_bytes = std::uint64_t{1} << 60;
  Engine engine(config);
  const TaskSnapshot task = await_ended(engine, launch(engine, "seq 100"));
  EXPECT_EQ(task->status, TaskStatus::completed);
  EXPECT_EQ(task->output_error, "free space below 1152921504606846976 bytes");
  EXPECT_EQ(task->output_unwritten_bytes, task->output_bytes);
  EXPECT_TRUE(output_of(engine, task->id).ends_with("99\n100\n"));
  EXPECT_EQ(read_file(task->output_file), "");
}

TEST(OutputDiskTest, TheSessionsFilesShareOneLimit) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_session_output_bytes = 100'000;
  Engine engine(config);
  const TaskSnapshot one = await_ended(engine, launch(engine, "head -c 80000 /dev/zero | tr '\\0' 1"));
  EXPECT_FALSE(one->output_error);
  EXPECT_EQ(one->output_unwritten_bytes, 0u);
  const TaskSnapshot two = await_ended(engine, launch(engine, "head -c 200000 /dev/zero | tr '\\0' 2"));
  EXPECT_EQ(two->output_error, "session limit of 100000 bytes reached");
  EXPECT_EQ(two->output_unwritten_bytes, 200'000 - 20'000 - OutputFile::kRing);
  const std::string file = read_file(two->output_file);
  EXPECT_TRUE(file.starts_with(std::string(20'000, '2') + "\n[errand: 114464 bytes left out here]\n"));
  EXPECT_TRUE(file.ends_with("\n" + std::string(OutputFile::kRing, '2')));
}

// A resumed session's earlier files count.
TEST(OutputDiskTest, WhatAnEarlierRunLeftCountsForTheLimit) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_session_output_bytes = 100'000;
  for (const int run : {1, 2}) {
    config.first_id = static_cast<std::uint64_t>(run);
    Engine engine(config);
    const TaskSnapshot task = await_ended(engine, launch(engine, "head -c 90000 /dev/zero | tr '\\0' 1"));
    EXPECT_EQ(task->output_error.has_value(), run == 2);
  }
}

// `tail -f` sees every byte of the file once and in order, past the cap too.
TEST(OutputDiskTest, AFollowerSeesHeadMarkerAndEndOnceAndInOrder) {
  const TemporaryFolder folder;
  EngineConfig config = test_config(folder);
  config.max_output_file_bytes = 131072;
  Engine engine(config);
  const std::string gate = folder / "gate";
  const std::string wait = "while [ ! -e " + gate + " ]; do sleep 0.02; done; ";
  const std::string id = launch(engine, "seq 100000 115000; " + wait + "seq 200000 260000; echo last");
  const std::string path = engine.get(id)->output_file, copy = folder / "copy";
  ASSERT_TRUE(eventually([&] { return read_file(path).size() > 60'000; }));
  const std::string follower = launch(engine, "exec tail -c +1 -f " + path + " > " + copy);
  ASSERT_TRUE(eventually([&] { return read_file(copy).size() > 60'000; }));
  std::ofstream{gate};
  await_ended(engine, id);
  const std::string whole = read_file(path);
  EXPECT_TRUE(eventually([&] { return read_file(copy) == read_file(path) && read_file(copy).ends_with("\nlast\n"); }));
  EXPECT_TRUE(whole.starts_with("100000\n100001\n"));
  EXPECT_EQ(whole.find("bytes left out here]"), whole.rfind("bytes left out here]")) << "one marker";
  EXPECT_TRUE(whole.ends_with("260000\nlast\n"));
  engine.stop(follower);
}

// A FIFO that nobody reads from stands for a file system that hangs; a task of another folder is not slowed at all.
TEST(OutputDiskTest, AStallInOneFolderDoesNotReachAnother) {
  const TemporaryFolder folder;
  EngineConfig hung = test_config(folder), fine = test_config(folder);
  hung.output_folder = folder / "hung";
  fine.output_folder = folder / "fine";
  hung.max_concurrent_background = 20;
  ASSERT_EQ(::mkdir(hung.output_folder.c_str(), 0700), 0);
  std::vector<UniqueFd> readers;
  for (int i = 1; i <= 6; ++i) {
    const std::string fifo = hung.output_folder + "/bg-" + std::to_string(i) + ".output";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    readers.emplace_back(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  Engine stalled(hung), other(fine);
  for (int i = 1; i <= 6; ++i) launch(stalled, "seq 1000000 1999999; echo done");  // 8 MB each
  const TaskSnapshot task = await_ended(other, launch(other, "seq 1000000 1999999"));
  EXPECT_EQ(task->output_unwritten_bytes, 0u);
  EXPECT_FALSE(task->output_error);
  // More files than writers hang: each task is slowed, none is held.
  for (int i = 1; i <= 6; ++i) {
    const TaskSnapshot one = await_ended(stalled, "bg-" + std::to_string(i));
    EXPECT_EQ(one->status, TaskStatus::completed);
    EXPECT_EQ(one->output_error, "write: no progress for 2 s");
    EXPECT_TRUE(output_of(stalled, one->id).ends_with("1999999\ndone\n"));
  }
  readers.clear();  // what hangs fails now
}

}  // namespace
}  // namespace errand
