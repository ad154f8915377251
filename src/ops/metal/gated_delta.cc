#include "ops/metal/gated_delta.h"

#include <mlx/ops.h>

namespace anabranch::ops::metal {

constexpr int kParts = 8, kMostKeys = 256, kColumns = 32;

bool has_delta_scan(const RecurrenceShape& shape) {
  return shape.is_gated_delta() && shape.key_dim % kParts == 0 && shape.key_dim <= kMostKeys;
}

DeltaScanned delta_scan(const Launcher& launcher, const RecurrenceShape& shape, const mx::array& s,
                        const DeltaEntries& entries, const DeltaTokens& tokens, bool fold, bool advance) {
  const int count = tokens.q.shape(0), entry_count = entries.k.shape(0);
  const int hk = shape.key_heads, hv = shape.value_heads, dk = shape.key_dim, dv = shape.value_dim;
  const auto none = mx::zeros({8});  // with fewer elements MLX would make another kind of operand
  const auto operand = [&](const mx::array& rows) { return entry_count > 0 ? rows : none; };
  Launch launch;
  launch.kernel = "delta_scan";
  launch.inputs = {{"q", tokens.q},
                   {"k", tokens.k},
                   {"v", tokens.v},
                   {"qk", mx::sum(mx::multiply(tokens.q, tokens.k), -1)},
                   {"decay", tokens.decay},
                   {"beta", tokens.beta},
                   {"s", s},
                   {"entry_k", operand(entries.k)},
                   {"entry_delta", operand(entries.delta)},
                   {"entry_decay", operand(entries.decay)}};
  launch.outputs = {{"y", {count, hv, dv}}, {"delta", {count, hv, dv}}, {"s_out", s.shape()}};
  launch.constants = {{"HK", hk},
                      {"HV", hv},
                      {"DK", dk},
                      {"DV", dv},
                      {"FOLDS", fold ? entry_count : 0},
                      {"OPEN", fold ? 0 : entry_count},
                      {"ADVANCE", advance ? 1 : 0}};
  launch.grid = {(dv + kColumns - 1) / kColumns * kColumns, kParts, hv};
  launch.group = {kColumns, kParts, 1};
  auto out = launcher(launch);
  return {out[0], out[1], out[2]};
}

}  // namespace anabranch::ops::metal
