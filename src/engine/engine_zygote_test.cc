// SPDX-License-Identifier: Apache-2.0
// Zygotes that die or are stopped while tasks start, run and end.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "engine/engine_testing.h"
#include "engine/zygote_client.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

class ZygoteTest : public ::testing::Test {
 protected:
  ZygoteTest() {
    config_ = test_config(folder_);
    config_.environment = {{"ERRAND_TEST_MARK", folder_.path()}};
    config_.max_concurrent_background = 500;
  }
  ~ZygoteTest() override {
    EXPECT_TRUE(eventually([this] { return living().empty(); }));
  }
  std::vector<pid_t> living() const { return processes_with("ERRAND_TEST_MARK=" + folder_.path()); }
  // The one that serves this process now. After several short lives there is none until the next launch.
  static pid_t zygote(Engine& engine) {
    pid_t found = 0;
    EXPECT_TRUE(eventually([&] {
      const auto all = zygotes_of();
      if (all.empty()) await_ended(engine, launch(engine, "true"));
      found = all.size() == 1 ? all.front() : 0;
      return found != 0;
    }));
    return found;
  }
  // Never a group, never everybody.
  static bool send(pid_t pid, int signal) { return pid > 1 && ::kill(pid, signal) == 0; }
  static void expect_said(Engine& engine, const std::string& id, const std::string& text) {
    const TaskSnapshot task = await_ended(engine, id);
    EXPECT_EQ(ending_text(*task), "completed (exit code 0)") << id;
    EXPECT_EQ(output_of(engine, id), text) << id;
    EXPECT_TRUE(eventually([&] { return read_file(task->output_file) == text; })) << id;  // a slow disk delays no end
  }

  TemporaryFolder folder_;
  EngineConfig config_;
};

// The start said `could not start: fork: Connection reset by peer`, though nothing had been wrong with it.
TEST_F(ZygoteTest, AStartThatFallsIntoTheZygotesDeathIsMadeAnew) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  const pid_t first = zygote(engine);
  ASSERT_TRUE(send(first, SIGSTOP));
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.push_back(launch(engine, "echo hello"));  // all but a spare's wait in its queue
  ASSERT_TRUE(send(first, SIGKILL));
  for (const std::string& id : ids) expect_said(engine, id, "hello\n");
  EXPECT_NE(zygote(engine), first);
  EXPECT_EQ(engine.notifications().drain().size(), 11u);
}

TEST_F(ZygoteTest, StartsWhileTheZygoteIsKilledAgainAndAgain) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    const pid_t victim = zygote(engine);
    std::vector<std::string> ids;
    // At any moment of a start: before, while and after its keeper is forked.
    std::thread killer([victim, pause = random() % 1500] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
      send(victim, SIGKILL);
    });
    for (int i = 0; i < 4; ++i) ids.push_back(launch(engine, "echo hello; echo $((6 * 7))"));
    killer.join();
    ids.push_back(launch(engine, "echo hello; echo $((6 * 7))"));
    for (const std::string& id : ids) expect_said(engine, id, "hello\n42\n");
    ASSERT_TRUE(eventually([&] { return !process_exists(victim); }));
  }
  EXPECT_EQ(engine.running_count(), 0);
  EXPECT_EQ(engine.notifications().drain().size(), engine.list().size());
}

TEST_F(ZygoteTest, AStartThatIsStoppedBeforeAnybodyReadItIsNotMadeAnew) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  const pid_t first = zygote(engine);
  ASSERT_TRUE(send(first, SIGSTOP));
  const std::string note = folder_ / "note";
  launch(engine, "true");  // takes the spare
  const std::string id = launch(engine, "echo x >" + note);
  EXPECT_TRUE(engine.cancel(id));
  ASSERT_TRUE(send(first, SIGKILL));
  EXPECT_EQ(engine.stop(id).task->status, TaskStatus::cancelled);
  expect_said(engine, launch(engine, "echo later"), "later\n");
  EXPECT_FALSE(file_exists(note));
}

// What cannot be forked says why, whether it was to be a spare keeper or a task's; and it is asked again each time.
TEST_F(ZygoteTest, AZygoteThatCannotForkSaysWhyAndStartsAgainWhenItCan) {
  config_.output_folder.clear();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ProcessGuard host(::fork());
  if (host.pid() == 0) {
    // Root is not bound by the limit.
    const uid_t somebody = 400000 + static_cast<uid_t>(::getpid() % 100000);
    if (::getuid() == 0 && (::setgid(somebody) != 0 || ::setuid(somebody) != 0)) ::_exit(1);
    std::string text;
    {
      Engine engine(config_);
      const auto run = [&] {
        const TaskSnapshot task = await_ended(engine, launch(engine, request_of("true", "/")));
        text += ending_text(*task) + "\n";
      };
      run();
      const pid_t own = zygote(engine);
      rlimit before{};
      if (::prlimit(own, RLIMIT_NPROC, nullptr, &before) != 0) ::_exit(1);
      rlimit low = before;
      low.rlim_cur = 1;
      if (::prlimit(own, RLIMIT_NPROC, &low, nullptr) != 0) ::_exit(1);
      // At most one spare was there; from then on nothing can be started, and no spare be made.
      while (!text.ends_with("unavailable)\n") && text.size() < 1000) run();
      for (int i = 0; i < 3; ++i) {
        std::this_thread::sleep_for(30ms);  // so that a spare is tried for in between
        run();
      }
      text = text.substr(text.find("failed"));
      if (::prlimit(own, RLIMIT_NPROC, &before, nullptr) != 0) ::_exit(1);
      run();
    }
    if (::write(ends[1], text.data(), text.size()) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  const UniqueFd from_host(ends[0]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], text.data(), text.size()))));
  std::string expected;
  for (int i = 0; i < 4; ++i) expected += "failed (could not start: fork: Resource temporarily unavailable)\n";
  EXPECT_EQ(text, expected + "completed (exit code 0)\n");
}

// --- stopped by somebody ---

TEST_F(ZygoteTest, AStoppedZygoteHoldsUpNoStart) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  const pid_t first = zygote(engine);
  ASSERT_TRUE(send(first, SIGSTOP));
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(launch(engine, "echo hello"));
  for (const std::string& id : ids) expect_said(engine, id, "hello\n");
  EXPECT_EQ(zygote(engine), first) << "waking it was enough";
}

TEST_F(ZygoteTest, AZygoteThatIsStoppedAgainAndAgainHoldsUpNoStart) {
  Engine engine(config_);
  const std::string old = launch(engine, "echo old; exec sleep 1000");
  ASSERT_TRUE(await_output(engine, old, "old"));
  const pid_t first = zygote(engine);
  ASSERT_TRUE(send(first, SIGSTOP));
  std::jthread stopper([first](const std::stop_token& over) {
    while (!over.stop_requested() && process_exists(first)) send(first, SIGSTOP);
  });
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(launch(engine, "echo hello"));
  for (const std::string& id : ids) expect_said(engine, id, "hello\n");
  stopper.request_stop();
  EXPECT_EQ(engine.get(old)->status, TaskStatus::running);
  EXPECT_EQ(engine.stop(old).ended, 1);
}

TEST(ZygoteRouseTest, WhatIsStoppedIsContinuedOnceAndKilledWhenThatDoesNotHelp) {
  const ProcessGuard child(::fork());
  if (child.pid() == 0) {
    for (;;) ::pause();
  }
  Zygote zygote;
  zygote.pid = child.pid();
  zygote.process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0)));
  const auto stop = [&] {
    ::kill(child.pid(), SIGSTOP);
    return eventually([&] { return is_stopped(child.pid()); });
  };
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stop());
    zygote.rouse();
    EXPECT_TRUE(eventually([&] { return !is_stopped(child.pid()); }));
    EXPECT_TRUE(process_exists(child.pid()));
    zygote.rouse();  // finds it well
  }
  ASSERT_TRUE(stop());
  zygote.rouse();
  ASSERT_TRUE(stop());
  zygote.rouse();
  EXPECT_TRUE(eventually([&] { return !process_exists(child.pid()); }));
}

// More than its socket holds: the launches themselves would wait, and fail.
TEST_F(ZygoteTest, AStoppedZygoteWhoseQueueIsFullHoldsUpNoStart) {
  Engine engine(config_);
  await_ended(engine, launch(engine, "true"));
  ASSERT_TRUE(send(zygote(engine), SIGSTOP));
  std::vector<std::string> ids;
  for (int i = 0; i < 400; ++i) ids.push_back(launch(engine, "echo hello"));
  for (const std::string& id : ids) expect_said(engine, id, "hello\n");
}

TEST_F(ZygoteTest, AStoppedZygoteThatHasNothingToDoGoesWithTheEngine) {
  pid_t first = 0;
  {
    Engine engine(config_);
    await_ended(engine, launch(engine, "true"));
    first = zygote(engine);
    ASSERT_TRUE(send(first, SIGSTOP));
  }
  EXPECT_TRUE(eventually([&] { return !process_exists(first); }));
}

// The end of its task was not told until somebody continued it.
TEST_F(ZygoteTest, AStoppedKeeperDoesNotHideItsTasksEnd) {
  enum class Also { nobody, zygote_stopped, zygote_dead };
  for (const Also also : {Also::nobody, Also::zygote_stopped, Also::zygote_dead}) {
    Engine engine(config_);
    const std::string gate = folder_ / ("gate" + std::to_string(static_cast<int>(also)));
    const std::string id = launch(engine, "echo $PPID; while [ ! -e " + gate + " ]; do sleep 0.02; done; exit 5");
    ASSERT_TRUE(await_output(engine, id, "\n"));
    const pid_t keeper = std::atoi(output_of(engine, id).c_str());
    const pid_t first = zygote(engine);
    if (also == Also::zygote_dead) {
      ASSERT_TRUE(send(first, SIGKILL));
      ASSERT_TRUE(eventually([&] { return !process_exists(first); }));
    } else if (also == Also::zygote_stopped) {
      ASSERT_TRUE(send(first, SIGSTOP));
    }
    ASSERT_TRUE(send(keeper, SIGSTOP));
    std::ofstream(gate) << "open";
    const TaskSnapshot task = await_ended(engine, id);
    EXPECT_EQ(ending_text(*task), "failed (exit code 5)");
  }
}

TEST_F(ZygoteTest, AKeeperAndItsZygoteThatAreStoppedCleanUpAfterTheHost) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t host = ::fork();
  if (host == 0) {
    Engine engine(config_);
    const std::string id = launch(engine, "echo $PPID; setsid sleep 1000 & nohup sleep 1000 & sleep 1000");
    await_output(engine, id, "\n");
    const pid_t keeper = std::atoi(output_of(engine, id).c_str());
    const pid_t first = zygote(engine);
    if (!send(first, SIGSTOP) || !send(keeper, SIGSTOP)) ::_exit(1);
    eventually([first] { return is_stopped(first); }, 500ms);  // unless it has been woken already
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ProcessGuard guard(host);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  // The guard of the living host wakes both.
  EXPECT_TRUE(eventually([&] {
    const auto all = zygotes_of(host);
    return all.size() == 1 && !is_stopped(all.front());
  }));
  guard.kill();
  EXPECT_TRUE(eventually([this] { return living().empty(); }));
  EXPECT_TRUE(eventually([&] { return zygotes_of(host).empty(); }));
  for (const int end : ready) ::close(end);
}

}  // namespace
}  // namespace errand
