#include "ops/metal/gated_delta.h"

#include <mlx/ops.h>

#include <numeric>

#include "ops/metal/kernel.h"

namespace anabranch::ops::metal {

constexpr int kParts = 8, kMostKeys = 256, kColumns = 32;

bool knows(const GatedDeltaShape& shape) {
  return shape.key_dim % kParts == 0 && shape.key_dim <= kMostKeys;
}

DeltaScanned delta_scan(const DeltaScan& in, const GatedDeltaShape& shape, const GatedDeltaState& state,
                        std::span<const int> folds, int open, bool advance) {
  const int tokens = in.q.shape(0), hk = shape.key_heads, hv = shape.value_heads;
  const int dk = shape.key_dim, dv = shape.value_dim;
  std::vector<int> entries(folds.begin(), folds.end());
  entries.resize(folds.size() + static_cast<size_t>(open));
  std::iota(entries.end() - open, entries.end(), 0);
  const auto gathered = [&](const mx::array& rows) {
    return mx::take(rows, mx::array(entries.data(), {static_cast<int>(entries.size())}), 0);
  };
  const auto none = mx::zeros({8});  // of fewer elements MLX would make another kind of operand
  const bool any = !entries.empty();
  Launch launch;
  launch.kernel = "delta_scan";
  launch.inputs = {{"q", in.q},
                   {"k", in.k},
                   {"v", in.v},
                   {"qk", mx::sum(mx::multiply(in.q, in.k), -1)},
                   {"decay", in.decay},
                   {"beta", in.beta},
                   {"s", state.s},
                   {"entry_k", any ? gathered(state.window->k) : none},
                   {"entry_delta", any ? gathered(state.window->delta) : none},
                   {"entry_decay", any ? gathered(state.window->decay) : none}};
  launch.outputs = {{"y", {tokens, hv, dv}}, {"delta", {tokens, hv, dv}}, {"s_out", state.s.shape()}};
  launch.constants = {{"HK", hk},
                      {"HV", hv},
                      {"DK", dk},
                      {"DV", dv},
                      {"FOLDS", static_cast<int>(folds.size())},
                      {"OPEN", open},
                      {"ADVANCE", advance ? 1 : 0}};
  launch.grid = {(dv + kColumns - 1) / kColumns * kColumns, kParts, hv};
  launch.group = {kColumns, kParts, 1};
  auto out = metal::launch(launch);
  return {out[0], out[1], out[2]};
}

}  // namespace anabranch::ops::metal
