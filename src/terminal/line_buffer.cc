// SPDX-License-Identifier: Apache-2.0
#include "terminal/line_buffer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "terminal/text.h"

namespace errand::terminal {
namespace {

constexpr std::size_t max_history = 1000;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

std::size_t word_before(std::string_view text, std::size_t from) {
  while (from > 0 && is_space(text[from - 1])) --from;
  while (from > 0 && !is_space(text[from - 1])) --from;
  return from;
}

std::size_t word_after(std::string_view text, std::size_t from) {
  while (from < text.size() && is_space(text[from])) ++from;
  while (from < text.size() && !is_space(text[from])) ++from;
  return from;
}

}  // namespace

void LineBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
  place_ = history_.size();
  draft_.clear();
}

std::string LineBuffer::take() {
  std::string text = std::move(text_);
  set({});
  return text;
}

void LineBuffer::insert(std::string_view text) {
  const std::string clean = clean_utf8(text);
  text_.insert(cursor_, clean);
  cursor_ += clean.size();
  // What was typed may have joined the cluster after it (a combining mark before nothing, a joiner): go to its end.
  std::size_t border = line_begin();
  while (border < cursor_) border += cluster_length(std::string_view(text_).substr(border));
  cursor_ = border;
}

bool LineBuffer::apply(const Key& key) {
  const std::string_view text = text_;
  switch (key.code) {
    case KeyCode::text:
    case KeyCode::paste:
      insert(key.text);
      return true;
    case KeyCode::newline:
      insert("\n");
      return true;
    case KeyCode::backspace:
      erase(cursor_ - last_cluster_length(text.substr(0, cursor_)), cursor_);
      return true;
    case KeyCode::remove:
      erase(cursor_, cursor_ + cluster_length(text.substr(cursor_)));
      return true;
    case KeyCode::left:
      cursor_ -= last_cluster_length(text.substr(0, cursor_));
      return true;
    case KeyCode::right:
      cursor_ += cluster_length(text.substr(cursor_));
      return true;
    case KeyCode::word_left:
      cursor_ = word_before(text, cursor_);
      return true;
    case KeyCode::word_right:
      cursor_ = word_after(text, cursor_);
      return true;
    case KeyCode::home:
      cursor_ = line_begin();
      return true;
    case KeyCode::end:
      cursor_ = line_end();
      return true;
    case KeyCode::kill_to_end: {
      const std::size_t end = line_end();
      erase(cursor_, end > cursor_ ? end : std::min(end + 1, text.size()));
      return true;
    }
    case KeyCode::kill_to_start:
      erase(line_begin(), cursor_);
      return true;
    case KeyCode::kill_word:
      erase(word_before(text, cursor_), cursor_);
      return true;
    case KeyCode::up:
      move_vertically(-1);
      return true;
    case KeyCode::down:
      move_vertically(1);
      return true;
    default:
      return false;
  }
}

void LineBuffer::remember(const std::string& line) {
  if (!line.empty() && (history_.empty() || history_.back() != line)) history_.push_back(line);
  if (history_.size() > max_history) history_.erase(history_.begin());
  place_ = history_.size();
  draft_.clear();
}

std::size_t LineBuffer::line_begin() const {
  const std::size_t newline = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

std::size_t LineBuffer::line_end() const { return std::min(text_.find('\n', cursor_), text_.size()); }

void LineBuffer::erase(std::size_t from, std::size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

// Within a text of several lines the cursor moves; at its borders the history does.
void LineBuffer::move_vertically(int direction) {
  const std::string_view text = text_;
  const std::size_t begin = line_begin();
  const int column = text_width(text.substr(begin, cursor_ - begin));
  if (direction < 0 ? begin > 0 : line_end() < text.size()) {
    std::size_t target = 0;
    if (direction > 0) {
      target = line_end() + 1;
    } else if (begin > 1) {
      const std::size_t newline = text.rfind('\n', begin - 2);
      target = newline == std::string_view::npos ? 0 : newline + 1;
    }
    int at = 0;
    while (target < text.size() && text[target] != '\n' && at < column) {
      const std::size_t length = cluster_length(text.substr(target));
      at += cluster_width(text.substr(target, length));
      target += length;
    }
    cursor_ = target;
    return;
  }
  if (direction < 0 && place_ > 0) recall(place_ - 1);
  if (direction > 0 && place_ < history_.size()) recall(place_ + 1);
}

void LineBuffer::recall(std::size_t place) {
  if (place_ == history_.size()) draft_ = text_;
  text_ = place == history_.size() ? draft_ : history_[place];
  place_ = place;
  cursor_ = text_.size();
}

}  // namespace errand::terminal
