// SPDX-License-Identifier: Apache-2.0
#include "repl/jobs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <utility>

namespace errand::repl {

Jobs::Jobs() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Jobs::~Jobs() {
  interrupt();
  join();
}

void Jobs::start(Work work, bool interruptible) {
  auto job = std::make_unique<Job>();
  Job* const place = job.get();
  place->interruptible = interruptible;
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  const auto run = [this, place, work = std::move(work)](std::stop_token stop) {
    finish(*place, work(stop, [&](std::string lines) { return say(*place, stop, std::move(lines)); }));
  };
  try {
    std::jthread thread(run);
    const std::scoped_lock lock(mutex_);
    place->thread = std::move(thread);
  } catch (const std::system_error& error) {
    if (interruptible) {
      finish(*place, std::string("cannot start a thread: ") + error.code().message());
    } else {  // it comes to its end by itself, so it may run here
      run({});
    }
  }
}

bool Jobs::say(Job& job, const std::stop_token& stop, std::string lines) {
  while (!lines.empty() && lines.back() == '\n') lines.pop_back();
  std::unique_lock lock(mutex_);
  if (stop.stop_requested()) return false;
  job.text = std::move(lines);
  job.pending = true;
  wake();
  return job.taken.wait(lock, stop, [&] { return !job.pending; });
}

void Jobs::finish(Job& job, std::string text) {
  const std::scoped_lock lock(mutex_);
  // What it said last and nobody took, since it was to end, comes before.
  job.text = job.pending && !text.empty() ? job.text + '\n' + text : job.pending ? job.text : std::move(text);
  job.pending = !job.text.empty();
  job.done = true;
  wake();
}

void Jobs::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(ready_.get(), &one, sizeof one);
}

void Jobs::heard() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(ready_.get(), &count, sizeof count);
}

std::vector<std::string> Jobs::take() {
  heard();
  std::vector<std::string> texts;
  std::vector<std::unique_ptr<Job>> done;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& job : jobs_) {
      if (!std::exchange(job->pending, false)) continue;
      texts.push_back(std::move(job->text));
      job->taken.notify_all();
    }
    const auto first_done =
        std::stable_partition(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->done; });
    done.assign(std::move_iterator(first_done), std::move_iterator(jobs_.end()));
    jobs_.erase(first_done, jobs_.end());
  }
  for (const auto& job : done) {
    if (job->thread.joinable()) job->thread.join();
  }
  return texts;
}

bool Jobs::empty() const {
  const std::scoped_lock lock(mutex_);
  return jobs_.empty();
}

bool Jobs::interrupt() {
  std::vector<std::stop_source> sources;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& job : jobs_) {
      if (job->interruptible && !job->done && job->thread.joinable()) sources.push_back(job->thread.get_stop_source());
    }
  }
  // Outside of the lock: a stop callback may take it.
  bool any = false;
  for (std::stop_source& source : sources) any = source.request_stop() || any;
  return any;
}

std::vector<std::string> Jobs::join() {
  std::vector<std::unique_ptr<Job>> rest;
  {
    const std::scoped_lock lock(mutex_);
    rest.swap(jobs_);
  }
  std::vector<std::string> texts;
  for (const auto& job : rest) {
    if (job->thread.joinable()) job->thread.join();
    if (job->pending) texts.push_back(std::move(job->text));
  }
  return texts;
}

}  // namespace errand::repl
