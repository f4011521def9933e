// SPDX-License-Identifier: Apache-2.0
// Every cell of the state machine.
#include "engine/task_state.h"

#include <gtest/gtest.h>

namespace errand {
namespace {

using enum TaskPhase;
using enum TaskEvent;

struct Cell {
  TaskPhase phase;
  TaskEvent event;
  TaskPhase next;
  TaskAction action;
};

constexpr Cell kCells[] = {
    // The first event decides; what ends a task from outside is published at once.
    {running, shell_exited, decided, TaskAction::decide},
    {running, start_failed, ended, TaskAction::decide_publish},
    {running, timed_out, decided, TaskAction::decide},
    {running, keeper_lost, decided, TaskAction::decide},
    {running, cancel, ended, TaskAction::decide_publish},
    {running, session_ended, ended, TaskAction::decide_publish},
    {running, output_settled, running, TaskAction::none},
    // Between the decision and the publication nothing changes the outcome.
    {decided, shell_exited, decided, TaskAction::none},
    {decided, start_failed, decided, TaskAction::none},
    {decided, timed_out, decided, TaskAction::end_survivors},
    {decided, keeper_lost, decided, TaskAction::none},
    {decided, cancel, decided, TaskAction::end_survivors},
    {decided, session_ended, decided, TaskAction::end_survivors},
    {decided, output_settled, ended, TaskAction::publish},
    // Only RUNNING moves, and once.
    {ended, shell_exited, ended, TaskAction::none},
    {ended, start_failed, ended, TaskAction::none},
    {ended, timed_out, ended, TaskAction::none},
    {ended, keeper_lost, ended, TaskAction::none},
    {ended, cancel, ended, TaskAction::end_survivors},
    {ended, session_ended, ended, TaskAction::end_survivors},
    {ended, output_settled, ended, TaskAction::none},
};

TEST(TaskStateTest, EveryCell) {
  EXPECT_EQ(std::size(kCells), 3u * 7u);
  for (const Cell& cell : kCells) {
    const TaskStep step = step_of(cell.phase, cell.event);
    SCOPED_TRACE(testing::Message() << "phase " << static_cast<int>(cell.phase) << ", event "
                                    << static_cast<int>(cell.event));
    EXPECT_EQ(step.next, cell.next);
    EXPECT_EQ(step.action, cell.action);
  }
}

// Two events in any order: exactly one publication, and the first one's outcome.
TEST(TaskStateTest, WhoeverComesFirstDecidesWhateverFollows) {
  for (int first = 0; first < 6; ++first) {
    for (int second = 0; second < 6; ++second) {
      int decisions = 0, publications = 0;
      TaskPhase phase = running;
      for (const TaskEvent event : {static_cast<TaskEvent>(first), static_cast<TaskEvent>(second), output_settled,
                                    static_cast<TaskEvent>(second), output_settled}) {
        const TaskStep step = step_of(phase, event);
        phase = step.next;
        decisions += step.action == TaskAction::decide || step.action == TaskAction::decide_publish;
        publications += step.action == TaskAction::publish || step.action == TaskAction::decide_publish;
      }
      EXPECT_EQ(phase, ended);
      EXPECT_EQ(decisions, 1);
      EXPECT_EQ(publications, 1);
    }
  }
}

}  // namespace
}  // namespace errand
