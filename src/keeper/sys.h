// SPDX-License-Identifier: Apache-2.0
// Small things that the zygote and the keepers stand on: a clock, pidfds, and an array that lives in pages of its own.
//
// These processes wait for hours in great numbers, so nothing here uses the heap: an idle keeper shares nearly all its
// pages with the zygote, and what an array held is given back when it is cleared.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace errand::keeper {

inline std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

inline void sleep_us(long microseconds) {
  const timespec pause{microseconds / 1000000, microseconds % 1000000 * 1000};
  ::nanosleep(&pause, nullptr);
}

// glibc 2.36 declares these without extern "C".
inline int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
inline int signal_pidfd(int fd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0));
}

// Grows by mapping, so that neither a fork bomb nor ten thousand keepers meet a limit of ours.
template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Array() = default;
  ~Array() { clear(); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }

  // False when there is no memory; the array is then as it was.
  bool append(const T& item) {
    if (size_ == capacity_ && !grow()) return false;
    items_[size_++] = item;
    return true;
  }
  // The last one takes the place of the one that goes.
  void remove(std::size_t i) { items_[i] = items_[--size_]; }
  void remove_front(std::size_t count) {
    if (count == 0) return;
    size_ -= count;
    for (std::size_t i = 0; i < size_; ++i) items_[i] = items_[i + count];
    if (size_ == 0) clear();
  }
  // Forgets the items and keeps the pages, for the next of many rounds.
  void restart() { size_ = 0; }
  void clear() {
    if (items_ != nullptr) ::munmap(items_, capacity_ * sizeof(T));
    items_ = nullptr;
    size_ = capacity_ = 0;
  }

 private:
  bool grow() {
    const std::size_t wanted = capacity_ == 0 ? 4096 / sizeof(T) : capacity_ * 2;
    void* pages = items_ == nullptr
                      ? ::mmap(nullptr, wanted * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : ::mremap(items_, capacity_ * sizeof(T), wanted * sizeof(T), MREMAP_MAYMOVE);
    if (pages == MAP_FAILED) return false;
    items_ = static_cast<T*>(pages);
    capacity_ = wanted;
    return true;
  }

  T* items_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace errand::keeper
