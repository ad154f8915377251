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

// Of y [rows, out].
void require_part(const char* op, int rows, int out, const Device& device, const LowRankRows& part) {
  require_f32(op, "z", part.z, 3);
  require_f32(op, "up", part.up, 2);
  const int rank = part.up.shape(1);
  require(rank > 0, op, "the rank is 0, but must be at least 1.");
  require(part.z.shape(0) > 0, op, "z has no pieces, but must have at least 1.");
  require_shape(op, "z", part.z, {part.z.shape(0), part.count, part.z.shape(2)});
  require(part.first >= 0 && part.first <= part.z.shape(2) - rank, op,
          "{} columns from column {} on are not among z's {}.", rank, part.first, part.z.shape(2));
  require_shape(op, "up", part.up, {out, rank});
  require_rows(op, part.begin, part.count, rows);
  require(&part.z.device() == &device && &part.up.device() == &device, op,
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
    for (const LowRankRows& part : output.parts)
      require_part(op, output.y.shape(0), output.y.shape(1), output.y.device(), part);
  }
}

// What linear() and linear_add() do not check where a device does all at once.
void require_products(const char* op, const MatmulInput& x, std::span<const LowRankProduct> products,
                      const Tensor* residual) {
  require(products.size() <= kMaxLinearWeights, op, "{} products, but at most {} are possible.",
          products.size(), kMaxLinearWeights);
  require(!residual || products.size() == 1, op, "a residual belongs to one product, but there are {}.",
          products.size());
  for (const auto& [weight, parts] : products) {
    const int out = static_cast<int>(weight->out_features());
    require(weight->in_features() == x.inputs, op, "x has {} columns and a matrix {} inputs.", x.inputs,
            weight->in_features());
    require(&weight->device() == &x.values.device(), op, "a matrix is on another device than x.");
    if (residual)
      require_f32(op, "residual", *residual, 2), require_shape(op, "residual", *residual, {x.rows, out});
    for (const LowRankRows& part : parts) require_part(op, x.rows, out, x.values.device(), part);
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

std::vector<Tensor> linear_low_rank(const MatmulInput& x, std::span<const LowRankProduct> products,
                                    const Tensor* residual) {
  require_products("linear_low_rank", x, products, residual);
  if (const OpTable& ops = x.values.device().ops(); ops.linear_low_rank)
    return ops.linear_low_rank(x, products, residual);
  std::vector<const Weight*> weights;
  for (const LowRankProduct& product : products) weights.push_back(product.weight);
  std::vector<Tensor> y =
      residual ? std::vector{linear_add(x, *weights.front(), *residual)} : linear(x, weights);
  std::vector<LowRankOutput> outputs;
  for (size_t i = 0; i < y.size(); i++) outputs.push_back({std::move(y[i]), products[i].parts});
  add_low_rank(outputs);
  for (size_t i = 0; i < y.size(); i++) y[i] = std::move(outputs[i].y);
  return y;
}

MatmulInput linear_low_rank_swiglu(const MatmulInput& x, LowRankProduct gate, LowRankProduct up,
                                   Activation activation) {
  const char* op = "linear_low_rank_swiglu";
  const std::array both = {std::move(gate), std::move(up)};
  require_products(op, x, both, nullptr);
  require(both[0].weight->out_features() == both[1].weight->out_features(), op,
          "gate has {} outputs and up {}.", both[0].weight->out_features(), both[1].weight->out_features());
  const OpTable& ops = x.values.device().ops();
  if (ops.linear_low_rank_swiglu) return ops.linear_low_rank_swiglu(x, both, activation);
  const auto y = linear_low_rank(x, both);
  return ops.swiglu(y[0], y[1], activation);
}

}  // namespace anabranch::ops
