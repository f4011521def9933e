// SPDX-License-Identifier: Apache-2.0
#include "conversation/notice.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace errand {
namespace {

TaskRecord ended(TaskStatus status, EndCause cause) {
  TaskRecord task;
  task.id = "bg-1";
  task.command = "make test";
  task.status = status;
  task.cause = cause;
  task.duration_ms = 41200;
  task.output_file = "/s/tasks/bg-1.output";
  return task;
}

TaskRecord exited(int code) {
  auto task = ended(code == 0 ? TaskStatus::completed : TaskStatus::failed, EndCause::exited);
  task.exit_code = code;
  return task;
}

TEST(NoticeTest, summaries_of_every_ending) {
  EXPECT_EQ(shell_summary(exited(0)), "Background command \"make test\" completed (exit code 0)");
  EXPECT_EQ(shell_summary(exited(2)), "Background command \"make test\" failed with exit code 2");
  auto task = ended(TaskStatus::failed, EndCause::signalled);
  task.signal = 9;
  EXPECT_EQ(shell_summary(task), "Background command \"make test\" was killed by signal 9 (SIGKILL)");
  task = ended(TaskStatus::failed, EndCause::timed_out);
  task.error = "timed out after 5 s";
  EXPECT_EQ(shell_summary(task), "Background command \"make test\" timed out after 5 s");
  task = ended(TaskStatus::failed, EndCause::could_not_start);
  task.error = "chdir \"/x\": No such file or directory";
  EXPECT_EQ(shell_summary(task),
            "Background command \"make test\" could not start: chdir \"/x\": No such file or directory");
  task = ended(TaskStatus::failed, EndCause::keeper_lost);
  task.error = "keeper lost";
  EXPECT_EQ(shell_summary(task), "Background command \"make test\" failed: keeper lost; its processes were ended");
  task.error = "keeper lost; processes may be left";
  EXPECT_EQ(shell_summary(task), "Background command \"make test\" failed: keeper lost; processes may be left");
}

TEST(NoticeTest, survivors_stand_in_the_summary_and_in_still_running) {
  auto task = exited(0);
  task.processes = {{4711, "node server.js", {3000, 3001}}};
  EXPECT_EQ(shell_summary(task), "Background command \"make test\" completed (exit code 0); 1 process still running");
  EXPECT_EQ(make_notice(task, "")->still_running, "4711 node server.js :3000 :3001");
  task.processes.push_back({4712, "sleep\n9", {}});
  EXPECT_EQ(shell_summary(task), "Background command \"make test\" completed (exit code 0); 2 processes still running");
  EXPECT_EQ(make_notice(task, "")->still_running, "4711 node server.js :3000 :3001; 4712 sleep 9");
  for (pid_t pid = 1; pid <= 11; ++pid) task.processes.push_back({pid, "x", {}});
  EXPECT_EQ(make_notice(task, "")->still_running,
            "4711 node server.js :3000 :3001; 4712 sleep 9; 1 x; 2 x; 3 x; 4 x; 5 x; 6 x; 7 x; 8 x; and 3 more");
}

TEST(NoticeTest, a_long_command_is_cut_in_the_middle_with_a_count) {
  auto task = exited(0);
  task.command = std::string(200, 'a');
  EXPECT_EQ(shell_summary(task), "Background command \"" + task.command + "\" completed (exit code 0)");
  task.command = std::string(150, 'a') + "\n" + std::string(150, 'b');
  const std::string summary = shell_summary(task);
  EXPECT_EQ(summary.find('\n'), std::string::npos);
  EXPECT_NE(summary.find(" characters cut) ..."), std::string::npos);
  const auto from = summary.find('"') + 1;
  EXPECT_LE(utf8_length(summary.substr(from, summary.rfind('"') - from)), 200u);
  EXPECT_TRUE(summary.substr(from).starts_with("aaa"));
  EXPECT_NE(summary.find("bbb\" completed"), std::string::npos);
}

TEST(NoticeTest, a_failed_task_carries_its_tail_a_completed_one_does_not) {
  EXPECT_EQ(make_notice(exited(0), "all good\n")->tail, "");
  const auto notice = make_notice(exited(7), "first\nlast\n\n");
  EXPECT_EQ(notice->tail, "first\nlast");
  EXPECT_EQ(notice->status, "failed");
  EXPECT_EQ(notice->exit_code, 7);
  EXPECT_EQ(notice->task_type, "shell");
  EXPECT_EQ(notice->duration_ms, 41200);
  EXPECT_NE(notice->notice_id, make_notice(exited(7), "")->notice_id);
}

TEST(NoticeTest, killed_tasks_inject_nothing) {
  EXPECT_FALSE(make_notice(ended(TaskStatus::cancelled, EndCause::cancelled), "x"));
  EXPECT_FALSE(make_notice(ended(TaskStatus::cancelled, EndCause::session_ended), "x"));
  EXPECT_FALSE(make_notice(ended(TaskStatus::running, EndCause::none), "x"));
}

}  // namespace
}  // namespace errand
