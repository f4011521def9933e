// SPDX-License-Identifier: Apache-2.0
// A mutex whose use clang checks at compile time (-Wthread-safety): state says which mutex guards it, functions say
// which one they need. Other compilers see plain std::mutex.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ERRAND_ANNOTATE(x) __attribute__((x))
#else
#define ERRAND_ANNOTATE(x)
#endif

#define GUARDED_BY(x) ERRAND_ANNOTATE(guarded_by(x))
#define PT_GUARDED_BY(x) ERRAND_ANNOTATE(pt_guarded_by(x))
#define REQUIRES(...) ERRAND_ANNOTATE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) ERRAND_ANNOTATE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) ERRAND_ANNOTATE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) ERRAND_ANNOTATE(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS ERRAND_ANNOTATE(no_thread_safety_analysis)

namespace errand {

class ERRAND_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ERRAND_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex itself, which its caller holds before and after; conditions are re-checked in the caller's loop,
// where the analysis sees that the lock is held.
using CondVar = std::condition_variable_any;

}  // namespace errand
