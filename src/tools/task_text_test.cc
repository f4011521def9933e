// SPDX-License-Identifier: Apache-2.0
// Texts whose cases a test cannot make with processes of its own: what may not be ended, agents.
#include "tools/task_text.h"

#include <gtest/gtest.h>

namespace errand {
namespace {

StopReport report(StopReport::Outcome outcome, int ended, std::vector<LeftProcess> left) {
  auto task = std::make_shared<TaskRecord>();
  task->id = "bg-2";
  task->status = outcome == StopReport::Outcome::stopped ? TaskStatus::cancelled : TaskStatus::completed;
  StopReport result;
  result.outcome = outcome;
  result.task = task;
  result.ended = ended;
  result.left = std::move(left);
  return result;
}

const LeftProcess kSudo{ProcessInfo{4711, "sudo sleep 9", {}}, "not permitted"};
const LeftProcess kDisk{ProcessInfo{4712, "dd", {}}, "uninterruptible"};

TEST(TaskTextTest, WhatIsLeftIsNamed) {
  using Outcome = StopReport::Outcome;
  EXPECT_EQ(stop_text(report(Outcome::stopped, 3, {})), "Task bg-2 stopped: 3 processes ended.");
  EXPECT_EQ(stop_text(report(Outcome::stopped, 1, {})), "Task bg-2 stopped: 1 process ended.");
  EXPECT_EQ(stop_text(report(Outcome::stopped, 2, {kSudo})),
            "Task bg-2 stopped: 2 processes ended, 1 left: 4711 sudo sleep 9 (not permitted).");
  EXPECT_EQ(
      stop_text(report(Outcome::stopped, 1, {kSudo, kDisk})),
      "Task bg-2 stopped: 1 process ended, 2 left: 4711 sudo sleep 9 (not permitted), 4712 dd (uninterruptible).");
  EXPECT_EQ(stop_text(report(Outcome::already_finished, 0, {})),
            "Task bg-2 has already finished (COMPLETED); nothing to stop.");
  EXPECT_EQ(stop_text(report(Outcome::survivors_ended, 1, {})),
            "Task bg-2 had already finished (COMPLETED); 1 remaining process ended.");
  EXPECT_EQ(stop_text(report(Outcome::survivors_ended, 2, {kSudo})),
            "Task bg-2 had already finished (COMPLETED); 2 remaining processes ended, 1 left: 4711 sudo sleep 9 (not "
            "permitted).");
}

TEST(TaskTextTest, AgentsAreStoppedWithoutACount) {
  StopReport stopped = report(StopReport::Outcome::stopped, 0, {});
  auto agent = std::make_shared<TaskRecord>(*stopped.task);
  agent->id = "agent-1";
  agent->kind = TaskKind::agent;
  stopped.task = agent;
  EXPECT_EQ(stop_text(stopped), "Task agent-1 stopped.");
}

TEST(TaskTextTest, OutputOfARunningTask) {
  TaskRecord task;
  task.id = "bg-1";
  task.duration_ms = 12999;
  task.last_output_age_ms = 3001;
  EXPECT_EQ(output_text(task, OutputTail{"a\nb\n\n", false}),
            "Task bg-1 is RUNNING.\nRunning for 12 s, last output 3 s ago.\n\nOutput:\na\nb");
  task.status = TaskStatus::failed;
  task.exit_code = 7;
  EXPECT_EQ(output_text(task, OutputTail{"x\n", true}),
            "Task bg-1 is FAILED.\nExit code: 7\n(output was truncated; showing tail)\n\nOutput:\nx");
}

TEST(TaskTextTest, LongCommandsAreCutAtACharacter) {
  TaskRecord task;
  task.id = "bg-1";
  for (int i = 0; i < 60; ++i) task.command += "ä";
  std::string fifty;
  for (int i = 0; i < 50; ++i) fifty += "ä";
  EXPECT_EQ(task_line(task), "bg-1  [RUNNING]  " + fifty + "...");
  task.command = fifty;
  EXPECT_EQ(task_line(task), "bg-1  [RUNNING]  " + fifty);
}

}  // namespace
}  // namespace errand
