// SPDX-License-Identifier: Apache-2.0
// Deaths that nobody ordered: of the host, of a keeper, of the zygote; and copies of the host.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "engine/engine_testing.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

class DeathTest : public ::testing::Test {
 protected:
  DeathTest() {
    config_ = test_config(folder_);
    config_.environment = {{"ERRAND_TEST_MARK", folder_.path()}};
    config_.max_concurrent_background = 50;
  }
  std::vector<pid_t> living() const { return processes_with("ERRAND_TEST_MARK=" + folder_.path()); }
  bool nothing_left() const {
    return eventually([this] { return living().empty(); });
  }
  // A host of its own process, which is ready when `body` returns, and then waits for its death.
  pid_t start_host(const std::function<void(Engine&)>& body) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t host = ::fork();
    if (host == 0) {
      Engine engine(config_);
      body(engine);
      [[maybe_unused]] const ssize_t sent = ::write(ready[1], "r", 1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    return host;
  }
  static void kill_host(pid_t host, int signal) {
    ::kill(host, signal);
    ::waitpid(host, nullptr, 0);
  }
  // The keeper of a task that printed its $PPID as its first line.
  static pid_t keeper_of(Engine& engine, const std::string& id) {
    EXPECT_TRUE(await_output(engine, id, "\n"));
    return std::atoi(output_of(engine, id).c_str());
  }
  static pid_t parent_of(pid_t pid) {
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t close = stat.rfind(')');
    return close == std::string::npos || close + 4 > stat.size() ? 0 : std::atoi(stat.c_str() + close + 3);
  }

  TemporaryFolder folder_;
  EngineConfig config_;
};

constexpr const char* kEscapes =
    "echo $PPID; setsid sleep 1000 & nohup sleep 1000 & (trap \"\" TERM HUP; sleep 1000) & "
    "(setsid bash -c \"setsid sleep 1000 & exit\" &); echo ready; sleep 1000";

TEST_F(DeathTest, NothingIsLeftOfAHostThatWasKilled) {
  for (const int signal : {SIGKILL, SIGTERM, SIGHUP}) {
    const pid_t host = start_host([](Engine& engine) {
      launch(engine, kEscapes);
      await_output(engine, "bg-1", "ready");
      await_ended(engine, launch(engine, "sleep 1000 & true"));
      launch(engine, "kill -STOP $$");
    });
    ASSERT_TRUE(eventually([this] { return living().size() >= 7; })) << living().size();
    kill_host(host, signal);
    EXPECT_TRUE(nothing_left()) << "after signal " << signal;
  }
}

TEST_F(DeathTest, AHostThatForkedOnceChangesNothing) {
  const std::string note = folder_ / "copy";
  const pid_t host = start_host([&](Engine& engine) {
    await_output(engine, launch(engine, "echo ready; exec sleep 1000"), "ready");
    const pid_t copy = ::fork();  // lives on, with copies of every descriptor
    if (copy == 0) {
      ::execl("/bin/sh", "sh", "-c", ("echo $$ >" + note + "; exec sleep 1000").c_str(), nullptr);
    }
    const pid_t still = ::fork();
    if (still == 0) {
      // Without exec: the engine in it is dead, whatever is called.
      bool dead = engine.get("bg-1") == nullptr && engine.list().empty() && !engine.cancel("bg-1") &&
                  engine.running_count() == 0 && !engine.tail("bg-1", 0) && !engine.adopt("fg-1") &&
                  engine.stop("bg-1").outcome == StopReport::Outcome::unknown &&
                  std::holds_alternative<Rejected>(engine.launch(request_of("true"))) &&
                  engine.wait_end("bg-1", 10s) == nullptr && engine.inspect("bg-1") == nullptr;
      engine.forget("fg-1");
      engine.close();
      engine.~Engine();
      if (!dead) ::kill(::getpid(), SIGABRT);
      const std::string pid = "echo " + std::to_string(::getpid()) + " >" + note + "2";
      if (std::system(pid.c_str()) != 0) ::_exit(1);
      for (;;) ::pause();
    }
  });
  const ProcessGuard guard(host);
  const auto copy_in = [](const std::string& path) {
    eventually([&] { return !read_file(path).empty(); });
    return ProcessGuard(std::atoi(read_file(path).c_str()));
  };
  std::vector<ProcessGuard> copies;
  copies.push_back(copy_in(note));
  copies.push_back(copy_in(note + "2"));
  ASSERT_NE(copies[0].pid(), 0);
  ASSERT_NE(copies[1].pid(), 0) << "the copy's engine was not dead";
  EXPECT_TRUE(eventually([this] { return living().size() == 1; })) << living().size();
  kill_host(host, SIGKILL);
  EXPECT_TRUE(nothing_left());
  for (const ProcessGuard& copy : copies) EXPECT_TRUE(process_exists(copy.pid())) << "the copies are none of ours";
}

TEST_F(DeathTest, AKilledKeeperIsSaidAndItsTreeIsEnded) {
  Engine engine(config_);
  const std::string other = launch(engine, "sleep 1000");
  const std::string id = launch(engine, kEscapes);
  ASSERT_TRUE(await_output(engine, id, "ready"));
  ASSERT_EQ(::kill(keeper_of(engine, id), SIGKILL), 0);
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->status, TaskStatus::failed);
  EXPECT_EQ(task->cause, EndCause::keeper_lost);
  EXPECT_EQ(task->error, "keeper lost");
  EXPECT_FALSE(task->exit_code);
  EXPECT_EQ(ending_text(*task), "failed (keeper lost)");
  EXPECT_TRUE(eventually([&] { return living().size() == 1; })) << "only the other task's sleep may live";
  EXPECT_EQ(engine.get(other)->status, TaskStatus::running);
  EXPECT_EQ(engine.notifications().drain().size(), 1u);
  EXPECT_EQ(engine.running_count(), 1);
  EXPECT_EQ(await_ended(engine, launch(engine, "true"))->status, TaskStatus::completed);
}

TEST_F(DeathTest, AKilledZygoteIsReplacedAndItsKeepersGoOn) {
  Engine engine(config_);
  const std::string id = launch(engine, kEscapes);
  const pid_t keeper = keeper_of(engine, id);
  ASSERT_TRUE(await_output(engine, id, "ready"));
  const pid_t zygote = parent_of(keeper);
  ASSERT_EQ(::kill(zygote, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return !process_exists(zygote); }));
  for (int i = 0; i < 5; ++i) {
    const std::string later = launch(engine, "echo $PPID; true");
    EXPECT_EQ(await_ended(engine, later)->status, TaskStatus::completed) << ending_text(*engine.get(later));
  }
  EXPECT_EQ(engine.get(id)->status, TaskStatus::running);
  const StopReport report = engine.stop(id);
  EXPECT_EQ(report.outcome, StopReport::Outcome::stopped);
  EXPECT_TRUE(living().empty());
}

TEST_F(DeathTest, AZygoteThatIsKilledWhileNobodyLaunchesIsReplacedAtOnce) {
  Engine engine(config_);
  const std::string id = launch(engine, "echo $PPID; sleep 1000; true");
  const pid_t zygote = parent_of(keeper_of(engine, id));
  ASSERT_EQ(::kill(zygote, SIGKILL), 0);
  // The next one is there before anybody asks: it stands beside the old keeper as a process of our own program.
  ASSERT_TRUE(eventually([&] { return !process_exists(zygote); }));
  const std::string next = launch(engine, "echo $PPID; sleep 1000; true");
  EXPECT_NE(parent_of(keeper_of(engine, next)), zygote);
  ASSERT_EQ(::kill(keeper_of(engine, next), SIGKILL), 0);
  EXPECT_EQ(await_ended(engine, next)->error, "keeper lost") << "the new zygote guards it";
}

TEST_F(DeathTest, AKeeperOfADeadZygoteIsSweptByTheToken) {
  Engine engine(config_);
  const std::string id = launch(engine, kEscapes);
  const pid_t keeper = keeper_of(engine, id);
  ASSERT_TRUE(await_output(engine, id, "ready"));
  const pid_t zygote = parent_of(keeper);
  ASSERT_EQ(::kill(zygote, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return !process_exists(zygote); }));
  ASSERT_EQ(::kill(keeper, SIGKILL), 0);
  const TaskSnapshot task = await_ended(engine, id);
  EXPECT_EQ(task->error, "keeper lost; processes may be left");
  EXPECT_EQ(ending_text(*task), "failed (keeper lost; processes may be left)");
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(engine.notifications().drain().size(), 1u);
}

TEST_F(DeathTest, KeeperZygoteAndHostKilledOneAfterTheOther) {
  const pid_t host = start_host([](Engine& engine) {
    launch(engine, kEscapes);
    await_output(engine, "bg-1", "ready");
  });
  pid_t keeper = 0;
  ASSERT_TRUE(eventually([&] {
    keeper = std::atoi(read_file(folder_ / "tasks/bg-1.output").c_str());
    return keeper > 0;
  }));
  ::kill(keeper, SIGKILL);
  kill_host(host, SIGKILL);
  EXPECT_TRUE(nothing_left());
}

// Whichever the kernel lets go first: the text tells whether somebody was there to end what it left.
TEST_F(DeathTest, KeeperAndZygoteKilledAtOnceInEitherOrder) {
  Engine engine(config_);
  for (const bool keeper_first : {true, false, true, false}) {
    const std::string id = launch(engine, kEscapes);
    const pid_t keeper = keeper_of(engine, id);
    ASSERT_TRUE(await_output(engine, id, "ready"));
    const pid_t zygote = parent_of(keeper);
    ASSERT_EQ(::kill(keeper_first ? keeper : zygote, SIGKILL), 0);
    ASSERT_EQ(::kill(keeper_first ? zygote : keeper, SIGKILL), 0);
    const TaskSnapshot task = await_ended(engine, id);
    EXPECT_EQ(task->status, TaskStatus::failed);
    EXPECT_EQ(task->cause, EndCause::keeper_lost);
    EXPECT_TRUE(task->error == "keeper lost" || task->error == "keeper lost; processes may be left") << *task->error;
    EXPECT_TRUE(nothing_left());
    EXPECT_TRUE(eventually([&] { return engine.get(id)->processes.empty(); }));
    const StopReport report = engine.stop(id);  // may come while the sweep is not through
    EXPECT_NE(report.outcome, StopReport::Outcome::stopped);
    EXPECT_TRUE(report.left.empty());
    EXPECT_EQ(await_ended(engine, launch(engine, "true"))->status, TaskStatus::completed);
  }
  EXPECT_EQ(engine.notifications().drain().size(), 8u);
}

TEST_F(DeathTest, TheZygoteAndAllItsKeepersKilledAtOnce) {
  Engine engine(config_);
  std::vector<std::string> ids;
  std::vector<pid_t> victims;
  for (int i = 0; i < 10; ++i) ids.push_back(launch(engine, kEscapes));
  for (const std::string& id : ids) {
    victims.push_back(keeper_of(engine, id));
    ASSERT_TRUE(await_output(engine, id, "ready"));
  }
  victims.push_back(parent_of(victims.front()));
  for (const pid_t victim : victims) ASSERT_EQ(::kill(victim, SIGKILL), 0);
  for (const std::string& id : ids) EXPECT_EQ(await_ended(engine, id)->cause, EndCause::keeper_lost);
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(await_ended(engine, launch(engine, "true"))->status, TaskStatus::completed);
}

TEST_F(DeathTest, KeeperAndHostKilledAtOnceInEitherOrder) {
  for (const bool keeper_first : {true, false}) {
    const std::string note = folder_ / (keeper_first ? "first" : "second");
    ProcessGuard host(start_host([&](Engine& engine) {
      const std::string id = launch(engine, kEscapes);
      std::ofstream(note) << keeper_of(engine, id);
      await_output(engine, id, "ready");
    }));
    const pid_t keeper = std::atoi(read_file(note).c_str());
    ASSERT_GT(keeper, 1);
    ASSERT_TRUE(eventually([this] { return living().size() >= 5; }));
    ::kill(keeper_first ? keeper : host.pid(), SIGKILL);
    ::kill(keeper_first ? host.pid() : keeper, SIGKILL);
    host.kill();
    EXPECT_TRUE(nothing_left());
  }
}

TEST_F(DeathTest, ZygoteAndHostKilledAtOnceInEitherOrder) {
  for (const bool zygote_first : {true, false}) {
    ProcessGuard host(start_host([&](Engine& engine) { await_output(engine, launch(engine, kEscapes), "ready"); }));
    const std::vector<pid_t> zygotes = zygotes_of(host.pid());
    ASSERT_EQ(zygotes.size(), 1u);
    ASSERT_TRUE(eventually([this] { return living().size() >= 5; }));
    ::kill(zygote_first ? zygotes.front() : host.pid(), SIGKILL);
    ::kill(zygote_first ? host.pid() : zygotes.front(), SIGKILL);
    host.kill();
    EXPECT_TRUE(nothing_left());
  }
}

// All that a task can do to be hard to end, at once, and a copy of the host that holds its descriptors.
TEST_F(DeathTest, NothingIsLeftOfAHostThatForkedOnceWithTasksThatFloodAndIgnoreAndAreStopped) {
  config_.max_output_file_bytes = 131072;
  for (const bool forked : {false, true}) {
    const std::string note = folder_ / (forked ? "copy" : "none");
    ProcessGuard host(start_host([&](Engine& engine) {
      launch(engine, kEscapes);
      launch(engine, "yes");
      launch(engine, "(setsid yes &) ; trap '' TERM; yes");
      launch(engine, "sleep 1000 & kill -STOP $!; kill -STOP $$");
      launch(engine, "exec " ERRAND_BUILD_DIR "/errand_test_trees daemons 5");
      await_ended(engine, launch(engine, "sleep 1000 & setsid nohup sleep 1000 & true"));
      await_output(engine, "bg-1", "ready");
      await_ended(engine, "bg-5");
      if (!forked) return;
      const pid_t copy = ::fork();
      if (copy == 0) {
        for (;;) ::pause();
      }
      std::ofstream(note) << copy;
    }));
    const ProcessGuard copy(forked ? std::atoi(read_file(note).c_str()) : 0);
    ASSERT_TRUE(!forked || copy.pid() > 1);
    ASSERT_TRUE(eventually([this] { return living().size() >= 17; })) << living().size();
    host.kill();
    EXPECT_TRUE(nothing_left());
    EXPECT_TRUE(eventually([&] { return zygotes_of(host.pid()).empty(); }));
    EXPECT_TRUE(!forked || process_exists(copy.pid())) << "the copy is none of ours";
  }
}

class ManyDeathsSerialTest : public DeathTest {
 protected:
  ManyDeathsSerialTest() { config_.max_concurrent_background = 10000; }
  static constexpr const char* kTwo = "trap '' TERM; setsid sleep 1000 & sleep 1000; true";
};

TEST_F(ManyDeathsSerialTest, TwoHundredTasksAreGoneWithTheHost) {
  ProcessGuard host(start_host([](Engine& engine) {
    for (int i = 0; i < 200; ++i) launch(engine, kTwo);
  }));
  ASSERT_TRUE(eventually([this] { return living().size() >= 600; }, 60s)) << living().size();
  host.kill();
  EXPECT_TRUE(nothing_left());
}

TEST_F(ManyDeathsSerialTest, FiftyAndThreeHundredTasksAreGoneWhenCloseReturns) {
  for (const std::size_t count : {50u, 300u}) {
    Engine engine(config_);
    for (std::size_t i = 0; i < count; ++i) launch(engine, kTwo);
    ASSERT_TRUE(eventually([&] { return living().size() >= 3 * count; }, 60s)) << living().size();
    EXPECT_TRUE(engine.close().left.empty());
    EXPECT_TRUE(living().empty()) << living().size() << " of " << count;
    EXPECT_EQ(engine.notifications().drain().size(), count);
  }
}

// Zombies of a task are its keeper's to reap, and those of a dead keeper are its zygote's.
TEST_F(DeathTest, NoZombieHasTheHostAKeeperOrTheZygoteAsItsParent) {
  Engine engine(config_);
  const std::string id = launch(engine,
                                "echo $PPID; for i in 1 2 3 4 5 6 7 8; do (setsid true & setsid false &); done; "
                                "echo made; exec sleep 1000");
  const pid_t keeper = keeper_of(engine, id);
  const pid_t zygote = parent_of(keeper);
  ASSERT_TRUE(await_output(engine, id, "made"));
  for (int i = 0; i < 20; ++i) await_ended(engine, launch(engine, "true"));
  const std::string lost = launch(engine, kEscapes);
  ASSERT_TRUE(await_output(engine, lost, "ready"));
  ASSERT_EQ(::kill(keeper_of(engine, lost), SIGKILL), 0);
  await_ended(engine, lost);
  const auto zombies = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t pid = std::atoi(entry.path().filename().c_str());
      if (pid <= 0) continue;
      const pid_t parent = parent_of(pid);
      if (parent != keeper && parent != zygote && parent != ::getpid()) continue;
      count += !process_exists(pid) && ::kill(pid, 0) == 0;
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] { return zombies() == 0; })) << zombies();
  EXPECT_TRUE(own_children().empty());
  engine.stop(id);
}

// A keeper that dies after its shell did takes the survivors with it; the outcome stays.
TEST_F(DeathTest, AKeeperThatIsKilledAfterTheEndChangesNoOutcome) {
  Engine engine(config_);
  const std::string id = launch(engine, "echo $PPID; sleep 1000 & true");
  const pid_t keeper = keeper_of(engine, id);
  await_ended(engine, id);
  ASSERT_EQ(::kill(keeper, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return engine.get(id)->processes.empty(); }));
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(engine.get(id)->status, TaskStatus::completed);
  EXPECT_EQ(engine.notifications().drain().size(), 1u);
}

TEST_F(DeathTest, TheHostsOwnWaitFindsNothingOfOurs) {
  Engine engine(config_);
  const std::string id = launch(engine, "sleep 1000");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
  const pid_t own = ::fork();
  if (own == 0) ::_exit(5);
  await_ended(engine, launch(engine, "true"));
  engine.stop(id);
  int status = 0;
  EXPECT_EQ(::waitpid(-1, &status, 0), own) << "a child of the host was reaped by the engine";
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST_F(DeathTest, AHostThatIgnoresItsChildrenIsServedToo) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  {
    Engine engine(config_);
    EXPECT_EQ(await_ended(engine, launch(engine, "exit 3"))->exit_code, 3);
  }
  ::signal(SIGCHLD, before);
}

// The thread that launched goes; the tasks stay (a parent-death signal would follow the thread).
TEST_F(DeathTest, TasksOutliveTheThreadThatStartedThem) {
  Engine engine(config_);
  std::string id;
  std::thread([&] { id = launch(engine, "echo ready; sleep 1000"); }).join();
  ASSERT_TRUE(await_output(engine, id, "ready"));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(engine.get(id)->status, TaskStatus::running);
}

}  // namespace
}  // namespace errand
