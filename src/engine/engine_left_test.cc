// SPDX-License-Identifier: Apache-2.0
// What a stop cannot end: it is bounded all the same, and names what is left with pid, command and reason.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "base/fd.h"
#include "engine/engine_testing.h"
#include "engine/process_list.h"
#include "errand/engine.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using namespace errand::testing;

char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() ? '?' : stat[close + 2];
}

// A process that waits for the child of its vfork is in an uninterruptible wait, although it can be killed.
TEST(LeftTest, TheReasonOfAnUninterruptibleProcess) {
  const TemporaryFolder folder;
  Engine engine(test_config(folder));
  const std::string id = launch(engine, "exec " ERRAND_BUILD_DIR "/errand_test_trees vfork");
  ASSERT_TRUE(await_output(engine, id, "ready"));
  const auto processes = engine.inspect(id)->processes;
  ASSERT_EQ(processes.size(), 2u);
  const pid_t parent = processes.front().pid;
  ASSERT_TRUE(eventually([&] { return state_of(parent) == 'D'; }));
  EXPECT_EQ(why_left(parent), "uninterruptible");
  EXPECT_EQ(why_left(processes.back().pid), "still running");
  const StopReport report = engine.stop(id);
  EXPECT_EQ(report.ended, 2);
  EXPECT_TRUE(report.left.empty());
  EXPECT_FALSE(process_exists(parent));
}

// The host runs as somebody without rights; its task runs a program that becomes root, as sudo does.
class NotPermittedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "needs root to make a program that becomes root";
    if (::access("/usr/bin/setpriv", X_OK) != 0) GTEST_SKIP() << "no setpriv";
    // Not the folder for temporary files: setuid may be without effect there.
    char name[] = "/var/tmp/errand-left-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    program_ = folder_ + "/become-root";
    std::filesystem::copy_file("/usr/bin/setpriv", program_);
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
    ASSERT_EQ(::chmod(program_.c_str(), 04755), 0);
  }
  void TearDown() override {
    for (const pid_t pid : processes_with("ERRAND_TEST_MARK=" + folder_)) ::kill(pid, SIGKILL);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  // What `body` says, run by somebody else in a process of its own.
  std::string by_somebody(const std::function<std::string(Engine&)>& body) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    const ProcessGuard host(::fork());
    if (host.pid() == 0) {
      const uid_t uid = 400000 + static_cast<uid_t>(::getpid() % 100000);
      if (::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(1);
      EngineConfig config;
      config.keeper_path = ERRAND_BUILD_DIR "/errand-keeper";
      config.environment = {{"ERRAND_TEST_MARK", folder_}};
      config.stop_grace = 200ms;
      std::string text;
      {
        Engine engine(config);
        text = body(engine);
      }
      if (::write(write_end.get(), text.data(), text.size()) < 0) ::_exit(1);
      ::_exit(0);
    }
    write_end.reset();
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(read_end.get(), buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
  }
  // Starts a task of three: root's, one that can be ended, and the shell.
  std::string launch_mixed(Engine& engine) const {
    LaunchRequest request =
        request_of(program_ + " --reuid 0 --clear-groups sleep 1000 & sleep 1000 & echo ready; wait", "/");
    const std::string id = launch(engine, std::move(request));
    await_output(engine, id, "ready");
    eventually([&] {
      std::size_t sleeps = 0;
      const TaskSnapshot task = engine.inspect(id);
      for (const ProcessInfo& process : task->processes) sleeps += process.command == "sleep 1000";
      return sleeps == 2;
    });
    return id;
  }
  static std::string text_of(const std::vector<LeftProcess>& left) {
    std::string text;
    for (const LeftProcess& one : left) {
      text += std::to_string(one.process.pid) + "|" + one.process.command + "|" + one.reason + "\n";
    }
    return text;
  }

  std::string folder_;
  std::string program_;
};

TEST_F(NotPermittedTest, AStopNamesItAndEndsTheRest) {
  const std::string said = by_somebody([this](Engine& engine) {
    const std::string id = launch_mixed(engine);
    const StopReport report = engine.stop(id);
    std::string text = std::to_string(static_cast<int>(report.outcome)) + " " + text_of(report.left);
    text += std::to_string(engine.inspect(id)->processes.size()) + " left\n";
    text += text_of(engine.stop(id).left);  // a second stop says it again
    return text;
  });
  const auto left = processes_with("ERRAND_TEST_MARK=" + folder_);
  ASSERT_EQ(left.size(), 1u) << said;
  const std::string line = std::to_string(left.front()) + "|sleep 1000|not permitted\n";
  EXPECT_EQ(said, std::to_string(static_cast<int>(StopReport::Outcome::stopped)) + " " + line + "1 left\n" + line);
}

TEST_F(NotPermittedTest, TheEnginesCloseNamesItAndIsBounded) {
  const std::string said = by_somebody([this](Engine& engine) {
    launch_mixed(engine);
    return text_of(engine.close().left);
  });
  const auto left = processes_with("ERRAND_TEST_MARK=" + folder_);
  ASSERT_EQ(left.size(), 1u) << said;
  EXPECT_EQ(said, std::to_string(left.front()) + "|sleep 1000|not permitted\n");
}

}  // namespace
}  // namespace errand
