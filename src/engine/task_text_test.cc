// SPDX-License-Identifier: Apache-2.0
#include "engine/task_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "engine/environment.h"
#include "errand/task.h"

namespace errand {
namespace {

TaskRecord ended(TaskStatus status) {
  TaskRecord task;
  task.status = status;
  return task;
}

TEST(TaskTextTest, Endings) {
  TaskRecord task = ended(TaskStatus::running);
  EXPECT_EQ(ending_text(task), "running");
  task = ended(TaskStatus::completed);
  task.exit_code = 0;
  EXPECT_EQ(ending_text(task), "completed (exit code 0)");
  task.processes = {{4711, "node server.js", {3000}}};
  EXPECT_EQ(ending_text(task), "completed (exit code 0); 1 process still running: 4711 node server.js :3000");
  task.processes.push_back({4712, "sleep 9", {}});
  EXPECT_EQ(ending_text(task),
            "completed (exit code 0); 2 processes still running: 4711 node server.js :3000, 4712 sleep 9");
  task = ended(TaskStatus::failed);
  task.exit_code = 7;
  EXPECT_EQ(ending_text(task), "failed (exit code 7)");
  task = ended(TaskStatus::failed);
  task.signal = SIGKILL;
  EXPECT_EQ(ending_text(task), "failed (signal 9 (SIGKILL))");
  task = ended(TaskStatus::failed);
  task.error = timed_out_text(std::chrono::seconds(5));
  EXPECT_EQ(ending_text(task), "failed (timed out after 5 s)");
  task.error = could_not_start_text("chdir", "/x", ENOENT);
  EXPECT_EQ(ending_text(task), "failed (could not start: chdir \"/x\": No such file or directory)");
  task.error = "keeper lost";
  EXPECT_EQ(ending_text(task), "failed (keeper lost)");
  task = ended(TaskStatus::cancelled);
  task.cause = EndCause::cancelled;
  EXPECT_EQ(ending_text(task), "cancelled by user");
  task.cause = EndCause::session_ended;
  EXPECT_EQ(ending_text(task), "cancelled (session ended)");
}

TEST(TaskTextTest, AgentsHaveNoExitCode) {
  TaskRecord task = ended(TaskStatus::completed);
  task.kind = TaskKind::agent;
  EXPECT_EQ(ending_text(task), "completed");
  task.status = TaskStatus::failed;
  task.error = "no text";
  EXPECT_EQ(ending_text(task), "failed (no text)");
}

TEST(TaskTextTest, Signals) {
  EXPECT_EQ(signal_text(SIGKILL), "9 (SIGKILL)");
  EXPECT_EQ(signal_text(SIGTERM), "15 (SIGTERM)");
  EXPECT_EQ(signal_text(SIGRTMIN), "34 (SIGRTMIN)");
  EXPECT_EQ(signal_text(SIGRTMIN + 1), "35 (SIGRTMIN+1)");
  EXPECT_EQ(signal_text(SIGRTMAX), "64 (SIGRTMIN+30)");
  EXPECT_EQ(signal_text(32), "32");
  EXPECT_EQ(signal_text(99), "99");
}

TEST(TaskTextTest, ALongCommandOfAProcessIsCut) {
  const std::string text = processes_text({{7, std::string(5000, 'x'), {80}}});
  EXPECT_EQ(text.find("7 xxx"), 0u);
  EXPECT_NE(text.find("characters cut"), std::string::npos);
  EXPECT_LT(text.size(), 260u);
  EXPECT_TRUE(text.ends_with("xxx :80"));
}

TEST(TaskTextTest, ProcessesAreCutWithACount) {
  std::vector<ProcessInfo> processes;
  for (pid_t pid = 1; pid <= 12; ++pid) processes.push_back({pid, "x", {}});
  EXPECT_EQ(processes_text(processes), "1 x, 2 x, 3 x, 4 x, 5 x, 6 x, 7 x, 8 x, 9 x, 10 x, and 2 more");
  EXPECT_EQ(processes_text(processes, 2, "; "), "1 x; 2 x; and 10 more");
  EXPECT_EQ(processes_text({}), "");
}

TEST(TaskTextTest, Seconds) {
  using std::chrono::milliseconds;
  EXPECT_EQ(seconds_text(milliseconds(5000)), "5 s");
  EXPECT_EQ(seconds_text(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(seconds_text(milliseconds(250)), "0.25 s");
  EXPECT_EQ(seconds_text(milliseconds(1)), "0.001 s");
  EXPECT_EQ(seconds_text(milliseconds(120000)), "120 s");
}

TEST(TaskTextTest, Names) {
  EXPECT_EQ(to_string(TaskStatus::running), "RUNNING");
  EXPECT_EQ(to_string(TaskStatus::completed), "COMPLETED");
  EXPECT_EQ(to_string(TaskStatus::failed), "FAILED");
  EXPECT_EQ(to_string(TaskStatus::cancelled), "CANCELLED");
  EXPECT_EQ(to_string(TaskKind::shell), "shell");
  EXPECT_EQ(to_string(TaskKind::agent), "agent");
  EXPECT_EQ(to_string(TaskKind::workflow), "workflow");
}

TEST(EnvironmentTest, Blankness) {
  for (const char* blank : {"", " ", "\t\r\n\v\f", "\xC2\xA0", "\xE3\x80\x80 \xE2\x80\x83"})
    EXPECT_TRUE(is_blank(blank));
  for (const char* text : {"x", " x ", "\xC3\xA9", "\xE2\x80\x8B"}) EXPECT_FALSE(is_blank(text)) << text;
}

TEST(EnvironmentTest, TokensDiffer) {
  EXPECT_EQ(random_token().size(), 32u);
  EXPECT_NE(random_token(), random_token());
}

}  // namespace
}  // namespace errand
