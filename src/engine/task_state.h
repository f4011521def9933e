// SPDX-License-Identifier: Apache-2.0
// The life of a task as a state machine: a table of what each event does in each phase, without any effect of its own.
//
// A task has three phases inside, two of which a reader sees as RUNNING: between the moment its outcome is decided (the
// shell exited, the timeout struck) and the publication, when what is still in the pipe has been read.
#pragma once

#include <string_view>

namespace errand {

enum class TaskPhase {
  running,  // nothing is decided
  decided,  // the outcome is fixed and not yet published; still RUNNING for readers, still holding its slot
  ended,    // published
};

enum class TaskEvent {
  shell_exited,   // the keeper reports the shell's wait status
  start_failed,   // nothing was started
  timed_out,      // the task's own timeout struck
  keeper_lost,    // the keeper's connection ended without a word
  cancel,         // by user, model or host
  session_ended,  // the engine is being closed
  output_settled  // the drain is over: what was decided may be published
};

enum class TaskAction {
  none,
  decide,          // this event is the outcome; publish when the output has settled
  publish,         // what was decided becomes visible
  decide_publish,  // both at once
  end_survivors,   // changes no state; what lives of the tree is to be ended, after the publication
};

struct TaskStep {
  TaskPhase next;
  TaskAction action;
};

TaskStep step_of(TaskPhase phase, TaskEvent event);

}  // namespace errand
