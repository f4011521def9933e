// SPDX-License-Identifier: Apache-2.0
#include "engine/byte_ring.h"

#include <algorithm>
#include <cstring>

namespace errand {

void ByteRing::append(std::string_view bytes) {
  if (bytes.size() >= capacity_) {
    bytes_.assign(bytes.substr(bytes.size() - capacity_));
    start_ = 0;
    return;
  }
  const std::size_t room = std::min(capacity_ - bytes_.size(), bytes.size());
  if (room > 0) {
    // std::string doubles its allocation; the last step is cut to what the ring may hold.
    if (bytes_.capacity() < bytes_.size() + room) {
      bytes_.reserve(std::min(capacity_, std::max(2 * bytes_.capacity(), bytes_.size() + room)));
    }
    bytes_.append(bytes.substr(0, room));
    bytes.remove_prefix(room);
  }
  while (!bytes.empty()) {
    const std::size_t part = std::min(bytes.size(), capacity_ - start_);
    std::memcpy(bytes_.data() + start_, bytes.data(), part);
    start_ = (start_ + part) % capacity_;
    bytes.remove_prefix(part);
  }
}

std::string ByteRing::contents() const { return bytes_.substr(start_) + bytes_.substr(0, start_); }

void ByteRing::clear() {
  bytes_ = {};
  start_ = 0;
}

}  // namespace errand
