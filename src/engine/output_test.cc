// SPDX-License-Identifier: Apache-2.0
// The tail, the ring, and the file with a disk that is full, slow or hung.
#include "engine/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/clock.h"
#include "engine/engine_testing.h"
#include "engine/file_writer.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using errand::testing::eventually;
using errand::testing::read_file;
using errand::testing::TemporaryFolder;

TEST(ByteRingTest, KeepsTheLastBytesForEveryWayOfCutting) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    ByteRing ring(1 + random() % 50);
    const std::size_t capacity = [&] {
      ByteRing probe = ring;
      probe.append(std::string(100, 'x'));
      return probe.size();
    }();
    std::string all;
    for (int i = 0; i < 20; ++i) {
      std::string part;
      for (std::size_t k = random() % 70; k > 0; --k) part += static_cast<char>('a' + random() % 26);
      ring.append(part);
      all += part;
      ASSERT_EQ(ring.contents(), all.substr(all.size() - std::min(all.size(), capacity)));
    }
  }
}

TEST(TailTest, LastLines) {
  EXPECT_EQ(last_lines("a\nb\nc\n", 2), "b\nc\n");
  EXPECT_EQ(last_lines("a\nb\nc", 2), "b\nc") << "a last line without newline is a line";
  EXPECT_EQ(last_lines("a\nb\n", 5), "a\nb\n");
  EXPECT_EQ(last_lines("a\nb\n", 0), "a\nb\n");
  EXPECT_EQ(last_lines("\n\n\n", 2), "\n\n");
  EXPECT_EQ(last_lines("", 3), "");
}

// A disk in memory whose writes fail or hang on demand.
class FakeDisk : public FileSystem {
 public:
  int create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (create_error) return -create_error;
    // A real descriptor, since it will be closed.
    const int fd = ::dup(2);
    names_[fd] = path;
    files_[path].clear();
    return fd;
  }
  long write(int fd, std::string_view bytes) override {
    std::unique_lock lock(mutex_);
    ++writes;
    while (hung && let == 0) changed_.wait(lock);
    if (let > 0) --let;
    if (room == 0) return -ENOSPC;
    const std::size_t part = std::min<std::size_t>({bytes.size(), room, 1000});
    files_[names_[fd]].append(bytes.substr(0, part));
    room -= part;
    return static_cast<long>(part);
  }
  FileIdentity identity(int) override { return {}; }
  long links(int) override {
    const std::lock_guard lock(mutex_);
    return removed ? 0 : 1;
  }
  long long free_bytes(int) override {
    const std::lock_guard lock(mutex_);
    ++looks;
    return static_cast<long long>(room);
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    files_[to] = std::exchange(files_[from], {});
    for (auto& [fd, name] : names_) {
      if (name == from) name = to;
    }
    return 0;
  }
  int remove(const std::string&) override { return 0; }

  std::string contents(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return files_[path];
  }
  void let_through(int count) {
    const std::lock_guard lock(mutex_);
    let = count;
    changed_.notify_all();
  }
  void set(std::size_t space, bool hang) {
    const std::lock_guard lock(mutex_);
    room = space;
    hung = hang;
    changed_.notify_all();
  }
  int create_error = 0;
  std::size_t room = 1 << 30;
  bool hung = false;
  bool removed = false;
  int let = 0;  // writes that pass although it hangs
  int looks = 0;
  std::atomic<int> writes{0};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::string> names_;
  std::map<std::string, std::string> files_;
};

constexpr std::uint64_t kCap = 131072;
constexpr std::size_t kHead = kCap - OutputFile::kRing - OutputFile::kMarkerSpace;

std::shared_ptr<OutputBudget> budget_on(FakeDisk& disk, std::uint64_t max_bytes = 0, std::uint64_t min_free = 0) {
  return std::make_shared<OutputBudget>(disk, max_bytes, min_free);
}

void work_off(OutputFile& file) {
  while (file.work()) {
  }
}

TEST(OutputFileTest, WithinTheCapEverythingIsWritten) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", kCap);
  file.work();  // makes it
  file.append("one\n", 1);
  EXPECT_FALSE(file.settled());
  work_off(file);
  EXPECT_TRUE(file.settled());
  file.append("two\n", 1);
  file.finish();
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "one\ntwo\n");
  EXPECT_EQ(file.unwritten_bytes(), 0u);
  EXPECT_FALSE(file.error());
}

// A start waits for no disk: the file is made by the writer, and may be renamed or given up before.
TEST(OutputFileTest, RenamedBeforeItWasMadeItHasTheNewName) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "fg-1", kCap);
  file.append("early\n", 1);
  file.rename_now("bg-1");
  work_off(file);
  EXPECT_EQ(file.path(), "bg-1");
  EXPECT_EQ(disk.contents("bg-1"), "early\n");
  EXPECT_FALSE(file.error());
}

TEST(OutputFileTest, RemovedBeforeItWasMadeItIsNeverMade) {
  FakeDisk disk;
  disk.create_error = EACCES;  // would be recorded
  OutputFile file(budget_on(disk), "fg-1", kCap);
  file.finish();
  file.remove();
  work_off(file);
  EXPECT_FALSE(file.error());
}

TEST(OutputFileTest, WhatFitsIntoTheRingNeedsNoMarker) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", kCap);
  file.work();  // makes it
  const std::string head(kHead, 'h'), end(OutputFile::kRing, 'e');
  file.append(head + end, 1);
  EXPECT_EQ(file.unwritten_bytes(), OutputFile::kRing) << "not yet in the file";
  file.finish();
  work_off(file);
  EXPECT_TRUE(disk.contents("f") == head + end);
  EXPECT_EQ(file.unwritten_bytes(), 0u);
}

TEST(OutputFileTest, OverTheCapTheMarkerCountsWhatIsMissing) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", kCap);
  file.work();  // makes it
  const std::string head(kHead, 'h'), end(OutputFile::kRing, 'e');
  file.append(head + "lost" + end, 1);
  file.finish();
  work_off(file);
  EXPECT_TRUE(disk.contents("f") == head + "\n[errand: 4 bytes left out here]\n" + end);
  EXPECT_EQ(file.unwritten_bytes(), 4u);
  EXPECT_LE(disk.contents("f").size(), kCap);
}

TEST(OutputFileTest, AFullDiskIsSaidAndWhatIsMissingIsCounted) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", kCap);
  file.work();  // makes it
  file.append("one\n", 1);
  work_off(file);
  disk.set(3, false);
  file.append("two\nthree\n", 1);
  work_off(file);
  EXPECT_EQ(file.error(), "write: No space left on device");
  EXPECT_EQ(file.unwritten_bytes(), 7u);
  file.append("four\n", 1);
  EXPECT_EQ(file.unwritten_bytes(), 12u);
  disk.set(1 << 20, false);
  file.finish();
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "one\ntwo\nthree\nfour\n") << "the end fits in once there is room";
  EXPECT_EQ(file.unwritten_bytes(), 0u);
  EXPECT_EQ(file.error(), "write: No space left on device") << "it stays said";
}

TEST(OutputFileTest, AFileThatCannotBeMadeTakesNothing) {
  FakeDisk disk;
  disk.create_error = EACCES;
  OutputFile file(budget_on(disk), "f", kCap);
  file.work();  // makes it
  EXPECT_EQ(file.error(), "open: Permission denied");
  EXPECT_TRUE(file.append("one\n", 1).room);
  file.finish();
  work_off(file);
  EXPECT_EQ(file.unwritten_bytes(), 4u);
}

// Put there by a task that knows the next id: nothing may wait for the FIFO, nor empty a file that has another name.
TEST(OutputFileTest, WhatStandsInItsPlaceIsNeitherWaitedForNorEmptied) {
  const TemporaryFolder folder;
  const auto budget = std::make_shared<OutputBudget>(real_file_system(), 0, 0);
  const auto error_at = [&](const std::string& path) {
    OutputFile file(budget, path, kCap);
    file.append("text\n", 1);
    file.finish();
    while (file.work()) {
    }
    EXPECT_EQ(file.unwritten_bytes(), file.error() ? 5u : 0u);
    return file.error().value_or("");
  };
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(error_at(folder / "fifo"), "open: File exists");
  std::ofstream(folder / "precious") << "precious";
  ASSERT_EQ(::link((folder / "precious").c_str(), (folder / "link").c_str()), 0);
  EXPECT_EQ(error_at(folder / "link"), "open: File exists");
  EXPECT_EQ(read_file(folder / "precious"), "precious");
  std::ofstream(folder / "old") << "older and longer";
  EXPECT_EQ(error_at(folder / "old"), "");
  EXPECT_EQ(read_file(folder / "old"), "text\n");
}

TEST(OutputFileTest, AFullBufferAsksForAPause) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", 1 << 30);
  file.work();  // makes it
  const std::string chunk(64 * 1024, 'x');
  constexpr std::size_t kFull = OutputFile::kBuffer / (64 * 1024);
  for (std::size_t i = 1; i < kFull; ++i) EXPECT_TRUE(file.append(chunk, chunk.size()).room) << i;
  EXPECT_FALSE(file.append(chunk, chunk.size()).room);
  file.give_up_on_writer("write: no progress for 2 s");
  EXPECT_EQ(file.error(), "write: no progress for 2 s");
  EXPECT_TRUE(file.append(chunk, chunk.size()).room);
  EXPECT_EQ(file.unwritten_bytes(), (kFull + 1) * chunk.size());
}

// The head went into the disk's buffers, the writer hung, newer output was left out, and then the write failed.
TEST(OutputFileTest, WhatAHungWriteLosesStandsBeforeWhatCameLater) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", 1 << 30);
  file.work();  // makes it
  file.append("one\n", 1);
  disk.set(4, true);
  std::thread writer([&] { work_off(file); });
  ASSERT_TRUE(eventually([&] { return disk.writes > 0; }));
  file.append("two\n", 1);
  file.give_up_on_writer("write: no progress for 2 s");
  file.append("three\n", 1);
  disk.set(0, false);
  writer.join();
  EXPECT_EQ(file.unwritten_bytes(), 14u);
  disk.set(1000, false);
  file.finish();
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "[errand: 4 bytes left out here]\ntwo\nthree\n");
  EXPECT_EQ(file.error(), "write: no progress for 2 s");
}

TEST(OutputFileTest, ARemovedFileIsSeenAtItsEndToo) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "f", kCap);
  file.append("one\n", 1);
  work_off(file);
  EXPECT_FALSE(file.error());
  disk.removed = true;
  file.finish();
  work_off(file);
  EXPECT_EQ(file.error(), "write: file removed");
}

TEST(OutputBudgetTest, FilesShareTheSessionsLimit) {
  FakeDisk disk;
  const auto budget = budget_on(disk, 10);
  OutputFile one(budget, "1", kCap), two(budget, "2", kCap), three(budget, "3", kCap);
  one.append("123456", 1);
  two.append("abcdef", 1);
  three.append("x", 1);
  work_off(one);
  work_off(two);
  work_off(three);
  EXPECT_EQ(disk.contents("1"), "123456");
  EXPECT_EQ(disk.contents("2"), "abcd");
  EXPECT_EQ(disk.contents("3"), "");
  EXPECT_FALSE(one.error());
  EXPECT_EQ(two.error(), "session limit of 10 bytes reached");
  EXPECT_EQ(three.error(), "session limit of 10 bytes reached");
  EXPECT_EQ(two.unwritten_bytes(), 2u);
  two.append("gh", 1);
  two.finish();
  work_off(two);
  EXPECT_EQ(disk.contents("2"), "abcdefgh") << "the end is written over the limit";
  EXPECT_EQ(two.unwritten_bytes(), 0u);
}

TEST(OutputBudgetTest, AFileThatStoppedAtTheLimitStaysStopped) {
  FakeDisk disk;
  const auto budget = budget_on(disk, 10);
  OutputFile one(budget, "1", kCap), two(budget, "2", kCap);
  one.append("12345678", 1);
  two.append("abcd", 1);
  work_off(one);
  work_off(two);
  one.remove();  // its bytes may be used again
  two.append("ef", 1);
  work_off(two);
  EXPECT_EQ(disk.contents("2"), "ab");
  OutputFile three(budget, "3", kCap);
  three.append("12345678", 1);
  work_off(three);
  EXPECT_EQ(disk.contents("3"), "12345678");
}

TEST(OutputBudgetTest, WhatCouldNotBeWrittenIsGivenBack) {
  FakeDisk disk;
  const auto budget = budget_on(disk, 10);
  OutputFile one(budget, "1", kCap), two(budget, "2", kCap);
  work_off(one);
  disk.set(2, false);
  one.append("12345678", 1);
  work_off(one);
  EXPECT_EQ(one.error(), "write: No space left on device");
  disk.set(1000, false);
  two.append("abcdefgh", 1);
  work_off(two);
  EXPECT_EQ(disk.contents("2"), "abcdefgh");
}

TEST(OutputBudgetTest, TheFloorOfFreeSpaceStays) {
  FakeDisk disk;
  disk.room = 1005;
  const auto budget = budget_on(disk, 0, 1000);
  OutputFile file(budget, "f", kCap);
  file.append("12345678", 1);
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "12345");
  EXPECT_EQ(file.error(), "free space below 1000 bytes");
  EXPECT_EQ(file.unwritten_bytes(), 3u);
  file.finish();
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "12345") << "nor does the end go below it";
  EXPECT_EQ(file.unwritten_bytes(), 3u);
}

TEST(OutputBudgetTest, TheEndIsWrittenIfTheFloorAllows) {
  FakeDisk disk;
  disk.room = 1000;
  const auto budget = budget_on(disk, 0, 1000);
  OutputFile file(budget, "f", kCap);
  file.append("12345678", 1);
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "");
  disk.set(2000, false);
  file.append("9", 1);
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "") << "it stopped";
  file.finish();
  work_off(file);
  EXPECT_EQ(disk.contents("f"), "123456789");
}

TEST(OutputBudgetTest, TheDiskIsNotAskedForEveryWrite) {
  FakeDisk disk;
  const auto budget = budget_on(disk, 0, 1000);
  OutputFile file(budget, "f", kCap);
  const std::int64_t begin = monotonic_ms();
  for (int i = 0; i < 1000; ++i) {
    file.append("x", 1);
    work_off(file);
  }
  EXPECT_LE(disk.looks, 2 + (monotonic_ms() - begin) / 1000);
  EXPECT_FALSE(file.error());
}

TEST(OutputFileTest, ARenameGoesBehindWhatWasWritten) {
  FakeDisk disk;
  OutputFile file(budget_on(disk), "fg-1", kCap);
  file.work();  // makes it
  file.append("one\n", 1);
  file.rename("bg-1");
  EXPECT_EQ(file.path(), "fg-1");
  work_off(file);
  EXPECT_EQ(file.path(), "bg-1");
  file.append("two\n", 1);
  work_off(file);
  EXPECT_EQ(disk.contents("bg-1"), "one\ntwo\n");
}

std::shared_ptr<Output> output_on(FakeDisk& disk, const std::string& name) {
  auto output = std::make_shared<Output>(1024, std::make_unique<OutputFile>(budget_on(disk), name, 1 << 20));
  output->file()->work();  // makes it
  return output;
}

TEST(FileWriterTest, AnotherThreadTakesOverWhenAWriteHangs) {
  FakeDisk good, bad;
  std::atomic<int> progress{0};
  {
    FileWriter writer([&](std::uint64_t) { ++progress; });
    const auto stuck = output_on(bad, "stuck");
    const auto fine = output_on(good, "fine");
    bad.set(1 << 20, true);
    stuck->append("x", 1, false);
    writer.enqueue(1, stuck);
    ASSERT_TRUE(eventually([&] { return bad.writes > 0; }));
    fine->append("hello", 1, false);
    writer.enqueue(2, fine);
    ASSERT_TRUE(eventually([&] {
      writer.look_after(monotonic_ms());
      return good.contents("fine") == "hello";
    }));
    EXPECT_EQ(bad.contents("stuck"), "");
    stuck->append("y", 1, false);
    EXPECT_FALSE(stuck->file()->settled());
    writer.enqueue(1, stuck);  // not to a second thread: its order would be lost
    bad.set(1 << 20, false);
    EXPECT_TRUE(eventually([&] { return bad.contents("stuck") == "xy"; }));
    writer.stop(10'000);
  }
  EXPECT_GE(progress, 1);
}

// Telling costs a wake-up of the reader loop, which most pieces of work are not worth.
TEST(FileWriterTest, OnlyWhoWaitsIsToldOfProgress) {
  FakeDisk disk;
  std::atomic<int> progress{0};
  FileWriter writer([&](std::uint64_t) { ++progress; });
  const auto output = output_on(disk, "f");
  output->append("one", 1, false);
  writer.enqueue(1, output);
  ASSERT_TRUE(eventually([&] { return disk.contents("f") == "one"; }));
  disk.set(3, true);
  output->append("two", 1, false);
  writer.enqueue(1, output);
  ASSERT_TRUE(eventually([&] { return disk.writes > 1; }));
  EXPECT_EQ(progress, 0);
  EXPECT_FALSE(output->file()->settled());
  disk.set(1 << 20, false);
  EXPECT_TRUE(eventually([&] { return progress == 1; }));
  EXPECT_TRUE(output->file()->settled());
}

// Two seconds without progress make a file given up; a turn that has not come is not that.
TEST(FileWriterTest, AFileThatWaitsForItsTurnGetsOnWithTheOthers) {
  FakeDisk slow;
  FileWriter writer(nullptr);
  const auto first = output_on(slow, "first"), second = output_on(slow, "second");
  slow.set(1 << 20, true);
  first->append(std::string(200'000, 'x'), 1, false);
  second->append("y", 1, false);
  const std::int64_t waits_since = second->file()->last_progress_ms();
  writer.enqueue(1, first);
  ASSERT_TRUE(eventually([&] { return slow.writes > 0; }));
  writer.enqueue(2, second);
  ASSERT_TRUE(eventually([&] { return monotonic_ms() > waits_since + 20; }));
  EXPECT_LT(writer.progress_ms(*first), waits_since + 20) << "its own write hangs";
  EXPECT_LT(writer.progress_ms(*second), waits_since + 20) << "and nobody else's is done";
  slow.let_through(70);  // of 1,000 bytes: one piece and a bit
  ASSERT_TRUE(eventually([&] { return writer.progress_ms(*second) >= waits_since + 20; }));
  EXPECT_EQ(slow.contents("second"), "");
  EXPECT_EQ(second->file()->last_progress_ms(), waits_since);
  slow.set(1 << 20, false);
  EXPECT_TRUE(eventually([&] { return slow.contents("second") == "y"; }));
  writer.stop(10'000);
}

TEST(FileWriterTest, StopDoesNotWaitForAWriteThatHangs) {
  static auto* const bad = new FakeDisk;  // outlives its hung thread
  {
    FileWriter writer(nullptr);
    const auto stuck = output_on(*bad, "stuck");
    bad->set(1 << 20, true);
    stuck->append("x", 1, false);
    writer.enqueue(1, stuck);
    ASSERT_TRUE(eventually([&] { return bad->writes > 0; }));
    writer.stop(50);
  }
  bad->set(1 << 20, false);
  EXPECT_TRUE(eventually([&] { return bad->contents("stuck") == "x"; }));
}

TEST(FileWriterTest, ManyFilesAreAllWritten) {
  FakeDisk disk;
  FileWriter writer(nullptr);
  std::vector<std::shared_ptr<Output>> outputs;
  for (std::uint64_t i = 0; i < 50; ++i) outputs.push_back(output_on(disk, std::to_string(i)));
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < 50; ++i) {
      outputs[i]->append("line\n", 1, false);
      writer.enqueue(i, outputs[i]);
    }
  }
  writer.stop(10'000);
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(disk.contents(std::to_string(i)).size(), 100u);
}

}  // namespace
}  // namespace errand
