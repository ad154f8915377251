// What running requests and the cache of states may take, and so how long a context may be: planned once,
// when the model is loaded. memory_guard.h follows what happens then.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/memory_guard.h"
#include "engine/scheduler.h"
#include "tensor/device.h"

namespace anabranch {

struct MemoryPlan {
  SequenceBytes sequence;    // of one sequence
  MemoryBudgets budgets;     // while there is memory enough
  uint64_t reserve = 0;      // what the machine should have left
  int context_length = 0;    // that one request can have
  std::string context_note;  // why it is shorter than the model's, for messages; empty: it is not
};

// Error: invalid (the budget does not hold one short request).
Result<MemoryPlan> plan_memory(const EngineOptions& options, const ModelInfo& info, const Device& device);

}  // namespace anabranch
