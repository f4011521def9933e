// SPDX-License-Identifier: Apache-2.0
// The supervisor's reading: what tasks print, into their tails and files. A disk that is slow slows its task only.
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "engine/supervisor.h"

namespace errand {
namespace {

// A task that prints much gets a wider pipe: woken at every write of it the loop would take the processor from the very
// writer, for a few bytes each time. Not wider than the processor's cache likes, unless nothing goes into the file any
// longer: such a flood is also let print for a moment before the next read.
constexpr std::uint64_t kMuch = 256 * 1024;  // bytes, after which the pipe is made wider
constexpr std::size_t kWidePipe = 256 * 1024;
constexpr std::size_t kFloodPipe = 1024 * 1024;

}  // namespace

void Supervisor::read_pipe(Live& live) {
  if (!live.task.pipe || !live.pipe_watched) return;
  if (live.pipe_size < kWidePipe) {
    quiet_events_ = true;
    read_chunk(live);
    return;
  }
  live.batching = true;
  live.file_due = false;
  const std::uint64_t begin = live.read_bytes;
  while (live.task.pipe && live.pipe_watched && live.read_bytes - begin < live.pipe_size) {
    const std::uint64_t before = live.read_bytes;
    if (!read_chunk(live) || live.read_bytes - before < kChunk) break;
  }
  live.batching = false;
  if (live.file_due) {
    quiet_events_ = true;
    queue_file(live);  // once a round: the writer is woken less often, and for more
  } else if (live.pipe_size == kFloodPipe) {
    flooded_ += live.read_bytes - begin;
  }
}

bool Supervisor::read_chunk(Live& live) {
  const ssize_t got = ::read(live.task.pipe.get(), chunk_.data(), kChunk);
  if (got < 0) {
    if (errno == EINTR) return true;
    if (errno == EAGAIN || errno == ENOMEM) return false;  // the loop comes round to it again
    live.task.output->reading_failed(errno);
  }
  if (got <= 0) {
    if (live.heard || !live.task.keeper.channel) {
      close_pipe(live);
    } else {
      // A keeper that dies before it has read its order takes the pipe along, and the start may be made anew with
      // another one: what this end means, the keeper's next word or its own end says.
      epoll_.remove(live.task.pipe.get());
      live.ended_early = true;
    }
    return false;
  }
  live.read_bytes += static_cast<std::uint64_t>(got);
  const OutputFile::Appended appended =
      live.task.output->append({chunk_.data(), static_cast<std::size_t>(got)}, kChunk, live.counts_after_end);
  if (live.counts_after_end) ended_outputs_.keep(live.task.output);
  if (live.read_bytes >= kMuch) widen_pipe(live, appended.work ? kWidePipe : kFloodPipe);
  live.file_due = appended.work;
  if (appended.work && !live.batching) queue_file(live);
  if (!appended.room && live.pipe_watched) pause_pipe(live);
  // After the output is there for its readers: the zygote's fork competes with them for the processor.
  if (!std::exchange(live.printed, true) && timers_.is_set(0, TimerKind::spare)) refill_spare();
  return true;
}

void Supervisor::widen_pipe(Live& live, std::size_t size) {
  if (size <= live.wanted_pipe_size) return;
  live.wanted_pipe_size = size;
  // Refused when the user's pipes take too much as it is.
  if (::fcntl(live.task.pipe.get(), F_SETPIPE_SZ, static_cast<int>(size)) >= 0) live.pipe_size = size;
}

void Supervisor::read_rest(Live& live) {
  constexpr int kFullPipe = 4;  // chunks: the largest pipe that the kernel gives everybody
  for (int i = 0; i < kFullPipe && live.task.pipe; ++i) {
    // The end is not delayed for a disk: what its buffer cannot take goes to the tail only.
    if (!live.pipe_watched) live.task.output->file()->give_up_on_writer("write: slower than the task's end");
    if (!read_chunk(live)) break;
  }
}

void Supervisor::close_pipe(Live& live) {
  live.task.pipe.reset();
  timers_.clear(live.task.serial, TimerKind::unblock);
  live.task.output->finish();
  ended_outputs_.keep(live.task.output);
  // Closing a file that is complete is left for later: the pipe's end is most often just before the shell's.
  OutputFile* const file = live.task.output->file();
  if (file != nullptr && !file->settled()) queue_file(live);
  live.settle_at = monotonic_ms() + kSettleMs;
  table_.output_ended(live.task.serial);
  try_publish(live);
}

void Supervisor::pause_pipe(Live& live) {
  epoll_.remove(live.task.pipe.get());
  live.pipe_watched = false;
  timers_.set(live.task.serial, TimerKind::unblock,
              live.task.output->file()->last_progress_ms() + FileWriter::kStuckMs);
}

void Supervisor::resume_pipe(Live& live) {
  timers_.clear(live.task.serial, TimerKind::unblock);
  if (!live.task.pipe || live.pipe_watched) return;
  if (epoll_.add(live.task.pipe.get(), EPOLLIN, key_of(live.task.serial, Source::pipe)) == 0) {
    live.pipe_watched = true;
  } else {
    timers_.set(live.task.serial, TimerKind::unblock, monotonic_ms() + 100);  // no memory just now
  }
}

void Supervisor::queue_file(Live& live) { look_after_writers(writer_->enqueue(live.task.serial, live.task.output)); }

void Supervisor::look_after_writers(std::int64_t at_ms) {
  if (!timers_.is_set(0, TimerKind::writers)) timers_.set(0, TimerKind::writers, at_ms);
}

}  // namespace errand
