// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
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
using testing::launch;
using testing::output_of;

constexpr std::uint64_t kMegabyte = 1024 * 1024;

// A command that uses the processor for about this long.
std::string burn(int hundredths) {
  return "python3 -c 'import time\nwhile time.process_time()<" + std::to_string(hundredths) + "/100: pass'";
}
std::string hold(int megabytes, const std::string& then) {
  return "python3 -c 'import time\nx=b\"x\"*(" + std::to_string(megabytes) + "<<20)\n" + then + "'";
}

class SamplerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_python()) GTEST_SKIP() << "no python3";
  }
  static pid_t keeper_of(Engine& engine, const std::string& id) {
    EXPECT_TRUE(await_output(engine, id, "\n"));
    return std::atoi(output_of(engine, id).c_str());
  }
  testing::TemporaryFolder folder_;
  EngineConfig config_ = testing::test_config(folder_);
};

TEST_F(SamplerTest, BothWaysSeeTheSameTrees) {
  Engine engine(config_);
  // The burner is nobody's child but the keeper's, and is reaped by it.
  const std::string one =
      launch(engine, "echo $PPID; ((" + burn(5) + "; echo on) &); sleep 1000 & (setsid sleep 1000 &); wait");
  const std::string two = launch(engine, "echo $PPID; sleep 1000; true");
  const pid_t first = keeper_of(engine, one), second = keeper_of(engine, two);
  ASSERT_TRUE(await_output(engine, one, "on"));
  ASSERT_TRUE(eventually([&] { return engine.inspect(one)->processes.size() == 3; }));
  for (const Sampler::Way way : {Sampler::Way::children, Sampler::Way::scan}) {
    if (way == Sampler::Way::children && !proc::has_children_files()) continue;
    Sampler sampler;
    sampler.begin({{7, first}, {8, second}}, way);
    EXPECT_TRUE(sampler.busy());
    while (!sampler.go_on(50)) {
    }
    const std::vector<Sample> samples = sampler.take();
    EXPECT_FALSE(sampler.busy());
    ASSERT_EQ(samples.size(), 2u);
    EXPECT_EQ(samples[0].serial, 7u);
    EXPECT_EQ(samples[1].serial, 8u);
    std::vector<pid_t> named;
    const TaskSnapshot task = engine.inspect(one);
    for (const ProcessInfo& process : task->processes) named.push_back(process.pid);
    EXPECT_EQ(samples[0].living, named);
    EXPECT_EQ(samples[1].living.size(), 2u);
    EXPECT_GE(samples[0].cpu_seconds, 0.04) << "what was reaped counts";
    EXPECT_LT(samples[1].cpu_seconds, 0.04) << "and for its own task alone";
    EXPECT_GT(samples[0].rss_bytes, 100'000u);
  }
}

// A process is reaped in the middle of a look, at several places: seen already, and then in its parent's sum.
TEST_F(SamplerTest, WhatIsReapedDuringALookIsNotCountedTwice) {
  config_.max_concurrent_background = 100;
  Engine engine(config_);
  const auto slices_of = [](pid_t keeper) {
    Sampler sampler;
    sampler.begin({{1, keeper}}, Sampler::Way::scan);
    int slices = 1;
    while (!sampler.go_on(0)) ++slices;
    return slices;
  };
  for (int eighths = 1; eighths <= 8; ++eighths) {
    const std::string id = launch(engine,
                                  "echo $PPID; (exec python3 -c 'import time\nwhile time.process_time()<0.2: pass\n"
                                  "print(\"on\",flush=True)\ntime.sleep(1000)' &); exec sleep 1000");
    const pid_t keeper = keeper_of(engine, id);
    ASSERT_TRUE(await_output(engine, id, "on"));
    const TaskSnapshot task = engine.inspect(id);
    ASSERT_EQ(task->processes.size(), 2u);
    const pid_t burner = task->processes[task->processes[0].command == "sleep 1000" ? 1 : 0].pid;
    // Some that come after it in a pass over /proc.
    for (int i = 0; i < 10; ++i) launch(engine, "exec sleep 1000");

    Sampler sampler;
    sampler.begin({{1, keeper}}, Sampler::Way::scan);
    const int cut = slices_of(keeper) * eighths / 8 - 1;
    for (int i = 0; i < cut; ++i) sampler.go_on(0);
    ASSERT_EQ(::kill(burner, SIGKILL), 0);
    ASSERT_TRUE(eventually([&] { return !proc::read_stat(burner); })) << "reaped";
    while (!sampler.go_on(0)) {
    }
    const double seen = sampler.take().front().cpu_seconds;
    const double used = engine.stop(id).task->cpu_seconds;
    EXPECT_GE(used, 0.18);
    EXPECT_LE(seen, used + 0.02) << "cut at " << eighths << "/8";
  }
}

TEST_F(SamplerTest, AShortTaskHasHonestFigures) {
  Engine engine(config_);
  const std::string id =
      launch(engine, hold(64, "import resource\nu=resource.getrusage(0)\nprint(u.ru_utime+u.ru_stime,u.ru_maxrss)"));
  const TaskSnapshot task = await_ended(engine, id);
  std::istringstream said(output_of(engine, id));
  double cpu = 0;
  std::uint64_t kilobytes = 0;
  said >> cpu >> kilobytes;
  ASSERT_GT(kilobytes, 64u * 1024);
  EXPECT_GE(task->cpu_seconds, cpu);
  EXPECT_LE(task->cpu_seconds, cpu + 5);
  EXPECT_GE(task->peak_rss_bytes, kilobytes * 1024);
  EXPECT_LE(task->peak_rss_bytes, kilobytes * 1024 + 200 * kMegabyte);
}

TEST_F(SamplerTest, ATaskThatIsStoppedHasItsFiguresToo) {
  Engine engine(config_);
  const std::string id = launch(engine, burn(20) + "; echo on; sleep 1000");
  ASSERT_TRUE(await_output(engine, id, "on"));
  const StopReport report = engine.stop(id);
  EXPECT_GE(report.task->cpu_seconds, 0.15);
  EXPECT_GT(report.task->peak_rss_bytes, kMegabyte);
}

TEST_F(SamplerTest, MemoryIsTheSumOverTheTreeAndThePeakStays) {
  Engine engine(config_);
  const std::string gate = folder_ / "gate";
  const std::string wait =
      "import os\nprint(\"on\\n\",end=\"\",flush=True)\nwhile not os.path.exists(\"" + gate + "\"): time.sleep(0.01)";
  const std::string id = launch(engine, hold(40, wait) + " & " + hold(40, wait) + " & wait; echo over; sleep 1000");
  ASSERT_TRUE(await_output(engine, id, "on\non\n"));
  const std::uint64_t peak = engine.inspect(id)->peak_rss_bytes;
  EXPECT_GE(peak, 80 * kMegabyte);
  std::ofstream(gate).put('x');
  ASSERT_TRUE(await_output(engine, id, "over"));
  EXPECT_GE(engine.inspect(id)->peak_rss_bytes, peak);
}

// A parent that ignores SIGCHLD reaps nothing: what its children used is lost to the kernel's sums, not to the record.
TEST_F(SamplerTest, FiguresNeverDecrease) {
  Engine engine(config_);
  const std::string gate = folder_ / "gate";
  const std::string id =
      launch(engine,
             "exec python3 -c 'import os,signal,time\nsignal.signal(signal.SIGCHLD,signal.SIG_IGN)\nif os.fork()==0:\n"
             "  while time.process_time()<0.3: pass\n  print(\"on\",flush=True)\n"
             "  while not os.path.exists(\"" +
                 gate + "\"): time.sleep(0.01)\n  os._exit(0)\ntime.sleep(1000)'");
  ASSERT_TRUE(await_output(engine, id, "on"));
  const double before = engine.inspect(id)->cpu_seconds;
  EXPECT_GE(before, 0.25);
  std::ofstream(gate).put('x');
  ASSERT_TRUE(eventually([&] { return engine.inspect(id)->processes.size() == 1; }));
  EXPECT_GE(engine.inspect(id)->cpu_seconds, before);
  EXPECT_GE(engine.get(id)->cpu_seconds, before);
}

// --- the supervisor's own looks ---

TEST_F(SamplerTest, ListingIsLookingAndTheLooksReachTheRecord) {
  config_.max_concurrent_background = 30;
  Engine engine(config_);
  // More than are walked one by one.
  for (int i = 0; i < 20; ++i) launch(engine, "exec sleep 1000");
  const std::string id = launch(engine, burn(10) + "; echo on; sleep 1000");
  ASSERT_TRUE(await_output(engine, id, "on"));
  // A look may fall on the moment in which the shell has become the last command and has no memory yet.
  EXPECT_TRUE(eventually([&] {
    const TaskSnapshot task = engine.list().back();
    return task->cpu_seconds >= 0.08 && task->peak_rss_bytes > 0;
  }));
  EXPECT_LT(engine.get("bg-1")->cpu_seconds, 0.08);
}

// It takes the ten seconds between two looks.
TEST_F(SamplerTest, TasksAreLookedAtWhenNobodyAsks) {
  Engine engine(config_);
  const std::string id = launch(engine, burn(10) + "; echo on; sleep 1000");
  ASSERT_TRUE(await_output(engine, id, "on"));
  EXPECT_TRUE(eventually([&] { return engine.get(id)->cpu_seconds >= 0.08; }, 100s));
}

TEST_F(SamplerTest, WhileSomebodyListsTheLooksGoOn) {
  Engine engine(config_);
  const std::string id = launch(engine, burn(10) + "; echo on; while true; do " + burn(10) + "; done");
  ASSERT_TRUE(await_output(engine, id, "on"));
  double before = 0;
  for (int look = 0; look < 4; ++look) {
    ASSERT_TRUE(eventually([&] { return engine.list().front()->cpu_seconds > before; })) << look;
    before = engine.get(id)->cpu_seconds;
  }
}

TEST_F(SamplerTest, ListenersHearThatOneOfTheSurvivorsIsGone) {
  struct Listener : EngineListener {
    void on_task_started(const TaskSnapshot&) override {}
    void on_task_ended(const TaskSnapshot& task) override { note(task); }
    void on_task_changed(const TaskSnapshot& task) override { note(task); }
    void note(const TaskSnapshot& task) {
      const std::lock_guard lock(mutex);
      told.push_back(task->processes.size());
    }
    std::vector<std::size_t> all() {
      const std::lock_guard lock(mutex);
      return told;
    }
    std::mutex mutex;
    std::vector<std::size_t> told;
  } listener;
  Engine engine(config_, &listener);
  const std::string id = launch(engine, "sleep 1000 & sleep 1001 & true");
  const TaskSnapshot task = await_ended(engine, id);
  ASSERT_EQ(task->processes.size(), 2u);
  ASSERT_EQ(::kill(task->processes[0].pid, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return engine.list().front()->processes.size() == 1; }));
  EXPECT_EQ(engine.get(id)->processes[0].pid, task->processes[1].pid);
  EXPECT_EQ(engine.notifications().drain().size(), 1u) << "nothing is pushed for it";
  ASSERT_EQ(::kill(task->processes[1].pid, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return listener.all() == std::vector<std::size_t>{2, 1, 0}; }));
}

TEST_F(SamplerTest, AProcessThatASurvivorStartsIsNamed) {
  Engine engine(config_);
  const std::string gate = folder_ / "gate";
  const std::string id = launch(engine, "(while [ ! -e " + gate + " ]; do sleep 0.02; done; sleep 1000; true) & true");
  await_ended(engine, id);
  std::ofstream(gate).put('x');
  EXPECT_TRUE(eventually([&] {
    const TaskSnapshot task = engine.list().front();
    return task->processes.size() == 2 && task->processes[1].command == "sleep 1000";
  }));
}

}  // namespace
}  // namespace errand
