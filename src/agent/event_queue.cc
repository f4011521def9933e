// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "agent/events.h"

namespace errand::event {

Queue::Queue() : ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!ready_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

void Queue::push(HostEvent event) {
  const MutexLock lock(mutex_);
  events_.push_back(std::move(event));
  // Under the lock, so that a drain between the two cannot leave the descriptor readable with nothing queued.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(ready_.get(), &one, sizeof one);
}

std::vector<HostEvent> Queue::drain() {
  const MutexLock lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(ready_.get(), &count, sizeof count);
  std::vector<HostEvent> events(std::make_move_iterator(events_.begin()), std::make_move_iterator(events_.end()));
  events_.clear();
  return events;
}

int Queue::descriptor() const { return ready_.get(); }

}  // namespace errand::event
