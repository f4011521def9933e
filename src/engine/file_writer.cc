// SPDX-License-Identifier: Apache-2.0
#include "engine/file_writer.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <deque>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "engine/signal_block.h"

namespace errand {

// Shared with the threads, which may outlive the writer while a write hangs.
struct FileWriter::State {
  struct Job {
    std::uint64_t serial = 0;
    std::shared_ptr<Output> output;
  };
  struct Worker {
    bool alive = false;
    std::int64_t busy_since_ms = 0;  // 0: idle
    std::shared_ptr<Output> at;      // what it works on
  };

  Mutex mutex;
  CondVar changed;
  Progress progress GUARDED_BY(mutex);
  std::deque<Job> queue GUARDED_BY(mutex);
  std::unordered_set<const Output*> queued GUARDED_BY(mutex);  // in the queue
  std::unordered_set<const Output*> taken GUARDED_BY(mutex);   // a thread works on it; a new job for it waits for that
  std::array<Worker, kMaxThreads> workers GUARDED_BY(mutex);
  std::int64_t worked_ms GUARDED_BY(mutex) = 0;  // when a piece of work was done last
  bool stopping GUARDED_BY(mutex) = false;

  // A worker hangs when neither it nor its file got on for long.
  static bool stuck(const Worker& worker, std::int64_t now_ms) {
    if (!worker.alive || worker.busy_since_ms == 0) return false;
    return now_ms - std::max(worker.busy_since_ms, worker.at->file()->last_progress_ms()) >= kTakeOverMs;
  }
  bool take(Job& job) REQUIRES(mutex) {
    for (auto it = queue.begin(); it != queue.end(); ++it) {
      if (taken.contains(it->output.get())) continue;
      job = std::move(*it);
      queue.erase(it);
      queued.erase(job.output.get());
      taken.insert(job.output.get());
      return true;
    }
    return false;
  }
};

FileWriter::FileWriter(Progress progress) : state_(std::make_shared<State>()) {
  const MutexLock lock(state_->mutex);
  state_->progress = std::move(progress);
}

FileWriter::~FileWriter() { stop(0); }

std::int64_t FileWriter::enqueue(std::uint64_t serial, std::shared_ptr<Output> output) {
  const std::int64_t look_at = monotonic_ms() + kTakeOverMs / 2;
  bool first = false;
  {
    const MutexLock lock(state_->mutex);
    if (state_->stopping) return look_at;
    if (!state_->queued.insert(output.get()).second) return look_at;
    state_->queue.push_back({serial, std::move(output)});
    first = std::none_of(state_->workers.begin(), state_->workers.end(), [](const auto& w) { return w.alive; });
  }
  if (first && !start_thread()) return monotonic_ms() + kNoThreadMs;
  state_->changed.notify_one();
  return look_at;
}

std::int64_t FileWriter::look_after(std::int64_t now_ms) {
  {
    const MutexLock lock(state_->mutex);
    bool busy = !state_->queue.empty();
    bool all_hang = true;
    for (const State::Worker& worker : state_->workers) {
      busy = busy || worker.busy_since_ms != 0;
      all_hang = all_hang && (!worker.alive || State::stuck(worker, now_ms));
    }
    if (!busy) return 0;
    if (!all_hang || state_->queue.empty() || state_->stopping) return now_ms + kTakeOverMs / 2;
  }
  return now_ms + (start_thread() ? kTakeOverMs / 2 : kNoThreadMs);
}

std::int64_t FileWriter::progress_ms(const Output& output) const {
  std::int64_t last = output.file()->last_progress_ms();
  const MutexLock lock(state_->mutex);
  if (state_->taken.contains(&output)) return last;
  last = std::max(last, state_->worked_ms);
  for (const State::Worker& worker : state_->workers) {
    if (worker.alive && worker.at) last = std::max(last, worker.at->file()->last_progress_ms());
  }
  return last;
}

// True also when there are as many as there may be.
bool FileWriter::start_thread() {
  const MutexLock lock(state_->mutex);
  for (int i = 0; i < kMaxThreads; ++i) {
    State::Worker& worker = state_->workers[static_cast<std::size_t>(i)];
    if (worker.alive) continue;
    // No thread to be had: the next look tries again; until then the buffers hold what there is.
    try {
      const SignalBlock blocked;
      std::thread([state = state_, i] { run(state, i); }).detach();
      worker.alive = true;
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }
  return true;
}

void FileWriter::run(const std::shared_ptr<State>& state, int index) {
  ::pthread_setname_np(::pthread_self(), "errand-writer");
  const auto self = static_cast<std::size_t>(index);
  std::string spare;
  for (;;) {
    State::Job job;
    {
      const MutexLock lock(state->mutex);
      while (!state->take(job)) {
        // Another thread that is not stuck does the work: the one that took over is not needed any longer.
        const std::int64_t now = monotonic_ms();
        bool other = false;
        for (std::size_t i = 0; i < self; ++i) {
          other = other || (state->workers[i].alive && !State::stuck(state->workers[i], now));
        }
        if (state->stopping || other) {
          state->workers[self] = {};
          state->changed.notify_all();
          return;
        }
        state->changed.wait(state->mutex);
      }
      state->workers[self].busy_since_ms = monotonic_ms();
      state->workers[self].at = job.output;
    }
    const bool more = job.output->file()->work(spare);
    const bool awaited = job.output->file()->awaited();
    Progress progress;
    {
      const MutexLock lock(state->mutex);
      state->workers[self].busy_since_ms = 0;
      state->worked_ms = monotonic_ms();
      state->workers[self].at = nullptr;
      state->taken.erase(job.output.get());
      if (more && state->queued.insert(job.output.get()).second) state->queue.push_back(job);
      // A job that came for this file meanwhile was passed over by the others.
      if (!state->queue.empty()) state->changed.notify_one();
      progress = state->progress;
    }
    if (progress && awaited) progress(job.serial);
  }
}

void FileWriter::stop(std::int64_t wait_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  const auto alive = [this]() NO_THREAD_SAFETY_ANALYSIS {
    return std::any_of(state_->workers.begin(), state_->workers.end(), [](const auto& w) { return w.alive; });
  };
  std::deque<State::Job> left;
  {
    const MutexLock lock(state_->mutex);
    state_->stopping = true;
    state_->changed.notify_all();
    if (!alive() && wait_ms > 0) left = std::exchange(state_->queue, {});
  }
  for (const State::Job& job : left) {
    while (std::chrono::steady_clock::now() < deadline && job.output->file()->work()) {
    }
  }
  const MutexLock lock(state_->mutex);
  while (alive() && state_->changed.wait_until(state_->mutex, deadline) == std::cv_status::no_timeout) {
  }
  state_->progress = nullptr;
}

}  // namespace errand
