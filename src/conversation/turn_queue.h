// SPDX-License-Identifier: Apache-2.0
// What waits for a turn: one first-in-first-out queue for the user's messages, his `!` commands and the notices of
// ended tasks, and the state machine that says when something is taken from it. The conversation's thread drives it;
// the caller holds its mutex around every call, and brings the clock.
//
// - Idle, a waking notice opens a window of 50 ms, fixed from the first one; all notices that have come when it closes
//   go into one turn. A message of the user inside the window starts the turn at once, notices first.
// - Running (a turn or a `!cmd`), everything waits. At the end of a turn the notices fold into a further pass of it,
//   before messages that were queued earlier; the window holds there too, so that two tasks that end together share a
//   request also when the turn ends between them.
// - A quiet notice (of a task that the user started by hand, or when there is no model) wakes nothing; it goes with the
//   next turn, whatever starts that. An abort makes quiet what is pending.
// - A task whose end a tool result has shown to the model is told of no more, also when its notice comes later.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conversation/message.h"

namespace errand {

enum class QueueState {
  idle,         // nothing runs; what is pending starts nothing
  dispatching,  // something pending will start a turn as soon as its window is over
  running,      // a turn or a `!cmd` runs
};
enum class QueueInput {
  starter,  // something that starts a turn was queued: a message, a `!cmd`, a waking notice
  quiet,    // a notice that starts nothing was queued
  begin,    // a turn was taken
  drained,  // the last thing that would have started a turn is gone
  end,      // the turn is over
  abort,    // the user wants nothing to happen by itself
};
inline constexpr int kQueueStates = 3;
inline constexpr int kQueueInputs = 6;

// The state machine's table. Nothing: the input cannot happen in this state, and changes nothing.
std::optional<QueueState> next_state(QueueState state, QueueInput input);

class TurnQueue {
 public:
  struct Options {
    bool has_model = true;  // without one no notice wakes
    bool wake_for_user_tasks = false;
    std::int64_t window_ms = 50;
  };
  // What one turn starts with: notices and perhaps a message, or one `!cmd` alone.
  struct Turn {
    std::vector<TaskNotificationBlock> notices;  // in order of completion
    std::optional<std::string> message;
    std::optional<std::string> bang;
  };

  explicit TurnQueue(Options options) : options_(options) {}

  QueueState state() const { return state_; }
  bool aborted() const { return aborted_; }  // the running turn was aborted

  void add_message(std::string text);
  void add_bang(std::string command);
  // False when the model has been shown this end already: the notice is not queued, the caller records it as read.
  // `ended_ms` is when the task ended: what ended before an abort is quiet, however late its notice comes.
  bool add_notice(TaskNotificationBlock notice, bool by_hand, std::int64_t ended_ms);

  // When there will be something to take: begin() while dispatching, fold() while running. May lie in the past.
  // Nothing: only a change can make something due. While a question to the user is open nothing is.
  std::optional<std::int64_t> due() const;

  // Takes the next turn. Empty unless the state is dispatching and due() has come.
  std::optional<Turn> begin(std::int64_t now_ms);
  // At the end of a turn: the notices for a further pass. Empty unless due() has come; always empty once aborted.
  std::vector<TaskNotificationBlock> fold(std::int64_t now_ms);
  void end();

  // Makes every pending notice quiet and gives back the queued messages and `!cmd`s, in order. A running turn is marked
  // and has still to be end()ed; one that was about to start does not. False in `was_active` when there was neither.
  std::vector<std::string> abort(bool& was_active, std::int64_t now_ms);

  // The model has been shown that these tasks ended. Their pending notices leave the queue and are returned.
  std::vector<TaskNotificationBlock> mark_shown(const std::vector<std::string>& task_ids);

  void set_question_open(bool open) { question_open_ = open; }

  // The user's items as he typed them, `!cmd`s with their `!`, in order.
  std::vector<std::string> queued() const;
  bool has_notices() const;

 private:
  struct UserMessage {
    std::string text;
  };
  struct Bang {
    std::string command;
  };
  struct Notice {
    TaskNotificationBlock block;
    bool wakes = false;
    std::int64_t ended_ms = 0;
  };
  using Item = std::variant<UserMessage, Bang, Notice>;

  void apply(QueueInput input);
  bool has_starter() const;
  // The end of the window of the first waking notice.
  std::optional<std::int64_t> window_end() const;
  const Item* first_of_user() const;
  std::vector<TaskNotificationBlock> take_notices();

  Options options_;
  QueueState state_ = QueueState::idle;
  bool aborted_ = false;
  std::int64_t aborted_ms_ = std::numeric_limits<std::int64_t>::min();
  bool question_open_ = false;
  std::deque<Item> items_;
  std::set<std::string, std::less<>> shown_;  // of tasks whose notice had not come yet
};

}  // namespace errand
