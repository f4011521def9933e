// SPDX-License-Identifier: Apache-2.0
#include "census.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "proc.h"

namespace errand::keeper {
namespace {

constexpr std::int64_t kPatienceNs = 3000000000;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

}  // namespace

bool Census::share() {
  file_.reset(::memfd_create("errand-census", MFD_CLOEXEC));
  if (!file_ || ::ftruncate(file_.get(), sizeof(Page)) != 0) return false;
  void* pages = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(), 0);
  if (pages == MAP_FAILED) return false;
  page_ = static_cast<Page*>(pages);
  return true;
}

bool Census::take(Array<Seen>& out) {
  const std::int64_t asked = now_ns();
  for (long pause_us = 1000; page_ != nullptr; pause_us = std::min(pause_us * 2, 20000L)) {
    if (copy_if_begun_after(asked, out)) return true;
    if (lock(true)) {
      // The last reader may have left one meanwhile.
      bool readable = copy_if_begun_after(asked, out);
      if (!readable) {
        const std::int64_t begun = now_ns();
        readable = read_proc(out);
        if (readable) publish(begun, out);
      }
      lock(false);
      return readable;
    }
    if (now_ns() > asked + kPatienceNs) break;
    sleep_us(pause_us);
  }
  return read_proc(out);
}

bool Census::read_proc(Array<Seen>& out) {
  out.restart();
  const bool readable = each_process([&](pid_t pid) {
    Stat stat;
    if (read_stat(pid, stat)) out.append({pid, stat.parent, stat.state, stat.threads > 1});
  });
  std::sort(out.begin(), out.end(), [](const Seen& a, const Seen& b) { return a.parent < b.parent; });
  return readable;
}

bool Census::copy_if_begun_after(std::int64_t moment_ns, Array<Seen>& out) {
  const std::uint32_t version = page_->version.load();
  if (version % 2 != 0 || page_->begun_ns.load() <= moment_ns) return false;
  const std::uint32_t count = page_->count;
  if (count > kMost) return false;
  out.restart();
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!out.append(page_->seen[i])) return false;
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return page_->version.load() == version;
}

// Under the lock. A writer that was killed leaves an odd version: the next one goes on from there.
void Census::publish(std::int64_t begun_ns, const Array<Seen>& seen) {
  if (seen.size() > kMost) return;
  const std::uint32_t version = page_->version.load() | 1U;
  page_->version.store(version);
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(page_->seen, seen.begin(), seen.size() * sizeof(Seen));
  page_->count = static_cast<std::uint32_t>(seen.size());
  page_->begun_ns.store(begun_ns);
  page_->version.store(version + 1);
}

bool Census::lock(bool on) {
  struct flock range{};
  range.l_type = on ? F_WRLCK : F_UNLCK;
  range.l_whence = SEEK_SET;
  return ::fcntl(file_.get(), F_SETLK, &range) == 0;
}

}  // namespace errand::keeper
