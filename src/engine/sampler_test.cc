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
  static Sample look(Sampler::Way way, std::vector<SampleSubject> subjects) {
    Sampler sampler;
    sampler.begin(std::move(subjects), way);
    while (!sampler.go_on(100)) {
    }
    return sampler.take().front();
  }

  testing::TemporaryFolder folder_;
  EngineConfig config_ = testing::test_config(folder_);
};

TEST_F(SamplerTest, BothWaysSeeTheSameTrees) {
  Engine engine(config_);
  const std::string one =
      launch(engine, "echo $PPID; " + burn(5) + "; sleep 1000 & (setsid sleep 1000 &); echo on; wait");
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

// While children burn and are reaped, again and again, no look may see more than was used in the end.
TEST_F(SamplerTest, WhatIsReapedDuringALookIsNotCountedTwice) {
  Engine engine(config_);
  const std::string id =
      launch(engine, "echo $PPID; for i in $(seq 8); do " + burn(4) + " & " + burn(4) + " & wait; done");
  const pid_t keeper = keeper_of(engine, id);
  double highest = 0;
  int looks = 0;
  while (engine.get(id)->status == TaskStatus::running) {
    const Sampler::Way way = ++looks % 2 == 0 ? Sampler::Way::children : Sampler::Way::scan;
    highest = std::max(highest, look(way, {{1, keeper}}).cpu_seconds);
  }
  const double used = await_ended(engine, id)->cpu_seconds;
  EXPECT_GE(used, 0.6);
  EXPECT_GT(highest, 0.3);
  EXPECT_LE(highest, used + 0.02);
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
  EXPECT_TRUE(eventually([&] { return engine.list().back()->cpu_seconds >= 0.08; }));
  EXPECT_GT(engine.get(id)->peak_rss_bytes, 0u);
  EXPECT_LT(engine.get("bg-1")->cpu_seconds, 0.08);
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
