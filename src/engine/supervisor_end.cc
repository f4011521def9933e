// SPDX-License-Identifier: Apache-2.0
// The supervisor's ends: who decides how a task ended, and when its end is published: after the last of its output,
// but not later than the drain allows.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "engine/process_list.h"
#include "engine/supervisor.h"

namespace errand {
namespace {

constexpr std::int64_t kFlushMs = 100;  // an end waits so long for its file; a disk that hangs delays it no longer

}  // namespace

void Supervisor::decide(Live& live, TaskEvent event, const Outcome& outcome) {
  const Serial serial = live.task.serial;
  const TaskTable::Applied applied = table_.apply(serial, event, outcome);
  const std::int64_t now = monotonic_ms();
  timers_.clear(serial, TimerKind::timeout);
  switch (applied.action) {
    case TaskAction::decide:
      live.decided = true;
      live.timed_out = event == TaskEvent::timed_out;
      live.drain_at = now + config_.output_drain.count();
      live.settle_at = now + kSettleMs;
      if (live.timed_out) {
        live.tree_at = now + config_.stop_grace.count() + 5000;
        live.drain_at = live.tree_at;
        send_stop(live);
      }
      break;
    case TaskAction::decide_publish:
      live.published = true;
      break;
    default:
      break;  // decided before, by somebody else
  }
  if (event == TaskEvent::start_failed) {
    tree_gone(live);
    if (live.task.pipe) read_rest(live);
    if (live.task.pipe) close_pipe(live);
  }
  if (applied.action == TaskAction::decide_publish) announce_here(serial);
  // Most often the rest is there already: an end need not wait for the loop to come round.
  if (event == TaskEvent::shell_exited && live.task.pipe && live.pipe_watched) {
    while (live.task.pipe && live.pipe_watched && read_chunk(live)) {
      if (monotonic_ms() > now + 2) break;
    }
  }
  try_publish(live);
}

std::vector<ProcessInfo> Supervisor::survivors_of(const Live& live) const {
  if (live.gone || live.empty || live.none_left_at_exit || !live.task.keeper.channel) return {};
  return living_descendants(live.keeper_pid);
}

bool Supervisor::adopt_survivors(Live& live) {
  const auto adoption = table_.adopt_at_end(live.task.serial);
  if (!adoption) return false;
  OutputFile* const file = adoption->output->file();
  if (file == nullptr) return false;
  file->rename(config_.output_folder + "/" + adoption->id + ".output");
  queue_file(live);
  return true;
}

void Supervisor::try_publish(Live& live) {
  if (!live.decided || live.published) return;
  const Serial serial = live.task.serial;
  const std::int64_t now = monotonic_ms();
  const auto wait_until = [&](std::int64_t at) { timers_.set(serial, TimerKind::settle, at); };

  if (live.timed_out && !live.gone && live.stops_answered == 0 && now < live.tree_at) return wait_until(live.tree_at);
  if (live.task.pipe && now < live.drain_at) return wait_until(live.drain_at);
  if (!live.task.pipe && !live.gone && !live.none_left_at_exit && now < std::min(live.settle_at, live.drain_at)) {
    return wait_until(std::min(live.settle_at, live.drain_at));
  }
  if (live.task.pipe) {
    read_rest(live);
    if (live.published) return;  // the end of file came with it, and this function with that
  }
  OutputFile* const file = live.task.output->file();
  if (file != nullptr && !file->settled()) {
    if (live.flush_at == 0) live.flush_at = now + kFlushMs;
    if (now < live.flush_at) return wait_until(live.flush_at);
  }
  std::vector<ProcessInfo> survivors = survivors_of(live);
  if (!survivors.empty() && live.task.foreground && adopt_survivors(live)) {
    live.flush_at = now + kFlushMs;
    return wait_until(live.flush_at);
  }
  live.published = true;
  live.counts_after_end = true;
  ended_outputs_.keep(live.task.output);
  timers_.clear(serial, TimerKind::settle);
  for (const ProcessInfo& process : survivors) live.survivors.push_back(process.pid);
  const TaskTable::Applied applied = table_.apply(serial, TaskEvent::output_settled, {}, std::move(survivors));
  announce_here(serial);
  if (applied.stop_wanted) send_stop(live);
}

void Supervisor::announce_here(Serial serial) {
  const auto announcement = table_.take_announcement(serial);
  if (!announcement) return;
  if (listener_ != nullptr) {
    if (announcement->started) listener_->on_task_started(announcement->snapshot);
    listener_->on_task_ended(announcement->snapshot);
  }
  table_.announced(serial);
}

}  // namespace errand
