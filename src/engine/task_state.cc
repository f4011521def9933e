// SPDX-License-Identifier: Apache-2.0
#include "engine/task_state.h"

#include <cstddef>

namespace errand {
namespace {

using enum TaskPhase;
using enum TaskAction;

constexpr std::size_t kPhases = 3;
constexpr std::size_t kEvents = 7;

// Rows are events, columns are phases: running, decided, ended.
constexpr TaskStep kTable[kEvents][kPhases] = {
    /* shell_exited   */ {{decided, decide}, {decided, none}, {ended, none}},
    /* start_failed   */ {{ended, decide_publish}, {decided, none}, {ended, none}},
    /* timed_out      */ {{decided, decide}, {decided, end_survivors}, {ended, none}},
    /* keeper_lost    */ {{decided, decide}, {decided, none}, {ended, none}},
    /* cancel         */ {{ended, decide_publish}, {decided, end_survivors}, {ended, end_survivors}},
    /* session_ended  */ {{ended, decide_publish}, {decided, end_survivors}, {ended, end_survivors}},
    /* output_settled */ {{running, none}, {ended, publish}, {ended, none}},
};

}  // namespace

TaskStep step_of(TaskPhase phase, TaskEvent event) {
  return kTable[static_cast<std::size_t>(event)][static_cast<std::size_t>(phase)];
}

}  // namespace errand
