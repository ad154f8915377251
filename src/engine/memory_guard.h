// Adapts the engine's memory budgets to what other programs use: pure policy, no clock.
//
// When less memory is free than the reserve, the prefix cache shrinks by the missing amount. If that is not
// enough, the budget of running requests is frozen: no request is admitted, and one may grow only as another
// gives memory back (the scheduler preempts). Once more than the reserve is free, both budgets grow again.
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
  // full: the budgets while there is enough memory.
  MemoryGuard(const MemoryBudgets& full, uint64_t reserve) : full_(full), now_(full), reserve_(reserve) {}

  // free: free bytes of the machine, 0: unknown. used: memory that states and cache take now.
  const MemoryBudgets& update(uint64_t free, const MemoryBudgets& used);
  const MemoryBudgets& budgets() const { return now_; }
  bool short_of_memory() const { return now_ != full_; }

 private:
  MemoryBudgets full_, now_;
  uint64_t reserve_;
};

}  // namespace anabranch
