// SPDX-License-Identifier: Apache-2.0
#include "conversation/turn_queue.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace errand {
namespace {

using S = QueueState;
using Cell = std::optional<QueueState>;
constexpr Cell kRefused = std::nullopt;

constexpr Cell kTable[kQueueStates][kQueueInputs] = {
    //                 starter         quiet           begin        drained     end        abort
    /* idle        */ {S::dispatching, S::idle, kRefused, kRefused, kRefused, S::idle},
    /* dispatching */ {S::dispatching, S::dispatching, S::running, S::idle, kRefused, S::idle},
    /* running     */ {S::running, S::running, kRefused, S::running, S::idle, S::running},
};

// Due since ever.
constexpr std::int64_t kAtOnce = std::numeric_limits<std::int64_t>::min();

}  // namespace

std::optional<QueueState> next_state(QueueState state, QueueInput input) {
  return kTable[static_cast<int>(state)][static_cast<int>(input)];
}

void TurnQueue::apply(QueueInput input) {
  if (const auto next = next_state(state_, input)) state_ = *next;
}

void TurnQueue::add_message(std::string text) {
  items_.emplace_back(UserMessage{std::move(text)});
  apply(QueueInput::starter);
}

void TurnQueue::add_bang(std::string command) {
  items_.emplace_back(Bang{std::move(command)});
  apply(QueueInput::starter);
}

bool TurnQueue::add_notice(TaskNotificationBlock notice, bool by_hand, std::int64_t ended_ms) {
  if (const auto shown = shown_.find(notice.task_id); shown != shown_.end()) {
    shown_.erase(shown);
    return false;
  }
  const bool wakes = options_.has_model && (!by_hand || options_.wake_for_user_tasks) && ended_ms > aborted_ms_;
  items_.emplace_back(Notice{std::move(notice), wakes, ended_ms});
  apply(wakes ? QueueInput::starter : QueueInput::quiet);
  return true;
}

std::optional<std::int64_t> TurnQueue::window_end() const {
  for (const Item& item : items_) {
    if (const auto* notice = std::get_if<Notice>(&item); notice && notice->wakes) {
      return notice->ended_ms + options_.window_ms;
    }
  }
  return std::nullopt;
}

const TurnQueue::Item* TurnQueue::first_of_user() const {
  for (const Item& item : items_) {
    if (!std::holds_alternative<Notice>(item)) return &item;
  }
  return nullptr;
}

bool TurnQueue::has_starter() const { return first_of_user() != nullptr || window_end().has_value(); }

std::optional<std::int64_t> TurnQueue::due() const {
  if (question_open_) return std::nullopt;
  if (state_ == QueueState::running) return aborted_ ? std::nullopt : window_end();
  if (state_ != QueueState::dispatching) return std::nullopt;
  const Item* user = first_of_user();
  if (user && std::holds_alternative<UserMessage>(*user)) return kAtOnce;
  // A `!cmd` makes no request, so it cannot take the notices before it along: they get their turn first.
  for (const Item& item : items_) {
    if (std::holds_alternative<Bang>(item)) return kAtOnce;
    if (const auto* notice = std::get_if<Notice>(&item); notice && notice->wakes) return window_end();
  }
  return std::nullopt;
}

std::vector<TaskNotificationBlock> TurnQueue::take_notices() {
  std::vector<TaskNotificationBlock> notices;
  std::deque<Item> rest;
  for (Item& item : items_) {
    if (auto* notice = std::get_if<Notice>(&item)) {
      notices.push_back(std::move(notice->block));
    } else {
      rest.push_back(std::move(item));
    }
  }
  items_ = std::move(rest);
  return notices;
}

std::optional<TurnQueue::Turn> TurnQueue::begin(std::int64_t now_ms) {
  const auto at = due();
  if (state_ != QueueState::dispatching || !at || *at > now_ms) return std::nullopt;
  Turn turn;
  const Item* user = first_of_user();
  const bool message = user && std::holds_alternative<UserMessage>(*user);
  const bool bang_first = !message && *at == kAtOnce;
  if (!bang_first) turn.notices = take_notices();
  if (message || bang_first) {
    const auto it = std::find_if(items_.begin(), items_.end(),
                                 [](const Item& item) { return !std::holds_alternative<Notice>(item); });
    if (message) {
      turn.message = std::move(std::get<UserMessage>(*it).text);
    } else {
      turn.bang = std::move(std::get<Bang>(*it).command);
    }
    items_.erase(it);
  }
  apply(QueueInput::begin);
  return turn;
}

std::vector<TaskNotificationBlock> TurnQueue::fold(std::int64_t now_ms) {
  const auto at = due();
  if (state_ != QueueState::running || !at || *at > now_ms) return {};
  return take_notices();
}

void TurnQueue::end() {
  if (state_ != QueueState::running) return;
  aborted_ = false;
  apply(QueueInput::end);
  if (has_starter()) apply(QueueInput::starter);
}

std::vector<std::string> TurnQueue::abort(bool& was_active, std::int64_t now_ms) {
  aborted_ms_ = now_ms;
  was_active = state_ != QueueState::idle;
  std::vector<std::string> returned = queued();
  std::erase_if(items_, [](const Item& item) { return !std::holds_alternative<Notice>(item); });
  for (Item& item : items_) std::get<Notice>(item).wakes = false;
  if (state_ == QueueState::running) aborted_ = true;
  apply(QueueInput::abort);
  return returned;
}

std::vector<TaskNotificationBlock> TurnQueue::mark_shown(const std::vector<std::string>& task_ids) {
  std::vector<TaskNotificationBlock> dropped;
  for (const std::string& id : task_ids) {
    const auto it = std::find_if(items_.begin(), items_.end(), [&](const Item& item) {
      const auto* notice = std::get_if<Notice>(&item);
      return notice && notice->block.task_id == id;
    });
    if (it == items_.end()) {
      shown_.insert(id);
    } else {
      dropped.push_back(std::move(std::get<Notice>(*it).block));
      items_.erase(it);
    }
  }
  if (!dropped.empty() && !has_starter()) apply(QueueInput::drained);
  return dropped;
}

std::vector<std::string> TurnQueue::queued() const {
  std::vector<std::string> texts;
  for (const Item& item : items_) {
    if (const auto* message = std::get_if<UserMessage>(&item)) texts.push_back(message->text);
    if (const auto* bang = std::get_if<Bang>(&item)) texts.push_back("!" + bang->command);
  }
  return texts;
}

bool TurnQueue::has_notices() const {
  return std::any_of(items_.begin(), items_.end(),
                     [](const Item& item) { return std::holds_alternative<Notice>(item); });
}

}  // namespace errand
