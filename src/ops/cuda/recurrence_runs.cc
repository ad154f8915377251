#include "ops/cuda/recurrence_runs.h"

#include <unordered_set>
#include <utility>

namespace anabranch::ops::cuda {
namespace {

WindowArgs window_args(CudaDevice& on, const char* op, const RecurrenceWindow& w) {
  return {on.data(w.k, op), on.data(w.delta, op), on.data(w.decay, op), on.data(w.rows, op)};
}

// Makes the window writable. A launch must not write entries that it reads, so after a fold the window starts
// again in new memory. A window that a copy of the state shares is copied.
void own_window(CudaDevice& on, const char* op, RecurrenceWindow& w, bool fold,
                std::vector<Tensor>& retired) {
  for (auto* x : {&w.k, &w.delta, &w.decay, &w.rows}) {
    if (!fold && x->is_unshared()) continue;
    Tensor next = fold ? on.empty(x->shape(), Dtype::f32) : on.copy(*x, op);
    retired.push_back(std::exchange(*x, std::move(next)));
  }
}

// Fills in the addresses that the kernels read.
DeltaSpan begin_run(CudaDevice& on, const char* op, const RecurrenceRun& run) {
  const RecurrenceState& state = *run.state;
  DeltaSpan span{};
  span.row = run.begin;
  span.count = run.count;
  span.entry = -1;
  span.s_in = on.data(state.s, op);
  span.conv_in = on.data(state.conv, op);
  span.fold = run.fold;
  span.replay = static_cast<unsigned char>(run.replay);
  if (state.window) span.from = window_args(on, op, *state.window);
  return span;
}

// Fills in the addresses that the kernels write.
void end_run(CudaDevice& on, const char* op, const RecurrenceRun& run, DeltaSpan& span,
             std::vector<Tensor>& retired) {
  RecurrenceState& state = *run.state;
  if (run.draft) {
    own_window(on, op, *state.window, run.fold, retired);
    span.to = window_args(on, op, *state.window);
    span.entry = static_cast<short>(run.entry);
  }
  if (!run.draft || run.fold) {
    if (!state.s.is_unshared()) {  // a snapshot shares it
      retired.push_back(state.s);
      state.s = on.empty(state.s.shape(), Dtype::f32);
    }
    retired.push_back(state.conv);
    state.conv = on.empty(state.conv.shape(), Dtype::f32);
  }
  span.s_out = on.data(state.s, op);
  span.conv_out = on.data(state.conv, op);
}

}  // namespace

DeltaSpan span_of_run(CudaDevice& on, const char* op, const RecurrenceRun& run,
                      std::vector<Tensor>& retired) {
  DeltaSpan span = begin_run(on, op, run);
  end_run(on, op, run, span, retired);
  return span;
}

void carry_out(std::span<const RecurrenceRun> runs,
               const std::function<void(std::span<const RecurrenceRun>)>& together) {
  std::unordered_set<const RecurrenceState*> states;
  states.reserve(runs.size());
  while (!runs.empty()) {
    states.clear();
    size_t count = 0;
    while (count < runs.size() && states.insert(runs[count].state).second) count++;
    together(runs.first(count));
    for (const RecurrenceRun& run : runs.first(count))
      if (run.keep) *run.keep = {run.state->s, run.state->conv, {}};
    runs = runs.subspan(count);
  }
}

}  // namespace anabranch::ops::cuda
