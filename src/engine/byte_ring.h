// SPDX-License-Identifier: Apache-2.0
// The last N bytes of a stream. Memory grows with what came, up to N, so that a quiet stream costs nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace errand {

class ByteRing {
 public:
  explicit ByteRing(std::size_t capacity) : capacity_(capacity) {}

  void append(std::string_view bytes);
  // What is kept, oldest first.
  std::string contents() const;
  std::size_t size() const { return bytes_.size(); }
  void clear();

 private:
  std::size_t capacity_;
  std::string bytes_;
  std::size_t start_ = 0;  // of the oldest byte, once the ring is full
};

}  // namespace errand
