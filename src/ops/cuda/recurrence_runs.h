// What the launches for runs of recurrent layers have in common: which memory of the states they read and
// write.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/recurrence.h"

namespace anabranch::ops::cuda {

// The addresses that kernels read and write for a run. Afterwards the state's tensors are those that hold it
// after the launches. `retired` receives tensors that the launches read and the state no longer refers to, so
// that no other run of the launches reuses their memory: it must live until the last launch.
DeltaSpan span_of_run(CudaDevice& on, const char* op, const RecurrenceRun& run, std::vector<Tensor>& retired);

// Calls `together` for runs of different states, so that runs of the same state are carried out one after the
// other. Then the runs' `keep` receives the states.
void carry_out(std::span<const RecurrenceRun> runs,
               const std::function<void(std::span<const RecurrenceRun>)>& together);

}  // namespace anabranch::ops::cuda
