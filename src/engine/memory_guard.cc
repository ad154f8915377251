#include "engine/memory_guard.h"

#include <algorithm>

namespace anabranch {

const MemoryBudgets& MemoryGuard::update(uint64_t free, const MemoryBudgets& used) {
  if (free == 0) return now_;
  if (free < reserve_) {
    const uint64_t missing = reserve_ - free, from_cache = std::min(missing, used.cache);
    now_.cache = used.cache - from_cache;
    if (missing > from_cache) now_.states = std::clamp<uint64_t>(used.states, 1, now_.states);
  } else {
    // Each may grow by half of the spare memory, so that both together stay above the reserve.
    const uint64_t more = (free - reserve_) / 2;
    const auto grow = [&](uint64_t& budget, uint64_t taken, uint64_t most) {
      budget = std::min(most, std::max(budget, taken + more));
    };
    grow(now_.states, used.states, full_.states);
    grow(now_.cache, used.cache, full_.cache);
  }
  return now_;
}

}  // namespace anabranch
