// How much memory the engine may use while others on the machine use it too: pure policy, no clock.
//
// When less is free than the reserve, the cache of states gives back what is missing; when that is not
// enough, no request begins, and those that run may grow only by what others of them give back (the scheduler
// preempts). As soon as more than the reserve is free, both grow back into it.
#pragma once

#include <cstdint>

namespace anabranch {

struct MemoryBudgets {
  uint64_t states = 0;  // of running requests
  uint64_t cache = 0;
  bool operator==(const MemoryBudgets&) const = default;
};

class MemoryGuard {
 public:
  // full: budgets while there is memory enough.
  MemoryGuard(const MemoryBudgets& full, uint64_t reserve) : full_(full), now_(full), reserve_(reserve) {}

  // free: bytes that the machine has left, 0 = not known; used: what states and cache take of their budgets.
  const MemoryBudgets& update(uint64_t free, const MemoryBudgets& used);
  const MemoryBudgets& budgets() const { return now_; }
  bool short_of_memory() const { return now_ != full_; }

 private:
  MemoryBudgets full_, now_;
  uint64_t reserve_;
};

}  // namespace anabranch
