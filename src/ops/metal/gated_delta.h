// The recurrence of ops/reference/gated_delta.h in one kernel; all arrays f32.
#pragma once

#include "ops/gated_delta.h"

namespace anabranch::ops::metal {

// What delta_scan.metal takes and leaves, for one sequence.
struct DeltaScan {
  mx::array q, k, v;      // [T, Hk, Dk] twice, normalised, and [T, Hv, Dv]
  mx::array decay, beta;  // [T, Hv]
};
struct DeltaScanned {
  mx::array y, delta;  // [T, Hv, Dv]
  mx::array s;         // the new state [Hv, Dk, Dv]
};

// Whether the kernel has room for a head's keys.
bool knows(const GatedDeltaShape& shape);
// folds: entries of the window that are applied for good; open: those on trial before the tokens; advance:
// the tokens are applied for good.
DeltaScanned delta_scan(const DeltaScan& in, const GatedDeltaShape& shape, const GatedDeltaState& state,
                        std::span<const int> folds, int open, bool advance);

}  // namespace anabranch::ops::metal
