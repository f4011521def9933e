// SPDX-License-Identifier: Apache-2.0
// What other threads tell the supervisor: short messages and newly started tasks, with an eventfd that wakes its loop.
// Shared, because a writer thread whose write hangs may outlive the engine.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/thread_annotations.h"
#include "engine/output.h"
#include "engine/start_spec.h"
#include "engine/task_table.h"
#include "engine/zygote_client.h"

namespace errand {

// A task whose keeper has been told to start it.
struct StartedTask {
  Serial serial = 0;
  KeeperChannel keeper;
  UniqueFd pipe;  // non-blocking read end
  std::shared_ptr<Output> output;
  std::optional<std::chrono::milliseconds> timeout;
  bool foreground = false;
  StartSpec spec;  // empty from the shell's start on
};

// Not called Message: that is the conversation's, and two types of one name in a program are one to its templates.
struct MailboxMessage {
  enum class Kind {
    announce,         // the task's end is to be announced
    stop,             // its tree is to be ended
    writer_progress,  // its file got on
    enqueue_file,     // its file has work for the writer
    look,             // somebody wants to see what the tasks are doing
    quit,
  };
  Kind kind = Kind::quit;
  Serial serial = 0;
  std::shared_ptr<Output> output;  // enqueue_file
};

class Mailbox {
 public:
  // 0 or errno.
  int open() {
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return wake_ ? 0 : errno;
  }
  int wake_fd() const { return wake_.get(); }

  void post(MailboxMessage message) EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      messages_.push_back(std::move(message));
      if (std::exchange(woken_, true)) return;
    }
    wake();
  }
  // Does not wake: the task's descriptors are in the epoll set already, and their events do.
  void add(StartedTask task) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    started_.push_back(std::move(task));
  }

  std::vector<StartedTask> take_started() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::exchange(started_, {});
  }
  std::vector<MailboxMessage> take_messages() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (std::exchange(woken_, false)) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
    }
    return std::exchange(messages_, {});
  }

 private:
  void wake() {
    const std::uint64_t one = 1;
    while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  UniqueFd wake_;
  Mutex mutex_;
  std::vector<MailboxMessage> messages_ GUARDED_BY(mutex_);
  std::vector<StartedTask> started_ GUARDED_BY(mutex_);
  bool woken_ GUARDED_BY(mutex_) = false;  // the eventfd is, or is about to be, readable
};

}  // namespace errand
