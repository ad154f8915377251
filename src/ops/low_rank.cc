#include "ops/low_rank.h"

#include <array>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

void require_rows(const char* op, int begin, int count, int rows) {
  require(begin >= 0 && count >= 0 && begin <= rows - count, op, "{} rows from row {} on are not among {}.",
          count, begin, rows);
}

void require_part(const char* op, const Tensor& y, const LowRankRows& part) {
  require_f32(op, "z", part.z, 3);
  require_f32(op, "up", part.up, 2);
  const int rank = part.up.shape(1);
  require(rank > 0, op, "the rank is 0, but must be at least 1.");
  require(part.z.shape(0) > 0, op, "z has no pieces, but must have at least 1.");
  require_shape(op, "z", part.z, {part.z.shape(0), part.count, part.z.shape(2)});
  require(part.first >= 0 && part.first <= part.z.shape(2) - rank, op,
          "{} columns from column {} on are not among z's {}.", rank, part.first, part.z.shape(2));
  require_shape(op, "up", part.up, {y.shape(1), rank});
  require_rows(op, part.begin, part.count, y.shape(0));
  require(&part.z.device() == &y.device() && &part.up.device() == &y.device(), op,
          "a part is on another device than y.");
}

void require_outputs(const char* op, std::span<const LowRankOutput> outputs) {
  require(outputs.size() <= kMaxLinearWeights, op, "{} outputs, but at most {} are possible.", outputs.size(),
          kMaxLinearWeights);
  for (const LowRankOutput& output : outputs) {
    require_f32(op, "y", output.y, 2);
    require(output.y.shape(0) == outputs.front().y.shape(0), op, "outputs have {} and {} rows.",
            outputs.front().y.shape(0), output.y.shape(0));
    require(&output.y.device() == &outputs.front().y.device(), op, "outputs are on several devices.");
    for (const LowRankRows& part : output.parts) require_part(op, output.y, part);
  }
}

bool adds_nothing(const LowRankOutput& output) {
  if (output.y.empty()) return true;
  for (const LowRankRows& part : output.parts)
    if (part.count > 0) return false;
  return true;
}

}  // namespace

std::vector<Tensor> low_rank_down(const MatmulInput& x, std::span<const LowRankDown> parts) {
  const char* op = "low_rank_down";
  Device& device = x.values.device();
  for (const LowRankDown& part : parts) {
    require(part.down->in_features() == x.inputs, op, "x has {} columns and the matrix {} inputs.", x.inputs,
            part.down->in_features());
    require_rows(op, part.begin, part.count, x.rows);
    require(&part.down->device() == &device, op, "a part is on another device than x.");
  }
  if (device.ops().low_rank_down) return device.ops().low_rank_down(x, parts);
  std::vector<Tensor> all;
  for (const LowRankDown& part : parts) {
    const MatmulInput rows = x.values.slice_rows(part.begin, part.begin + part.count);
    const Tensor z = device.ops().linear(rows, {&part.down, 1}, nullptr).front();
    all.push_back(z.reshape({1, z.shape(0), z.shape(1)}));
  }
  return all;
}

void add_low_rank(std::span<LowRankOutput> outputs) {
  require_outputs("add_low_rank", outputs);
  bool nothing = true;
  for (const LowRankOutput& output : outputs) nothing &= adds_nothing(output);
  if (!nothing) outputs.front().y.device().ops().add_low_rank(outputs);
}

MatmulInput low_rank_swiglu(LowRankOutput gate, LowRankOutput up, Activation activation) {
  std::array both = {std::move(gate), std::move(up)};
  const char* op = "low_rank_swiglu";
  require_outputs(op, both);
  require_shape(op, "up", both[1].y, both[0].y.shape());
  const OpTable& ops = both[0].y.device().ops();
  if (ops.low_rank_swiglu) return ops.low_rank_swiglu(both, activation);
  add_low_rank(both);
  return ops.swiglu(both[0].y, both[1].y, activation);
}

}  // namespace anabranch::ops
