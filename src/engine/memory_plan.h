// Memory budgets for running requests and the prefix cache, and the context length that follows from them.
// Planned once, when the model is loaded; memory_guard.h adapts the budgets later.
#pragma once

#include <string>

#include "engine/engine.h"
#include "engine/memory_guard.h"
#include "engine/scheduler.h"
#include "tensor/device.h"

namespace anabranch {

struct MemoryPlan {
  SequenceBytes sequence;    // of one sequence
  MemoryBudgets budgets;     // while there is enough memory
  uint64_t reserve = 0;      // memory that should stay free on the machine
  int context_length = 0;    // the longest that fits for one request
  std::string context_note;  // why it is shorter than the model's own, for messages; empty: it is not
};

// Explains why `weights` bytes should not be loaded when `available` bytes of the machine's memory are free
// (0: unknown), and which size fits. Empty: there is enough memory.
std::string weights_problem(uint64_t weights, uint64_t available);

// Errors: invalid (the budget is too small for one short request).
Result<MemoryPlan> plan_memory(const EngineOptions& options, const ModelInfo& info, const Device& device);

}  // namespace anabranch
