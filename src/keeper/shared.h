// SPDX-License-Identifier: Apache-2.0
// What the zygote and its keepers know of each other: a mapping that all of them share.
//
// When the host is gone each keeper ends its tree within its own grace, which is up to a minute. The zygote shoots
// keepers that do not come to an end (stopped ones, say), so it must know how long each may take, and a keeper that was
// stopped when the host died must not count its grace from the moment it wakes.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "sys.h"

namespace errand::keeper {

struct Shared {
  // Only pages that are used exist. Keepers beyond these have no slot and may take kLongestGraceMs.
  static constexpr std::uint32_t kSlots = 65536;
  static constexpr std::uint32_t kNoSlot = ~0U;
  static constexpr std::uint32_t kLongestGraceMs = 60000;

  std::atomic<std::int64_t> host_gone_ms;
  std::atomic<std::uint32_t> grace_ms[kSlots];

  static Shared* make() {
    void* pages =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? nullptr : static_cast<Shared*>(pages);
  }
  // The moment at which the first of us saw that the host is gone.
  std::int64_t host_gone() {
    std::int64_t seen = 0;
    const std::int64_t now = now_ms();
    return host_gone_ms.compare_exchange_strong(seen, now) ? now : seen;
  }
  std::uint32_t grace(std::uint32_t slot) const { return slot < kSlots ? grace_ms[slot].load() : kLongestGraceMs; }
  void set_grace(std::uint32_t slot, std::uint32_t value) {
    if (slot < kSlots) grace_ms[slot].store(value < kLongestGraceMs ? value : kLongestGraceMs);
  }
};

}  // namespace errand::keeper
