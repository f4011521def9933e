// SPDX-License-Identifier: Apache-2.0
// What a waiting thread sleeps on when several things may wake it: the table, a task's output, a stop request. Waking
// takes a lock under which nothing else is locked, so it may be done under any other lock.
#pragma once

#include <chrono>

#include "base/thread_annotations.h"

namespace errand {

class Wake {
 public:
  void set() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }

  // Returns when it is set, or at the deadline. It is unset afterwards: what is looked at next is newer.
  void wait_until(std::chrono::steady_clock::time_point deadline) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!set_) {
      if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
    }
    set_ = false;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool set_ GUARDED_BY(mutex_) = false;
};

}  // namespace errand
