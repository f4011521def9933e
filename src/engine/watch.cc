// SPDX-License-Identifier: Apache-2.0
#include "engine/watch.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread_annotations.h"
#include "base/utf8.h"
#include "engine/paced_pattern.h"
#include "engine/signal_block.h"
#include "engine/task_text.h"

namespace errand {
namespace {

using std::chrono::steady_clock;

// A note on lines that are not there, with the longest number.
constexpr std::size_t kNoteSpace = 60;

std::string dropped_note(std::uint64_t count) {
  return "(" + std::to_string(count) + (count == 1 ? " matching line" : " matching lines") + " dropped)\n";
}

std::string passed_over_note(std::uint64_t count) {
  return "(slow pattern: " + std::to_string(count) + (count == 1 ? " line" : " lines") + " passed over)\n";
}

}  // namespace

void WatchQueue::push(std::string_view line) {
  // A line that no batch can hold is cut: the view's own limit is below this.
  std::string text = cut_middle(line, WatchBatch::kMaxCharacters - 2 * kNoteSpace);
  text += '\n';
  const std::size_t characters = utf8_length(text);
  characters_ += characters;
  lines_.push_back({std::move(text), characters});
  while (characters_ > WatchBatch::kMaxQueued) {
    characters_ -= lines_.front().characters;
    lines_.pop_front();
    ++dropped_;
  }
}

WatchBatch WatchQueue::take() {
  WatchBatch batch;
  std::size_t room = WatchBatch::kMaxCharacters;
  if (dropped_ > 0) {
    batch.dropped = std::exchange(dropped_, 0);
    batch.text = dropped_note(batch.dropped);
    room -= batch.text.size();
  }
  if (passed_over_ > 0) {
    batch.passed_over = std::exchange(passed_over_, 0);
    const std::string note = passed_over_note(batch.passed_over);
    batch.text += note;
    room -= note.size();
  }
  while (!lines_.empty() && lines_.front().characters <= room) {
    room -= lines_.front().characters;
    characters_ -= lines_.front().characters;
    batch.text += lines_.front().text;
    ++batch.lines;
    lines_.pop_front();
  }
  return batch;
}

namespace {

// Filled by the reader loop, emptied by the watch's thread.
class Gatherer : public LineListener {
 public:
  explicit Gatherer(LinePattern pattern) : pattern_(std::make_shared<const LinePattern>(std::move(pattern))) {}

  void on_line(std::string_view text) override {
    unfinished_.clear();
    take(text);
  }
  void on_unfinished(std::string_view text) override { unfinished_ = text; }
  void on_end() override {
    if (!unfinished_.empty()) take(std::exchange(unfinished_, {}));
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void stop() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  // The next batch, when its time has come; nothing when it was stopped.
  std::optional<WatchBatch> next() EXCLUDES(mutex_) {
    for (;;) {
      const bool more = look_aside();
      const MutexLock lock(mutex_);
      if (stopped_) return std::nullopt;
      const auto now = steady_clock::now();
      const bool due = !queue_.empty() && now >= due_;
      if (due || (ended_ && !more)) {
        WatchBatch batch = queue_.take();
        batch.last = ended_ && !more && queue_.empty();
        due_ = now + WatchBatch::kGather;
        return batch;
      }
      if (more || pattern_.any_aside()) continue;
      if (queue_.empty()) {
        changed_.wait(mutex_);
      } else {
        changed_.wait_until(mutex_, due_);
      }
    }
  }

 private:
  void take(std::string_view text) EXCLUDES(mutex_) {
    const auto found = pattern_.look(text);
    if (found == PacedPattern::Found::no) return;
    const MutexLock lock(mutex_);
    if (found == PacedPattern::Found::yes) push(text);
    changed_.notify_all();
  }
  void push(std::string_view text) REQUIRES(mutex_) {
    if (queue_.empty()) due_ = std::max(due_, steady_clock::now() + WatchBatch::kGather);
    queue_.push(text);
  }
  // On the watch's thread: one of the lines of a slow pattern. True when there may be more.
  bool look_aside() EXCLUDES(mutex_) {
    std::optional<std::string> match;
    const bool looked = pattern_.look_aside(match);
    const std::uint64_t passed_over = pattern_.take_passed_over();
    if (!match && passed_over == 0) return looked;
    const MutexLock lock(mutex_);
    if (passed_over > 0) {
      if (queue_.empty()) due_ = std::max(due_, steady_clock::now() + WatchBatch::kGather);
      queue_.passed_over(passed_over);
    }
    if (match) push(*match);
    return looked;
  }

  PacedPattern pattern_;
  std::string unfinished_;  // the reader loop's
  Mutex mutex_;
  CondVar changed_;
  WatchQueue queue_ GUARDED_BY(mutex_);
  steady_clock::time_point due_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace

class Watch::Impl {
 public:
  Impl(std::shared_ptr<Output> output, LinePattern pattern, WatchCallback callback)
      : output_(std::move(output)),
        gatherer_(std::make_shared<Gatherer>(std::move(pattern))),
        callback_(std::move(callback)) {}
  ~Impl() {
    if (!thread_.joinable()) return;
    output_->unlisten(gatherer_.get());
    gatherer_->stop();
    thread_.join();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // May throw std::system_error: no thread is to be had.
  void start() {
    {
      const SignalBlock blocked;
      thread_ = std::thread([this] { run(); });
    }
    output_->listen(gatherer_);
  }
  bool ended() const { return ended_; }

 private:
  void run() {
    ::pthread_setname_np(::pthread_self(), "errand-watch");
    while (const auto batch = gatherer_->next()) {
      callback_(*batch);
      if (!batch->last) continue;
      ended_ = true;
      return;
    }
  }

  const std::shared_ptr<Output> output_;
  const std::shared_ptr<Gatherer> gatherer_;
  const WatchCallback callback_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

std::variant<Watch, Rejected> watch_output(std::shared_ptr<Output> output, LinePattern pattern,
                                           WatchCallback callback) {
  auto impl = std::make_unique<Watch::Impl>(std::move(output), std::move(pattern), std::move(callback));
  try {
    impl->start();
  } catch (const std::system_error& error) {
    return Rejected{"cannot start a thread: " + errno_text(error.code().value())};
  }
  return Watch(std::move(impl));
}

Watch::Watch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Watch::Watch(Watch&&) noexcept = default;
Watch& Watch::operator=(Watch&&) noexcept = default;
Watch::~Watch() = default;
bool Watch::ended() const { return impl_ == nullptr || impl_->ended(); }

}  // namespace errand
