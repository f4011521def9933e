// SPDX-License-Identifier: Apache-2.0
#include "support/uuid.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace errand {
namespace {

void fill_random(unsigned char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t got = getrandom(data, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      std::abort();  // no kernel that this runs on lacks it; a predictable name would be worse
    }
    data += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::string hex(const unsigned char* data, std::size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(size * 2 + 4);
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[data[i] >> 4];
    text += kDigits[data[i] & 15];
  }
  return text;
}

}  // namespace

std::string new_uuid() {
  unsigned char bytes[16];
  fill_random(bytes, sizeof bytes);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
  std::string text = hex(bytes, sizeof bytes);
  for (const std::size_t at : {20u, 16u, 12u, 8u}) text.insert(at, 1, '-');
  return text;
}

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  auto* data = reinterpret_cast<unsigned char*>(raw.data());
  fill_random(data, bytes);
  return hex(data, bytes);
}

}  // namespace errand
