// SPDX-License-Identifier: Apache-2.0
// What is left when somebody dies who was needed: the host, a keeper, the zygote; and who may command.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "keeper/keeper_testing.h"

namespace errand::keeper {
namespace {

const char* const kStubborn =
    "setsid sleep 1000 & nohup sleep 1000 & (trap '' TERM HUP; sleep 1000) & "
    "(setsid bash -c 'setsid sleep 1000 & exit' &); sleep 1000";
constexpr std::size_t kStubbornSleeps = 5;
// Ends at the first SIGTERM. With a grace as long as the patience only the keeper's own ending is quick enough: the
// zygote would shoot it later.
const char* const kObedient = "setsid sleep 1000 & nohup sleep 1000 & sleep 1000";
constexpr std::size_t kObedientSleeps = 3;
constexpr std::uint32_t kLongGrace = 60000;

class KeeperDeathTest : public ::testing::TestWithParam<bool> {
 protected:
  void TearDown() override {
    EXPECT_TRUE(marker_.alive().empty());
    marker_.kill_all();
  }

  bool scan() const { return GetParam(); }
  // A host with one task, whose tree stands when this returns.
  std::function<bool(HostReport&)> host_with(const std::string& line, std::size_t sleeps, std::uint32_t grace_ms = 200,
                                             bool copies = false) {
    return [=, this](HostReport& report) {
      static ZygoteClient zygote;
      static std::optional<Task> task;
      if (!zygote.start(scan())) return false;
      Command command = Command::shell(line, marker_);
      command.grace_ms = grace_ms;
      task = zygote.launch(command);
      const auto started = task ? task->next() : std::nullopt;
      if (!started || started->kind != KeeperEventKind::started) return false;
      report.from_shell(started->pid);
      if (copies) {
        report.other = ::fork();
        if (report.other == 0) {
          for (;;) ::pause();
        }
      }
      return eventually([&] { return marker_.alive("sleep").size() == sleeps; });
    };
  }
  static bool gone(pid_t pid) {
    return eventually([pid] { return !is_alive(pid); });
  }

  Marker marker_;
};

INSTANTIATE_TEST_SUITE_P(Finding, KeeperDeathTest, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "ByScan" : "ByChildrenFiles"; });

TEST_P(KeeperDeathTest, NothingIsLeftAfterTheHostsDeath) {
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV}) {
    HostProcess host(host_with(kStubborn, kStubbornSleeps));
    ASSERT_TRUE(host.ready());
    host.kill(signal);
    EXPECT_TRUE(marker_.all_gone());
    EXPECT_TRUE(gone(host.report().keeper));
    EXPECT_TRUE(gone(host.report().zygote));
  }
}

TEST_P(KeeperDeathTest, TheHostsDeathGivesTheGraceOfTheStart) {
  const std::string file =
      ::testing::TempDir() + "errand-keeper-" + std::to_string(::getpid()) + std::to_string(scan());
  HostProcess host(host_with("trap 'sleep 0.3; echo cleaned > " + file + "; exit' TERM; sleep 1000 & wait", 1, 60000));
  ASSERT_TRUE(host.ready());
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  std::string word;
  std::ifstream(file) >> word;
  EXPECT_EQ(word, "cleaned");
  std::filesystem::remove(file);
}

TEST_P(KeeperDeathTest, WhatMovesToTheKeeperWhileTheTreeIsAskedIsAskedAsWell) {
  // Each SIGTERM to a shell makes orphans of those that are asked after it.
  for (int i = 0; i < 3; ++i) {
    HostProcess host(
        host_with("for i in 1 2 3 4; do bash -c 'for i in 1 2 3 4; do (sleep 1000 & wait) & done; wait' & done; wait",
                  16, kLongGrace));
    ASSERT_TRUE(host.ready());
    host.kill();
    EXPECT_TRUE(marker_.all_gone());
  }
}

TEST_P(KeeperDeathTest, ATreeThatGrowsAfterTheHostsDeathIsKilledAtOnce) {
  HostProcess host(
      host_with("trap 'for i in 1 2 3 4 5; do sleep 1000 & done; while :; do wait; done' TERM; "
                "sleep 1000 & wait",
                1, 600000));
  ASSERT_TRUE(host.ready());
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
}

TEST_P(KeeperDeathTest, AForkedCopyOfTheHostKeepsNothingAlive) {
  HostProcess host(host_with(kObedient, kObedientSleeps, kLongGrace, true));
  ASSERT_TRUE(host.ready());
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(gone(host.report().keeper));
  EXPECT_TRUE(gone(host.report().zygote));
  EXPECT_TRUE(is_alive(host.report().other));
  ::kill(host.report().other, SIGKILL);
}

TEST_P(KeeperDeathTest, AForkedCopyOfTheHostCommandsNothing) {
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(scan()));
  auto task = zygote.launch(
      Command::shell("trap 'echo asked; exit 4' TERM; echo ready; while :; do sleep 0.05; done", marker_));
  ASSERT_TRUE(task);
  ASSERT_EQ(task->read_line(), "ready");
  auto spare = zygote.keeper();
  const pid_t copy = ::fork();
  ASSERT_GE(copy, 0);
  if (copy == 0) {
    const bool sent = task->stop(0) && task->send_raw("garbage", 7) && spare->start(Command::shell("sleep 7", marker_));
    // The zygote drops what it is given at once, so the start may find nobody.
    if (auto third = zygote.keeper()) third->start(Command::shell("sleep 7", marker_));
    ::_exit(sent ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(copy, &status, 0), copy);
  ASSERT_EQ(status, 0);
  // Packets are read in their order: had the copy's been obeyed, the shell would have been killed unasked.
  ASSERT_TRUE(task->stop(60000));
  const auto exited = task->await(KeeperEventKind::exited);
  ASSERT_TRUE(exited);
  ASSERT_TRUE(WIFEXITED(exited->status));
  EXPECT_EQ(WEXITSTATUS(exited->status), 4);
  EXPECT_NE(task->read_output().find("asked\n"), std::string::npos);
  // And the spare is still idle.
  ASSERT_TRUE(spare->start(Command::shell("exit 6", marker_)));
  const auto code = spare->await(KeeperEventKind::exited);
  ASSERT_TRUE(code);
  EXPECT_EQ(WEXITSTATUS(code->status), 6);
  EXPECT_TRUE(marker_.alive("sleep").empty());
}

TEST_P(KeeperDeathTest, ARequestWithoutTheSendersPidIsRefused) {
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(scan()));
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  Task task((UniqueFd(pair[0])));
  UniqueFd keepers(pair[1]);
  ASSERT_TRUE(task.start(Command::shell("sleep 7", marker_)));  // sent before anybody asked for a stamp
  ASSERT_TRUE(zygote.hand_over(keepers.get()));
  keepers.reset();
  const auto event = task.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, KeeperEventKind::could_not_start);
  EXPECT_EQ(event->step, StartStep::read_request);
  EXPECT_EQ(event->error, EACCES);
  EXPECT_TRUE(task.at_end());
}

TEST_P(KeeperDeathTest, AKilledKeeperLeavesNothingAndTheOthersGoOn) {
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(scan()));
  const Marker other_marker;
  auto other = zygote.launch(Command::shell("sleep 1000 & wait", other_marker));
  auto task = zygote.launch(Command::shell(kStubborn, marker_));
  ASSERT_TRUE(task && other);
  const auto started = task->next();
  ASSERT_TRUE(started);
  ASSERT_TRUE(eventually([&] { return marker_.alive("sleep").size() == kStubbornSleeps; }));
  ASSERT_TRUE(eventually([&] { return other_marker.alive("sleep").size() == 1; }));
  const std::size_t others = other_marker.alive().size();

  ASSERT_EQ(::kill(parent_of(started->pid), SIGKILL), 0);
  EXPECT_TRUE(task->at_end()) << "without a word of an exit";
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_EQ(other_marker.alive().size(), others);

  auto next = zygote.launch(Command::shell("exit 3", marker_));
  ASSERT_TRUE(next);
  const auto exited = next->await(KeeperEventKind::exited);
  ASSERT_TRUE(exited);
  EXPECT_EQ(WEXITSTATUS(exited->status), 3);
  ASSERT_TRUE(other->stop(0));
  const auto stopped = other->await(KeeperEventKind::stopped);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->live, others);
}

TEST_P(KeeperDeathTest, KeepersWithoutTheirZygoteGoOnAndStillCleanUp) {
  HostProcess host(host_with(kStubborn, kStubbornSleeps));
  ASSERT_TRUE(host.ready());
  ::kill(host.report().zygote, SIGKILL);
  ASSERT_TRUE(gone(host.report().zygote));
  EXPECT_TRUE(is_alive(host.report().keeper));
  EXPECT_EQ(marker_.alive("sleep").size(), kStubbornSleeps);
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(gone(host.report().keeper));
}

TEST_P(KeeperDeathTest, AKeeperKilledTogetherWithTheHostLeavesNothing) {
  for (const bool keeper_first : {true, false}) {
    HostProcess host(host_with(kStubborn, kStubbornSleeps, 60000));
    ASSERT_TRUE(host.ready());
    if (keeper_first) ::kill(host.report().keeper, SIGKILL);
    host.kill();
    ::kill(host.report().keeper, SIGKILL);
    EXPECT_TRUE(marker_.all_gone());
    EXPECT_TRUE(gone(host.report().zygote));
  }
}

TEST_P(KeeperDeathTest, AStoppedKeeperStillCleansUpAfterTheHost) {
  HostProcess host(host_with(kObedient, kObedientSleeps, kLongGrace));
  ASSERT_TRUE(host.ready());
  ::kill(host.report().keeper, SIGSTOP);
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(gone(host.report().keeper));
  EXPECT_TRUE(gone(host.report().zygote));
}

TEST_P(KeeperDeathTest, AStoppedZygoteDoesNotOutliveTheHost) {
  HostProcess host(host_with(kStubborn, kStubbornSleeps));
  ASSERT_TRUE(host.ready());
  ::kill(host.report().zygote, SIGSTOP);
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(gone(host.report().zygote));
}

TEST_P(KeeperDeathTest, AnIdleKeeperGoesWithTheHost) {
  HostProcess host([this](HostReport& report) {
    static ZygoteClient zygote;
    static std::optional<Task> spare;
    if (!zygote.start(scan())) return false;
    auto first = zygote.launch(Command::shell("exit 0", marker_));
    const auto started = first ? first->next() : std::nullopt;
    if (!started) return false;
    // Its keeper tells where the zygote is.
    report.shell = started->pid;
    spare = zygote.keeper();
    auto second = zygote.launch(Command::shell("echo $PPID; sleep 1000", marker_));
    report.keeper = second ? std::atoi(second->read_line().c_str()) : 0;
    report.zygote = parent_of(report.keeper);
    second->stop(0);
    second->await(KeeperEventKind::empty);
    return eventually([&] {
      const auto keepers = children_of(report.zygote);
      report.other = keepers.empty() ? 0 : keepers[0];
      return keepers.size() == 1;
    });
  });
  ASSERT_TRUE(host.ready());
  EXPECT_TRUE(is_alive(host.report().other));
  host.kill();
  EXPECT_TRUE(gone(host.report().other));
  EXPECT_TRUE(gone(host.report().zygote));
}

TEST_P(KeeperDeathTest, SixtyTasksAreEndedWithTheHost) {
  HostProcess host([this](HostReport& report) {
    static ZygoteClient zygote;
    static std::vector<Task> tasks;
    if (!zygote.start(scan())) return false;
    for (int i = 0; i < 60; ++i) {
      Command command = Command::shell("trap '' TERM; setsid sleep 1000 & (sleep 1000; true) & wait", marker_);
      command.grace_ms = 200;
      auto task = zygote.launch(command);
      const auto started = task ? task->next() : std::nullopt;
      if (!started) return false;
      report.from_shell(started->pid);
      tasks.push_back(std::move(*task));
    }
    return eventually([&] { return marker_.alive("sleep").size() == 120; });
  });
  ASSERT_TRUE(host.ready());
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(gone(host.report().zygote));
}

// Bombs take the processors from whatever runs beside them.
class KeeperBombSerialTest : public KeeperDeathTest {};

INSTANTIATE_TEST_SUITE_P(Finding, KeeperBombSerialTest, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "ByScan" : "ByChildrenFiles"; });

// Root is not bound by `ulimit -u`, so these run as a user that nobody else uses.
uid_t lonely_user() { return ::getuid() == 0 ? 400000 + static_cast<uid_t>(::getpid() % 100000) : 0; }

std::string bomb() {
  // As somebody, the other processes of that user count as well.
  return "ulimit -u $(( $(ls -d /proc/[0-9]*/task/* 2>/dev/null | wc -l) * " +
         std::string(::getuid() == 0 ? "0" : "1") + " + 300 )); ulimit -c 0; echo ready; exec 2>/dev/null; " +
         "bomb() { bomb | bomb & }; while :; do bomb; sleep 0.01; done";
}

TEST_P(KeeperBombSerialTest, AForkBombIsEndedByAStop) {
  for (const std::uint32_t grace : {0U, 300U}) {
    HostProcess host(
        [this, grace](HostReport& report) {
          ZygoteClient zygote;
          if (!zygote.start(scan())) return false;
          auto task = zygote.launch(Command::shell(bomb(), marker_));
          if (!task || task->read_line() != "ready") return false;
          if (!eventually([&] { return marker_.alive("bash").size() > 100; })) return false;
          task->stop(grace);
          const auto stopped = task->await(KeeperEventKind::stopped);
          report.other = stopped && stopped->left == 0 && stopped->live > 10 ? 1 : 0;
          return task->await(KeeperEventKind::empty).has_value();
        },
        lonely_user());
    EXPECT_TRUE(host.ready());
    EXPECT_EQ(host.report().other, 1);
    EXPECT_TRUE(marker_.all_gone());
  }
}

TEST_P(KeeperBombSerialTest, AForkBombIsEndedAfterTheHost) {
  HostProcess host(
      [this](HostReport& report) {
        static ZygoteClient zygote;
        static std::optional<Task> task;
        if (!zygote.start(scan())) return false;
        task = zygote.launch(Command::shell(bomb(), marker_));
        const auto started = task ? task->next() : std::nullopt;
        if (!started) return false;
        report.from_shell(started->pid);
        return eventually([&] { return marker_.alive("bash").size() > 100; });
      },
      lonely_user());
  ASSERT_TRUE(host.ready());
  host.kill();
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(gone(host.report().zygote));
}

TEST_P(KeeperDeathTest, WithoutAProcessLeftTheStartFailsWithItsReason) {
  HostProcess host(
      [this](HostReport& report) {
        ZygoteClient zygote;
        if (!zygote.start(scan())) return false;
        auto first = zygote.launch(Command::shell("sleep 1000", marker_));
        auto spare = zygote.keeper();
        const auto started = first ? first->next() : std::nullopt;
        if (!started || !spare) return false;
        report.from_shell(started->pid);
        pid_t idle = 0;
        if (!eventually([&] {
              for (const pid_t keeper : children_of(report.zygote)) {
                if (keeper != report.keeper) idle = keeper;
              }
              return idle != 0 && look_at(idle)->name == "errand-keeper";
            })) {
          return false;
        }
        // One is less than there are, whoever the user is.
        const rlimit one{1, 1};
        if (::prlimit(report.zygote, RLIMIT_NPROC, &one, nullptr) != 0) return false;
        if (::prlimit(idle, RLIMIT_NPROC, &one, nullptr) != 0) return false;
        auto second = zygote.keeper();  // the zygote tells without being asked
        if (!second || !spare->start(Command::shell("sleep 1000", marker_))) return false;
        for (Task* task : {&*second, &*spare}) {
          const auto event = task->next();
          if (!event || event->kind != KeeperEventKind::could_not_start || event->step != StartStep::fork ||
              event->error != EAGAIN || !task->at_end()) {
            return false;
          }
        }
        return first->stop(0) && first->await(KeeperEventKind::empty).has_value();
      },
      lonely_user());
  EXPECT_TRUE(host.ready());
  EXPECT_TRUE(marker_.all_gone());
}

TEST_P(KeeperDeathTest, WhatMayNotBeSignalledIsReportedAndDoesNotHoldAStopUp) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to make a program of somebody else's";
  // A setuid copy of setpriv becomes root entirely, as sudo does.
  char folder[] = "/var/tmp/errand-keeper-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string program = std::string(folder) + "/become-root";
  std::filesystem::copy_file("/usr/bin/setpriv", program);
  ASSERT_EQ(::chmod(folder, 0755), 0);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  HostProcess host(
      [&](HostReport& report) {
        static ZygoteClient zygote;
        static std::optional<Task> task;
        if (!zygote.start(scan())) return false;
        task = zygote.launch(
            Command::shell(program + " --reuid 0 --clear-groups sleep 1000 & sleep 1000 & sleep 1000", marker_));
        const auto started = task ? task->next() : std::nullopt;
        if (!started) return false;
        report.from_shell(started->pid);
        // The environment of the one is hidden from this user, so it is found by its parent.
        if (!eventually([&] {
              std::size_t sleeps = 0;
              for (const pid_t child : children_of(started->pid)) {
                const auto look = look_at(child);
                struct stat owner{};
                if (!look || look->name != "sleep") continue;
                ++sleeps;
                if (::stat(("/proc/" + std::to_string(child)).c_str(), &owner) == 0 && owner.st_uid == 0) {
                  report.other = child;
                }
              }
              return sleeps == 3;
            })) {
          return false;
        }
        task->stop(100);
        const auto stopped = task->await(KeeperEventKind::stopped);
        return stopped && stopped->live == 4 && stopped->left == 1;
      },
      lonely_user());
  EXPECT_TRUE(host.ready());
  if (host.ready()) {
    ASSERT_TRUE(is_alive(host.report().other));
    // The keeper gives it up with the host.
    host.kill();
    EXPECT_TRUE(gone(host.report().keeper));
    EXPECT_TRUE(gone(host.report().zygote));
    EXPECT_TRUE(is_alive(host.report().other));
    ::kill(host.report().other, SIGKILL);
  }
  EXPECT_TRUE(marker_.all_gone());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace errand::keeper
