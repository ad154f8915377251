// The recurrence of ops/reference/recurrence.h in one kernel; all arrays f32.
#pragma once

#include "ops/metal/kernel.h"
#include "ops/recurrence.h"

namespace anabranch::ops::metal {

// Inputs of the recurrence for the tokens of one sequence.
struct DeltaTokens {
  mx::array q, k, v;      // [T, Hk, Dk] twice, normalised, and [T, Hv, Dv]
  mx::array decay, beta;  // [T, Hv]
};
// Entries of a window, in order: [n, Hk * Dk], [n, Hv * Dv] and [n, Hv].
struct DeltaEntries {
  mx::array k, delta, decay;
};
struct DeltaScanned {
  mx::array y, delta;  // [T, Hv, Dv]
  mx::array s;         // the new state [Hv, Dk, Dv]
};

// Whether the kernel supports the size of a head's keys.
bool has_delta_scan(const RecurrenceShape& shape);
// Applies the entries to s, then the tokens. fold: the new state includes the entries; advance: it includes
// entries and tokens.
DeltaScanned delta_scan(const Launcher& launcher, const RecurrenceShape& shape, const mx::array& s,
                        const DeltaEntries& entries, const DeltaTokens& tokens, bool fold, bool advance);

}  // namespace anabranch::ops::metal
