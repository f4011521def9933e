// SPDX-License-Identifier: Apache-2.0
// What outlives a task's shell: its limit, and the ports that it holds until a stop has returned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "engine/engine_testing.h"
#include "engine/listener_testing.h"

namespace errand {
namespace {

using namespace std::chrono_literals;
using testing::await_ended;
using testing::await_output;
using testing::eventually;
using ::testing::HasSubstr;
using testing::launch;
using testing::listen_command;
using ::testing::MatchesRegex;
using testing::output_of;
using testing::request_of;

class SurvivorTest : public ::testing::Test {
 protected:
  std::string refusal(Engine& engine) {
    const LaunchResult result = engine.launch(request_of("true"));
    const auto* rejected = std::get_if<Rejected>(&result);
    return rejected != nullptr ? rejected->reason : "launched";
  }
  // An ended task with a living process.
  std::string leave_one(Engine& engine) {
    const std::string id = launch(engine, "sleep 1000 & true");
    EXPECT_EQ(await_ended(engine, id)->processes.size(), 1u);
    return id;
  }

  testing::TemporaryFolder folder_;
  EngineConfig config_ = testing::test_config(folder_);
};

TEST_F(SurvivorTest, TwentyAreTheLimitByDefaultAndTenAreNamed) {
  Engine engine(config_);
  for (int i = 0; i < 20; ++i) leave_one(engine);
  EXPECT_EQ(refusal(engine),
            "20 ended tasks still have processes running; stop some: bg-1, bg-2, bg-3, bg-4, bg-5, bg-6, bg-7, bg-8, "
            "bg-9, bg-10, ...");
  engine.stop("bg-7");
  EXPECT_EQ(refusal(engine), "launched");
}

TEST_F(SurvivorTest, ZeroIsNoLimit) {
  config_.max_survivor_tasks = 0;
  Engine engine(config_);
  for (int i = 0; i < 25; ++i) leave_one(engine);
  EXPECT_EQ(refusal(engine), "launched");
}

TEST_F(SurvivorTest, ThePlaceIsFreeWhenTheLastProcessHasEnded) {
  config_.max_survivor_tasks = 1;
  Engine engine(config_);
  const std::string id = leave_one(engine);
  EXPECT_EQ(refusal(engine), "1 ended tasks still have processes running; stop some: bg-1");
  ASSERT_EQ(::kill(engine.get(id)->processes[0].pid, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return refusal(engine) == "launched"; }));
}

TEST_F(SurvivorTest, AdoptionIgnoresTheLimitAndLaterLaunchesCountIt) {
  config_.max_survivor_tasks = 1;
  Engine engine(config_);
  leave_one(engine);
  const std::string foreground = std::get<Launched>(engine.launch_foreground(request_of("sleep 1000 & true"))).id;
  const TaskSnapshot task = await_ended(engine, foreground);
  EXPECT_EQ(task->id, "bg-2");
  EXPECT_EQ(task->processes.size(), 1u);
  EXPECT_EQ(refusal(engine), "2 ended tasks still have processes running; stop some: bg-1, bg-2");
  engine.stop("bg-1");
  EXPECT_EQ(refusal(engine), "1 ended tasks still have processes running; stop some: bg-2");
  EXPECT_TRUE(std::holds_alternative<Launched>(engine.launch_foreground(request_of("true")))) << "never refused";
}

// --- ports ---

class PortsAfterStopTest : public SurvivorTest {
 protected:
  void SetUp() override {
    if (!testing::has_python()) GTEST_SKIP() << "no python3";
  }
  std::uint16_t await_port(Engine& engine, const std::string& id) {
    EXPECT_TRUE(await_output(engine, id, "\n")) << output_of(engine, id);
    return static_cast<std::uint16_t>(std::atoi(output_of(engine, id).c_str()));
  }
};

constexpr const char* kIgnoreTerm =
    "import signal,os\nsignal.signal(15,signal.SIG_IGN)\nsignal.signal(1,signal.SIG_IGN)";

TEST_F(PortsAfterStopTest, TheyAreFreeWhateverHeldThem) {
  config_.stop_grace = 50ms;
  Engine engine(config_);
  const std::string plain = listen_command("0.0.0.0");
  const std::string stubborn = listen_command("0.0.0.0", 0, kIgnoreTerm);
  const std::string inherited = listen_command("0.0.0.0", 0,
                                               std::string(kIgnoreTerm) +
                                                   "\nlisten=socket.socket.listen\n"
                                                   "socket.socket.listen=lambda s:(listen(s),os.fork())");
  for (const std::string& command : {
           "exec " + plain,                    // the shell itself
           plain + "; true",                   // a child
           "setsid " + stubborn + "; true",    // in a session of its own, deaf to SIGTERM
           "(setsid " + stubborn + " &)",      // a survivor
           "setsid " + inherited + " & wait",  // two processes with the same socket
       }) {
    for (int round = 0; round < 3; ++round) {
      const std::string id = launch(engine, command);
      const std::uint16_t port = await_port(engine, id);
      ASSERT_FALSE(testing::can_listen(port)) << command;
      const StopReport report = engine.stop(id);
      EXPECT_TRUE(testing::can_listen(port)) << command << ": " << ending_text(*report.task);
      EXPECT_TRUE(report.left.empty());
      EXPECT_GE(report.ended, 1);
    }
  }
}

TEST_F(PortsAfterStopTest, TheNextTaskOfTheSameCommandGetsThePort) {
  Engine engine(config_);
  std::string id = launch(engine, "(setsid " + listen_command("0.0.0.0") + " &)");
  const std::uint16_t port = await_port(engine, id);
  for (int round = 0; round < 5; ++round) {
    engine.stop(id);
    id = launch(engine, "(setsid " + listen_command("0.0.0.0", port, kIgnoreTerm) + " &)");
    ASSERT_EQ(await_port(engine, id), port) << "it could not bind: " << output_of(engine, id);
  }
}

TEST_F(PortsAfterStopTest, TheSessionsEndFreesThemToo) {
  std::uint16_t port = 0;
  {
    Engine engine(config_);
    port = await_port(engine, launch(engine, "(setsid " + listen_command("0.0.0.0", 0, kIgnoreTerm) + " &)"));
    ASSERT_FALSE(testing::can_listen(port));
  }
  EXPECT_TRUE(testing::can_listen(port));
}

TEST_F(PortsAfterStopTest, ASurvivorsPortIsNamedInTheNotification) {
  Engine engine(config_);
  // The shell ends when the server listens.
  const std::string id = launch(engine, "cd " + folder_.path() + "; (setsid " + listen_command() +
                                            " >port &); until [ -s port ]; do sleep 0.02; done; cat port; rm port");
  const TaskSnapshot task = await_ended(engine, id);
  const std::string port = std::to_string(await_port(engine, id));
  const auto pending = engine.notifications().drain();
  ASSERT_EQ(pending.size(), 1u);
  ASSERT_EQ(task->processes.size(), 1u);
  EXPECT_THAT(
      pending[0].message,
      HasSubstr("completed (exit code 0); 1 process still running: " + std::to_string(task->processes[0].pid) + " "));
  EXPECT_THAT(pending[0].message, ::testing::EndsWith(" :" + port));
}

}  // namespace
}  // namespace errand
