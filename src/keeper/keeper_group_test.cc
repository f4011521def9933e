// SPDX-License-Identifier: Apache-2.0
// Control groups: on a real cgroup v2 where the tests may make one, and on a folder that is none.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
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

class KeeperGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      std::string pattern = std::string(root) + "/test-errand-XXXXXX";
      if (!std::filesystem::exists(std::string(root) + "/cgroup.procs") || ::mkdtemp(pattern.data()) == nullptr)
        continue;
      folder_ = pattern;
      if (::access((folder_ + "/cgroup.kill").c_str(), W_OK) == 0) return;
      ::rmdir(folder_.c_str());
      folder_.clear();
    }
    GTEST_SKIP() << "no writable cgroup v2 with cgroup.kill";
  }
  void TearDown() override {
    if (folder_.empty()) return;
    EXPECT_TRUE(marker_.alive().empty());
    EXPECT_TRUE(eventually([this] { return groups().empty(); })) << "a group was left";
    std::ofstream(folder_ + "/cgroup.kill") << "1";
    EXPECT_TRUE(eventually([this] {
      for (const std::string& group : groups()) ::rmdir(group.c_str());
      return ::rmdir(folder_.c_str()) == 0;
    }));
  }
  std::vector<std::string> groups() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().filename().string().starts_with("errand-")) found.push_back(entry.path());
    }
    return found;
  }
  // The group of a process, as a folder's name.
  static std::string group_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("0::")) return line.substr(line.rfind('/') + 1);
    }
    return {};
  }
  static bool gone(pid_t pid) {
    return eventually([pid] { return !is_alive(pid); });
  }
  std::optional<Task> launch(ZygoteClient& zygote, HostReport& report) const {
    auto task = zygote.launch(Command::shell(kStubborn, marker_));
    const auto started = task ? task->next() : std::nullopt;
    if (!started || started->kind != KeeperEventKind::started) return std::nullopt;
    report.from_shell(started->pid);
    if (!eventually([&] { return marker_.alive("sleep").size() >= kStubbornSleeps; })) return std::nullopt;
    return task;
  }
  std::function<bool(HostReport&)> host() const {
    return [this](HostReport& report) {
      static ZygoteClient zygote;
      static std::optional<Task> task;
      if (!zygote.start(false, folder_)) return false;
      task = launch(zygote, report);
      return task.has_value();
    };
  }

  Marker marker_;
  std::string folder_;
};

TEST_F(KeeperGroupTest, ATaskIsBornInAGroupOfItsOwnThatGoesWithIt) {
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(false, folder_));
  HostReport first, second;
  auto one = launch(zygote, first);
  auto other = zygote.launch(Command::shell("sleep 1000", marker_));
  ASSERT_TRUE(one && other);
  const auto started = other->next();
  ASSERT_TRUE(started);
  second.from_shell(started->pid);
  const std::string group = group_of(first.shell);
  EXPECT_TRUE(group.starts_with("errand-")) << group;
  for (const pid_t pid : marker_.alive()) {
    EXPECT_EQ(group_of(pid) == group, pid != second.shell) << pid;
  }
  EXPECT_EQ(groups().size(), 2U);
  EXPECT_NE(group_of(first.zygote), group);
  for (Task* task : {&*one, &*other}) {
    ASSERT_TRUE(task->stop(100));
    EXPECT_TRUE(task->await(KeeperEventKind::empty));
  }
  EXPECT_TRUE(eventually([this] { return groups().empty(); }));
}

// The one hole that is left without groups: nobody who knew the task lives.
TEST_F(KeeperGroupTest, WhatIsLeftOfAKilledHostZygoteAndKeeperIsEndedByTheNextZygote) {
  ZygoteClient bystander;
  ASSERT_TRUE(bystander.start(false, folder_));
  const Marker others;
  auto other = bystander.launch(Command::shell("sleep 1000 & wait", others));
  ASSERT_TRUE(other && eventually([&] { return others.alive("sleep").size() == 1; }));

  HostProcess host(this->host());
  ASSERT_TRUE(host.ready());
  // None of them may see another's death.
  ASSERT_EQ(::kill(host.report().zygote, SIGSTOP), 0);
  ASSERT_EQ(::kill(host.report().zygote, SIGKILL), 0);
  ASSERT_EQ(::kill(host.report().keeper, SIGKILL), 0);
  host.kill();
  ASSERT_TRUE(gone(host.report().keeper) && gone(host.report().zygote));
  ASSERT_GE(marker_.alive().size(), kStubbornSleeps);

  ZygoteClient next;
  ASSERT_TRUE(next.start(false, folder_));
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(eventually([this] { return groups().size() == 1; }));
  EXPECT_EQ(others.alive("sleep").size(), 1U) << "a living keeper's group was touched";
  ASSERT_TRUE(other->stop(0));
  EXPECT_TRUE(other->await(KeeperEventKind::empty));
}

TEST_F(KeeperGroupTest, AKilledKeeperOfADeadZygoteIsSweptUpByAnyOther) {
  ZygoteClient first, second;
  ASSERT_TRUE(first.start(false, folder_) && second.start(false, folder_));
  HostReport report;
  auto task = launch(first, report);
  ASSERT_TRUE(task);
  ASSERT_EQ(::kill(report.zygote, SIGKILL), 0);
  ASSERT_TRUE(gone(report.zygote));
  ASSERT_TRUE(second.sweep());
  auto later = second.launch(Command::shell("exit 3", marker_));  // read after that
  ASSERT_TRUE(later && later->await(KeeperEventKind::exited));
  EXPECT_GE(marker_.alive().size(), kStubbornSleeps) << "its keeper lived";
  ASSERT_EQ(::kill(report.keeper, SIGKILL), 0);
  ASSERT_TRUE(gone(report.keeper));
  ASSERT_TRUE(second.sweep());
  EXPECT_TRUE(marker_.all_gone());
}

TEST_F(KeeperGroupTest, AKeeperWithoutItsZygoteRemovesItsGroupItself) {
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(false, folder_));
  HostReport report;
  auto task = launch(zygote, report);
  ASSERT_TRUE(task);
  ASSERT_EQ(::kill(report.zygote, SIGKILL), 0);
  ASSERT_TRUE(gone(report.zygote));
  ASSERT_TRUE(task->stop(100));
  EXPECT_TRUE(task->await(KeeperEventKind::empty));
  EXPECT_TRUE(eventually([this] { return groups().empty(); }));
}

TEST_F(KeeperGroupTest, AKilledKeepersGroupIsRemoved) {
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(false, folder_));
  HostReport report;
  auto task = launch(zygote, report);
  ASSERT_TRUE(task);
  ASSERT_EQ(::kill(report.keeper, SIGKILL), 0);
  EXPECT_TRUE(marker_.all_gone());
  EXPECT_TRUE(eventually([this] { return groups().empty(); }));
}

// Signals need permission; the group's kill does not.
TEST_F(KeeperGroupTest, WhatMayNotBeSignalledIsEndedWithItsGroup) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to make a program that becomes root";
  char program_folder[] = "/var/tmp/errand-group-XXXXXX";
  ASSERT_NE(::mkdtemp(program_folder), nullptr);
  const std::string program = std::string(program_folder) + "/become-root";
  std::filesystem::copy_file("/usr/bin/setpriv", program);
  ASSERT_EQ(::chmod(program_folder, 0755), 0);
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  const uid_t somebody = 400000 + static_cast<uid_t>(::getpid() % 100000);
  const std::string own = folder_ + "/host";
  ASSERT_EQ(::mkdir(own.c_str(), 0755), 0);
  for (const std::string& given : {folder_, folder_ + "/cgroup.procs"}) {
    ASSERT_EQ(::chown(given.c_str(), somebody, somebody), 0);
  }
  {
    HostProcess host([&](HostReport& report) {
      // As a manager does it: the host's own group, below the one that is given to the user.
      std::ofstream(own + "/cgroup.procs") << "0" << std::flush;
      if (::setgroups(0, nullptr) != 0 || ::setgid(somebody) != 0 || ::setuid(somebody) != 0) return false;
      ZygoteClient zygote;
      if (!zygote.start(false, folder_)) return false;
      auto task = zygote.launch(
          Command::shell(program + " --reuid 0 --clear-groups sleep 1000 & sleep 1000 & echo ready; wait", marker_));
      const auto started = task ? task->next() : std::nullopt;
      if (!started) return false;
      report.from_shell(started->pid);
      const auto roots = [&] {
        for (const pid_t child : children_of(report.shell)) {
          struct stat owner{};
          const auto look = look_at(child);
          if (look && look->name == "sleep" && ::stat(("/proc/" + std::to_string(child)).c_str(), &owner) == 0 &&
              owner.st_uid == 0) {
            report.other = child;
          }
        }
        return report.other != 0;
      };
      if (!eventually(roots) || ::kill(report.other, SIGKILL) == 0) return false;
      task->stop(100);
      const auto stopped = task->await(KeeperEventKind::stopped);
      return stopped && stopped->left == 0 && task->await(KeeperEventKind::empty).has_value();
    });
    EXPECT_TRUE(host.ready());
    EXPECT_TRUE(!host.ready() || gone(host.report().other));
  }
  EXPECT_TRUE(eventually([&] { return ::rmdir(own.c_str()) == 0; }));
  std::filesystem::remove_all(program_folder);
}

TEST(KeeperNoGroupTest, AFolderThatIsNoControlGroupIsLeftAsItWas) {
  const Marker marker;
  std::string folder = ::testing::TempDir() + "errand-no-group-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ZygoteClient zygote;
  ASSERT_TRUE(zygote.start(false, folder));
  for (int i = 0; i < 3; ++i) {
    auto task = zygote.launch(Command::shell("exit 4", marker));
    ASSERT_TRUE(task);
    const auto exited = task->await(KeeperEventKind::exited);
    ASSERT_TRUE(exited);
    EXPECT_EQ(WEXITSTATUS(exited->status), 4);
    EXPECT_TRUE(task->await(KeeperEventKind::empty));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace errand::keeper
