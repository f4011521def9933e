// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace errand {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

// Up to here the trees are walked one by one: what else runs on the machine then costs nothing.
constexpr std::size_t kFewTrees = 16;
constexpr int kProcessesBetweenClocks = 8;

}  // namespace

void Sampler::begin(std::vector<SampleSubject> subjects, std::optional<Way> way) {
  take();
  subjects_ = std::move(subjects);
  samples_.resize(subjects_.size());
  ticks_.assign(subjects_.size(), 0);
  for (std::size_t i = 0; i < subjects_.size(); ++i) {
    samples_[i].serial = subjects_[i].serial;
    by_keeper_[subjects_[i].keeper] = i;
  }
  way_ = way.value_or(proc::has_children_files() && subjects_.size() <= kFewTrees ? Way::children : Way::scan);
}

void Sampler::read_keeper(std::size_t subject) {
  const auto stat = proc::read_stat(subjects_[subject].keeper);
  if (!stat) return;
  ticks_[subject] = stat->reaped_ticks;
  if (way_ == Way::scan) return;
  for (const pid_t child : proc::children_of(subjects_[subject].keeper)) see(child, subject);
}

void Sampler::see(pid_t pid, std::size_t subject) {
  if (by_keeper_.contains(pid) || by_pid_.contains(pid)) return;
  const auto stat = proc::read_stat(pid);
  if (!stat) return;
  by_pid_[pid] = seen_.size();
  Seen seen;
  seen.pid = pid;
  seen.parent = stat->parent;
  seen.start_ticks = stat->start_ticks;
  seen.ticks = stat->own_ticks + stat->reaped_ticks;
  seen.rss_bytes = stat->rss_bytes;
  seen.living = !stat->dead() && !stat->past_exit();
  seen.subject = subject;
  seen_.push_back(seen);
}

bool Sampler::walk_on() {
  if (walked_ == seen_.size()) return false;
  const Seen parent = seen_[walked_++];
  for (const pid_t child : proc::children_of(parent.pid)) see(child, parent.subject);
  return true;
}

bool Sampler::scan_on() {
  if (!directory_) directory_.reset(::opendir("/proc"));
  while (const dirent* entry = directory_ ? ::readdir(directory_.get()) : nullptr) {
    const auto pid = proc::parse<pid_t>(entry->d_name);
    if (!pid) continue;
    see(*pid, kNone);
    return true;
  }
  return false;
}

bool Sampler::go_on(std::int64_t budget) {
  const auto until = steady_clock::now() + microseconds(budget);
  for (int done = 0;; ++done) {
    if (done == kProcessesBetweenClocks) {
      if (steady_clock::now() >= until) return false;
      done = 0;
    }
    if (keepers_read_ < subjects_.size()) {
      read_keeper(keepers_read_++);
    } else if (!(way_ == Way::children ? walk_on() : scan_on())) {
      return true;
    }
  }
}

void Sampler::find_subject(std::size_t index) {
  // Up to the keeper, or to somebody whose subject is known. Pids may run in a circle when one was reused meanwhile.
  std::size_t subject = kNone;
  bool ordered = true;
  std::size_t at = index;
  for (std::size_t steps = 0; steps <= seen_.size(); ++steps) {
    const auto keeper = by_keeper_.find(seen_[at].parent);
    if (keeper != by_keeper_.end()) {
      subject = keeper->second;
      break;
    }
    const auto parent = by_pid_.find(seen_[at].parent);
    if (parent == by_pid_.end()) break;
    at = parent->second;
    ordered = ordered && at < index;
  }
  seen_[index].subject = subject;
  seen_[index].after_its_parents = ordered;
}

void Sampler::count() {
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    if (way_ == Way::scan) find_subject(i);
    const Seen& seen = seen_[i];
    if (seen.subject == kNone) continue;
    if (!seen.after_its_parents) {
      // A parent that was read later may have reaped it in between, unless it is still there.
      const auto now = proc::read_stat(seen.pid);
      if (!now || now->start_ticks != seen.start_ticks) continue;
    }
    ticks_[seen.subject] += seen.ticks;
    if (!seen.living) continue;
    samples_[seen.subject].rss_bytes += seen.rss_bytes;
    samples_[seen.subject].living.push_back(seen.pid);
  }
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    samples_[i].cpu_seconds = proc::seconds_of(ticks_[i]);
    std::sort(samples_[i].living.begin(), samples_[i].living.end());
  }
}

std::vector<Sample> Sampler::take() {
  count();
  subjects_.clear();
  ticks_.clear();
  keepers_read_ = walked_ = 0;
  directory_.reset();
  seen_ = {};  // with its memory: a look is rare
  by_pid_ = {};
  by_keeper_ = {};
  return std::exchange(samples_, {});
}

Sample Sampler::look_at(const SampleSubject& subject) {
  Sampler sampler;
  sampler.begin({subject});
  while (!sampler.go_on(1'000'000)) {
  }
  return std::move(sampler.take().front());
}

}  // namespace errand
