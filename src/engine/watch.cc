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
#include "engine/signal_block.h"
#include "engine/task_text.h"

namespace errand {
namespace {

using std::chrono::steady_clock;

// The note on dropped lines, with the longest number.
constexpr std::size_t kNoteSpace = 60;

std::string dropped_note(std::uint64_t count) {
  return "(" + std::to_string(count) + (count == 1 ? " matching line" : " matching lines") + " dropped)\n";
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
  explicit Gatherer(LinePattern pattern) : pattern_(std::move(pattern)) {}

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
    const MutexLock lock(mutex_);
    while (!stopped_ && !ended_ && (queue_.empty() || steady_clock::now() < due_)) {
      if (queue_.empty()) {
        changed_.wait(mutex_);
      } else {
        changed_.wait_until(mutex_, due_);
      }
    }
    if (stopped_) return std::nullopt;
    WatchBatch batch = queue_.take();
    batch.last = ended_ && queue_.empty();
    due_ = steady_clock::now() + WatchBatch::kGather;
    return batch;
  }

 private:
  void take(std::string_view text) EXCLUDES(mutex_) {
    if (!pattern_.matches(text)) return;
    const MutexLock lock(mutex_);
    if (queue_.empty()) due_ = std::max(due_, steady_clock::now() + WatchBatch::kGather);
    queue_.push(text);
    changed_.notify_all();
  }

  const LinePattern pattern_;
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
