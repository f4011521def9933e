// SPDX-License-Identifier: Apache-2.0
#include "engine/output.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/task_text.h"

namespace errand {
namespace {

void replay(LineListener& listener, std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t newline = lines.find('\n');
    listener.on_line(lines.substr(0, newline));
    lines.remove_prefix(newline + 1);
  }
}

}  // namespace

Output::Output(std::size_t max_retained, std::unique_ptr<OutputFile> file)
    : max_retained_(max_retained), file_(std::move(file)), lines_(max_retained) {}

// --- the reader loop's side ---

OutputFile::Appended Output::append(std::string_view bytes, std::size_t chunk, bool after_end) {
  if (!bytes.empty()) {
    const MutexLock lock(mutex_);
    if (!view_) view_ = std::make_unique<View>();
    view_->feed(bytes, *this);
    bytes_ += bytes.size();
    if (after_end) bytes_after_end_ += bytes.size();
    last_at_ms_ = wall_ms();
    last_at_monotonic_ms_ = monotonic_ms();
    if (!listeners_.empty() && view_->unfinished()) {
      const std::string text = view_->unfinished_text();
      for (const auto& listener : listeners_) listener->on_unfinished(text);
    }
  }
  return file_ ? file_->append(bytes, chunk) : OutputFile::Appended{};
}

// Called by the view within append(), which holds the lock.
void Output::plain_lines(std::string_view lines) {
  lines_.add_plain(lines);
  for (const auto& listener : listeners_) replay(*listener, lines);
}

void Output::line(std::string_view text, std::uint64_t raw_bytes, bool cut) {
  lines_.add(text, raw_bytes);
  lines_cut_ = lines_cut_ || cut;
  for (const auto& listener : listeners_) listener->on_line(text);
}

void Output::finish() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(finished_, true)) return;
    if (view_) view_->finish();
    if (view_ && view_->unfinished()) last_line_ = view_->unfinished_text(&lines_cut_);
    if (view_ && last_line_ && !listeners_.empty()) {
      for (const auto& listener : listeners_) listener->on_unfinished(*last_line_);
    }
    view_ = nullptr;
    lines_.shrink();
    for (const auto& listener : listeners_) listener->on_end();
    listeners_ = {};
  }
  if (file_) file_->finish();
}

void Output::reading_failed(int error) {
  const MutexLock lock(mutex_);
  read_error_ = error;
}

std::size_t Output::retained_bytes() const {
  const MutexLock lock(mutex_);
  return lines_.size() + (last_line_ ? last_line_->size() : 0);
}

void Output::free_memory() {
  const MutexLock lock(mutex_);
  if (finished_) truncated_before_free_ = truncated();
  lines_.drop();
  lines_.shrink();
  if (!finished_) return;  // what survivors print is retained anew
  last_line_.reset();
  freed_ = bytes_ > 0;
}

// --- reading ---

std::optional<SavedOutput> Output::saved() const {
  if (!freed_) return std::nullopt;
  return SavedOutput(file_ ? file_->layout() : OutputFile::Layout{}, bytes_, lines_.end(), max_retained_);
}

std::string Output::unfinished(bool* cut) const {
  if (view_) return view_->unfinished_text(cut);
  return last_line_.value_or(std::string());
}

bool Output::truncated() const {
  // What was freed is in the file, unless that is not the whole.
  if (freed_) return truncated_before_free_ || !file_ || file_->unwritten_bytes() > 0;
  if (lines_.begin() > 0) return true;
  const std::size_t most = view_ ? view_->most_unfinished_text() : last_line_ ? last_line_->size() : 0;
  return lines_.size() + most > max_retained_ && shown(0).dropped;
}

Output::Shown Output::shown(std::uint64_t after) const {
  Shown shown;
  shown.lines_cut = lines_cut_;
  shown.unfinished = unfinished(&shown.lines_cut);
  const std::size_t whole = shown.unfinished.size();
  shown.unfinished = utf8_suffix(shown.unfinished, max_retained_);
  // The last line takes room that complete lines may have filled.
  const std::size_t room = max_retained_ - shown.unfinished.size();
  shown.lines = lines_.text(after, room, shown.begin);
  shown.dropped = whole > shown.unfinished.size() || shown.begin > after;
  return shown;
}

OutputTail Output::tail(std::size_t lines) const {
  std::optional<SavedOutput> file;
  OutputTail tail;
  {
    const MutexLock lock(mutex_);
    file = saved();
    if (!file) {
      Shown all = shown(0);
      tail.truncated = all.dropped;
      tail.lines_cut = all.lines_cut;
      all.lines += all.unfinished;
      tail.text = last_lines(all.lines, lines);
    }
  }
  return file ? file->tail(lines) : tail;
}

OutputRead Output::read(std::uint64_t cursor) const {
  std::optional<SavedOutput> file;
  OutputRead read;
  {
    const MutexLock lock(mutex_);
    file = saved();
    if (!file) {
      Shown found = shown(cursor);
      read.next_cursor = lines_.end();
      read.ended = finished_;
      if (cursor < found.begin) read.dropped = found.begin - cursor;
      read.text = std::move(found.lines);
      read.unfinished = std::move(found.unfinished);
    }
  }
  return file ? file->read(cursor) : read;
}

void Output::listen(std::shared_ptr<LineListener> listener) {
  std::optional<SavedOutput> file;
  {
    const MutexLock lock(mutex_);
    file = saved();
    if (!file) {
      const Shown all = shown(0);
      replay(*listener, all.lines);
      if (view_ ? view_->unfinished() : last_line_.has_value()) listener->on_unfinished(all.unfinished);
      if (!finished_) return listeners_.push_back(std::move(listener));
    }
  }
  if (file) {
    const std::string text = file->tail(0).text;
    const std::size_t lines = text.rfind('\n') + 1;
    replay(*listener, std::string_view(text).substr(0, lines));
    if (lines < text.size()) listener->on_unfinished(std::string_view(text).substr(lines));
  }
  listener->on_end();
}

void Output::unlisten(const LineListener* listener) {
  const MutexLock lock(mutex_);
  std::erase_if(listeners_, [&](const auto& one) { return one.get() == listener; });
}

std::size_t Output::listeners() const {
  const MutexLock lock(mutex_);
  return listeners_.size();
}

void Output::describe(TaskRecord& record) const {
  int read_error = 0;
  {
    const MutexLock lock(mutex_);
    record.output_bytes = bytes_;
    record.output_bytes_after_end = bytes_after_end_;
    record.output_truncated = truncated();
    record.last_output_at_ms = last_at_ms_;
    read_error = read_error_;
    if (last_at_ms_) record.last_output_age_ms = monotonic_ms() - last_at_monotonic_ms_;
  }
  if (file_) {
    record.output_file = file_->path();
    record.output_unwritten_bytes = file_->unwritten_bytes();
    record.output_error = file_->error();
  } else {
    record.output_unwritten_bytes = record.output_bytes;
  }
  if (read_error != 0) record.output_error = "read: " + errno_text(read_error);
}

std::string_view last_lines(std::string_view text, std::size_t lines) {
  if (lines == 0 || text.empty()) return text;
  std::size_t at = text.size() - (text.back() == '\n' ? 1 : 0);
  for (std::size_t seen = 0; at > 0; --at) {
    if (text[at - 1] == '\n' && ++seen == lines) break;
  }
  return text.substr(at);
}

}  // namespace errand
