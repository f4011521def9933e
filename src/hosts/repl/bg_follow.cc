// SPDX-License-Identifier: Apache-2.0
#include "repl/bg_follow.h"

#include <fmt/format.h>

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "terminal/text.h"

namespace errand::repl {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFollowPause{100};
// A line without a newline that stands still for so many pauses is shown too: it may be a question, or a code to type.
constexpr int kStill = 10;
// The output ends a moment before the task does: the status that is shown last is worth so much patience.
constexpr milliseconds kEndPatience{250};
constexpr milliseconds kForEver = std::chrono::hours(24 * 365);

std::string heading(const TaskRecord& task) { return fmt::format("=== {} ({}) ===", task.id, to_string(task.status)); }

// The heading as it is at the end of the output.
std::string last_heading(const Engine& engine, const std::string& id) {
  const TaskSnapshot task = engine.wait_end(id, kEndPatience);
  return task ? heading(*task) : std::string();
}

// The last `lines` lines.
std::string_view last_lines(std::string_view text, std::size_t lines) {
  std::size_t at = text.size();
  if (at > 0 && text.back() == '\n') --at;
  for (; at > 0; --at) {
    if (text[at - 1] == '\n' && --lines == 0) break;
  }
  return text.substr(at);
}

// The line that has no newline yet: shown once it stands still, and not again when it is completed unchanged.
class Unfinished {
 public:
  // What is to be shown of it now.
  std::string look(const std::string& line) {
    if (line != last_) {
      last_ = line;
      still_ = 0;
    }
    if (line.empty() || line == shown_ || ++still_ < kStill) return {};
    shown_ = line;
    return line + '\n';
  }
  // Complete lines, the first perhaps the one that was shown.
  std::string_view without_what_was_shown(std::string_view lines) {
    if (lines.empty()) return lines;
    const std::string shown = std::exchange(shown_, {}) + '\n';
    return shown.size() > 1 && lines.starts_with(shown) ? lines.substr(shown.size()) : lines;
  }
  const std::string& shown() const { return shown_; }

 private:
  std::string last_, shown_;
  int still_ = 0;
};

void sleep(milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

std::optional<milliseconds> parse_time(std::string_view text) {
  constexpr std::pair<std::string_view, std::int64_t> units[] = {
      {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(read.ptr - text.data()));
  for (const auto& [name, ms] : units) {
    if (unit == name && number <= kForEver.count() / ms) return milliseconds(number * ms);
  }
  return std::nullopt;
}

std::string wait_for(const Engine& engine, std::vector<std::string> ids, std::optional<milliseconds> time,
                     const std::stop_token& stop) {
  WaitRequest request;
  request.ids = std::move(ids);
  request.timeout = time.value_or(kForEver);
  const WaitResult result = engine.wait(request, stop);
  if (result.end == WaitResult::End::refused) return result.fault;
  std::string text;
  for (const WaitAnswer& answer : result.answers) {
    text += (text.empty() ? "" : "\n") + answer.id + ": " + terminal::plain_text(wait_text(result, answer));
  }
  return text;
}

std::string follow(const Engine& engine, const std::string& id, std::size_t lines, const std::stop_token& stop,
                   const Jobs::Say& say) {
  std::string interrupted = fmt::format("(no longer following {})", id);
  const TaskSnapshot task = engine.get(id);
  std::optional<OutputRead> read = engine.read(id, 0);
  if (!task || !read) return {};
  std::string text = heading(*task);
  if (!read->text.empty()) text += '\n' + terminal::plain_text(last_lines(read->text, lines));
  Unfinished unfinished;
  while (say(std::exchange(text, {}))) {
    while (!read->ended && text.empty()) {
      sleep(kFollowPause, stop);
      if (stop.stop_requested()) return interrupted;
      read = engine.read(id, read->next_cursor);
      if (!read) return {};  // the engine is gone
      if (read->dropped > 0) text = fmt::format("({} bytes dropped)\n", read->dropped);
      text += terminal::plain_text(unfinished.without_what_was_shown(read->text));
      if (text.empty()) text = terminal::plain_text(unfinished.look(read->unfinished));
    }
    if (!read->ended) continue;
    if (read->unfinished != unfinished.shown()) text += terminal::plain_text(read->unfinished);
    if (!text.empty() && text.back() != '\n') text += '\n';
    return text + last_heading(engine, id);
  }
  return interrupted;
}

std::string watch(const Engine& engine, const std::string& id, const std::string& regex, const std::stop_token& stop,
                  const Jobs::Say& say) {
  std::mutex mutex;
  std::condition_variable_any changed;
  bool over = false;
  const auto on_batch = [&](const WatchBatch& batch) {
    // While the screen is busy the engine gathers, and counts what it must drop.
    if (!batch.text.empty()) say(terminal::plain_text(batch.text));
    const std::scoped_lock lock(mutex);
    over = batch.last;
    changed.notify_all();
  };
  auto watched = engine.watch(id, regex, on_batch);
  if (const auto* rejected = std::get_if<Rejected>(&watched)) return terminal::plain_text(rejected->reason);
  std::unique_lock lock(mutex);
  if (!changed.wait(lock, stop, [&] { return over; })) {
    lock.unlock();
    return fmt::format("(no longer watching {})", id);
  }
  lock.unlock();
  return last_heading(engine, id);
}

}  // namespace errand::repl
