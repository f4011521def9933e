// SPDX-License-Identifier: Apache-2.0
#include "errand/notification_queue.h"

#include <utility>

namespace errand {

void NotificationQueue::push(Notification notification) {
  append(std::move(notification));
  announce();
}

void NotificationQueue::append(Notification notification) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(notification));
}

void NotificationQueue::announce() {
  std::function<void()> listener;
  {
    const std::lock_guard lock(mutex_);
    listener = listener_;
  }
  if (listener) listener();
}

std::vector<Notification> NotificationQueue::drain() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

bool NotificationQueue::has_pending() const {
  const std::lock_guard lock(mutex_);
  return !pending_.empty();
}

void NotificationQueue::set_listener(std::function<void()> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

}  // namespace errand
