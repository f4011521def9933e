// SPDX-License-Identifier: Apache-2.0
// The engine's end of the zygote: starts it, has it fork keepers, keeps one spare of these ready, and starts a new one
// when it is gone. Usable from any thread.
//
// The spare is refilled late, by the supervisor (after a task's first output, or some idle time): done at once it would
// compete with the task that took it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/fd.h"
#include "base/thread_annotations.h"

namespace errand {

// Why a start failed: `could_not_start_text(step, object, error)` says it.
struct StartError {
  std::string step;
  std::string object;
  int error = 0;
};

// The host's end of a channel: a forked copy of the host holds a copy, so it is shut down, not only closed.
class Channel {
 public:
  Channel() = default;
  explicit Channel(int fd) : fd_(fd) {}
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::move(other.fd_);
    }
    return *this;
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { close(); }
  void close();
  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  UniqueFd fd_;
};

// One life of the zygote process.
struct Zygote {
  std::uint64_t generation = 0;
  Channel control;
  pid_t pid = 0;
  UniqueFd process;  // a pidfd; none when the zygote was gone before it could be had
  std::atomic<int> seen_stopped{0};
  // Asked of the kernel: a death is known at once, not only when the loop has come round to it.
  bool alive() const;
  // Continues it if somebody has stopped it, and kills it if that is so at the second look in a row: the next one
  // serves the starts that wait for it, and its keepers go on by themselves.
  void rouse();
};

struct KeeperChannel {
  Channel channel;
  std::shared_ptr<Zygote> zygote;  // which forked it
};

class ZygoteClient {
 public:
  // `started` is told the generation and the control descriptor of each new zygote, on the thread that started it;
  // -errno from it means that nobody can watch the zygote.
  using Started = std::function<int(std::uint64_t generation, int control_fd)>;

  ZygoteClient(std::string keeper_path, Started started);

  // The spare keeper, or a new one.
  std::variant<KeeperChannel, StartError> take() EXCLUDES(mutex_);
  // A new one even when there is a spare: the spare that take() gave turned out to be dead.
  std::variant<KeeperChannel, StartError> fork_one() EXCLUDES(mutex_);
  // Makes the spare, if there is none. True when there is one afterwards.
  bool refill() EXCLUDES(mutex_);
  bool has_spare() EXCLUDES(mutex_);
  // The control socket of that generation ended. Starts a new one, unless zygotes die as fast as they are started.
  void lost(std::uint64_t generation) EXCLUDES(mutex_);
  // Has the control groups of dead keepers ended, if there are such groups.
  void sweep() EXCLUDES(mutex_);
  // Lets the zygote go: it ends when its last keeper is gone.
  void close() EXCLUDES(mutex_);

 private:
  std::variant<std::shared_ptr<Zygote>, StartError> running_zygote() REQUIRES(mutex_);
  std::variant<std::shared_ptr<Zygote>, StartError> start() REQUIRES(mutex_);
  std::variant<KeeperChannel, StartError> fork_keeper() REQUIRES(mutex_);
  bool spare_waits() const REQUIRES(mutex_);

  const std::string keeper_path_;
  const Started started_;
  Mutex mutex_;
  UniqueFd program_ GUARDED_BY(mutex_);  // the keeper's program, found and opened once
  std::shared_ptr<Zygote> zygote_ GUARDED_BY(mutex_);
  std::uint64_t generation_ GUARDED_BY(mutex_) = 0;
  std::int64_t started_at_ms_ GUARDED_BY(mutex_) = 0;
  int short_lives_ GUARDED_BY(mutex_) = 0;
  KeeperChannel spare_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

// Whether a process stands still because of SIGSTOP and its like, or a debugger.
bool is_stopped(pid_t pid);

// One packet with descriptors. Waits for room, two seconds or `patience_ms`. 0 or errno.
int send_packet(int fd, const void* data, std::size_t size, const int* fds, std::size_t fd_count,
                std::int64_t patience_ms = 2000);

}  // namespace errand
