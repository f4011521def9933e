// SPDX-License-Identifier: Apache-2.0
// The supervisor's looks at the trees: what they use, and which survivors are left.
#include <utility>

#include "base/clock.h"
#include "engine/process_list.h"
#include "engine/supervisor.h"

namespace errand {
namespace {

constexpr std::int64_t kLookEveryMs = 10'000;
constexpr std::int64_t kLookEveryMsWhenSeen = 1'000;
constexpr std::int64_t kSeenForMs = 3'000;  // after the last time that somebody looked
constexpr std::int64_t kSliceUs = 1'500;    // then the loop goes round
constexpr std::int64_t kBetweenSlicesMs = 1;

}  // namespace

void Supervisor::somebody_looks(bool now) {
  const std::int64_t time = monotonic_ms();
  const std::int64_t before = looked_at_ms_.exchange(time);
  if ((now || time - before > kSeenForMs) && running()) mailbox_->post({MailboxMessage::Kind::look, 0, nullptr});
}

void Supervisor::plan_look() {
  if (timers_.is_set(0, TimerKind::look)) return;
  const bool seen = monotonic_ms() - looked_at_ms_ < kSeenForMs;
  timers_.set(0, TimerKind::look, monotonic_ms() + (seen ? kLookEveryMsWhenSeen : kLookEveryMs));
}

void Supervisor::look() {
  if (!sampler_.busy()) {
    std::vector<SampleSubject> subjects;
    for (const auto& [serial, live] : lives_) {
      if (live->keeper_pid > 0 && !live->gone && live->task.keeper.channel)
        subjects.push_back({serial, live->keeper_pid});
    }
    if (subjects.empty()) return lives_.empty() ? void() : plan_look();
    sampler_.begin(std::move(subjects));
  }
  if (!sampler_.go_on(kSliceUs)) return timers_.set(0, TimerKind::look, monotonic_ms() + kBetweenSlicesMs);
  for (const Sample& sample : sampler_.take()) {
    const auto it = lives_.find(sample.serial);
    if (it != lives_.end()) on_sample(*it->second, sample);
  }
  if (!lives_.empty()) plan_look();
}

void Supervisor::on_sample(Live& live, const Sample& sample) {
  if (live.gone || !live.task.keeper.channel) return;  // meanwhile; its pids may be others' by now
  table_.add_usage(live.task.serial, sample.cpu_seconds, sample.rss_bytes);
  // A stop that is under way says itself what it left.
  if (!live.published || live.stops_sent > live.stops_answered || sample.living == live.survivors) return;
  std::vector<ProcessInfo> survivors = living_descendants(live.keeper_pid);
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : survivors) pids.push_back(process.pid);
  if (pids == live.survivors) return;  // somebody was on the way while the look was taken
  live.survivors = std::move(pids);
  const TaskSnapshot changed = table_.set_survivors(live.task.serial, std::move(survivors));
  if (changed && listener_ != nullptr) listener_->on_task_changed(changed);
}

}  // namespace errand
