#include "ops/cuda/experts.h"

#include <algorithm>
#include <array>

#include "ops/cuda/device.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/weight.h"

namespace anabranch::ops::cuda {
namespace {

constexpr const char* kOp = "mix_experts";
const Variant kRouting{Source::routing, {}};

// The pairs of row and expert, sorted by expert, in tiles of up to 8 * row_tiles pairs of one expert.
struct SortedPairs {
  int pairs = 0, top_k = 0, slots = 0, row_tiles = 1;
  const int* chosen = nullptr;
  unsigned long long* counts = nullptr;
  Block order = {}, tiles = {};  // empty for one row, whose experts ascend already
};

SortedPairs sort_pairs(CudaDevice& on, const Routing& routing, const ExpertMatrices& gate) {
  SortedPairs out;
  const int rows = routing.experts.shape(0), experts = gate.experts;
  out.top_k = routing.experts.shape(1);
  out.pairs = out.slots = rows * out.top_k;
  out.chosen = on.data<int>(routing.experts, kOp);
  out.counts = on.expert_counters(stored(gate.weight).memory.get(), experts);
  if (rows == 1) return out;
  const int mean = out.pairs / experts;
  out.row_tiles = mean <= 8 ? 1 : mean <= 16 ? 2 : 4;
  SortArgs args{};
  args.tile_rows = 8 * out.row_tiles;
  const int spread = experts + out.pairs / args.tile_rows;
  args.compact = out.pairs <= spread;
  out.slots = std::min(out.pairs, spread);
  out.order = on.scratch(static_cast<size_t>(out.pairs) * sizeof(int));
  out.tiles = on.scratch(static_cast<size_t>(out.slots) * sizeof(ExpertTile));
  args.chosen = out.chosen;
  args.order = out.order.address<int>();
  args.tiles = out.tiles.address<ExpertTile>();
  args.counts = out.counts;
  args.pairs = out.pairs;
  args.experts = experts;
  args.slots = out.slots;
  const unsigned threads = std::clamp((static_cast<unsigned>(out.pairs) + 31) / 32 * 32, 32u, 1024u);
  on.launch(kRouting, "sort_pairs", {static_cast<unsigned>(experts)}, threads, 0, &args);
  return out;
}

// Products of all pairs, or with two matrices SwiGLU of their products.
void launch(CudaDevice& on, const SortedPairs& sorted, ExpertArgs args,
            std::initializer_list<const ExpertMatrices*> matrices) {
  const bool swiglu = matrices.size() == 2;
  const ExpertMatrices& first = **matrices.begin();
  const DeviceWeight& weight = stored(first.weight);
  int i = 0;
  for (const ExpertMatrices* m : matrices) args.weights[i++] = stored(m->weight).memory.get();
  args.chosen = sorted.chosen;
  args.tiles = sorted.tiles.address<ExpertTile>();
  args.rows = first.rows;
  args.input_tiles = weight.input_tiles;
  args.pairs = sorted.pairs;
  // A block of one row tile of x takes 16 rows of gate and up, or 64 of one matrix; bf16 ones need the
  // registers.
  const auto& f = weight.format;
  const int tiles = f[0] || (swiglu && sorted.row_tiles == 1) ? 2 : 4;
  const int unit_rows = 16 * (swiglu ? tiles / 2 : tiles);
  args.units = (args.rows + unit_rows - 1) / unit_rows;
  on.launch({Source::experts, {f[0], f[1], f[2], f[3], sorted.row_tiles, swiglu, tiles}}, "experts",
            {static_cast<unsigned>(sorted.slots) * static_cast<unsigned>(args.units)}, 256, 0, &args);
}

// activation(gate x) * (up x) of all pairs, packed by lanes; x packed by lanes.
MatmulInput run_gate_up(CudaDevice& on, const SortedPairs& sorted, const MatmulInput& x,
                        const Experts& experts) {
  const int intermediate = experts.gate->rows;
  ExpertArgs args{};
  args.x = on.data<unsigned>(x.values, kOp);
  args.x_rows = x.rows;
  args.order = sorted.order.address<int>();
  args.divide = sorted.top_k;
  if (experts.activation == Activation::silu &&
      stored(experts.gate->weight).format == stored(experts.up->weight).format) {
    MatmulInput out = make_lanes(on, sorted.pairs, intermediate, true);
    args.packed = on.data<unsigned short>(out.values, kOp);
    launch(on, sorted, args, {experts.gate, experts.up});
    return out;
  }
  std::array<Tensor, 2> y;
  for (const int i : {0, 1}) {
    y[static_cast<size_t>(i)] = on.empty({sorted.pairs, intermediate}, Dtype::f32);
    args.out = on.data(y[static_cast<size_t>(i)], kOp);
    launch(on, sorted, args, {i == 0 ? experts.gate : experts.up});
  }
  MatmulInput out = make_lanes(on, sorted.pairs, intermediate, false);
  norm_rows(on, cuda::swiglu(y[0], y[1], experts.activation), nullptr, nullptr, nullptr, &out);
  return out;
}

// [pairs, H], in the order of rows.
Tensor run_down(CudaDevice& on, const SortedPairs& sorted, const MatmulInput& x, const Experts& experts) {
  Tensor out = on.empty({sorted.pairs, experts.down->rows}, Dtype::f32);
  ExpertArgs args{};
  args.x = on.data<unsigned>(x.values, kOp);
  args.x_rows = x.rows;
  args.divide = 1;
  args.out_order = sorted.order.address<int>();
  args.out = on.data(out, kOp);
  launch(on, sorted, args, {experts.down});
  return out;
}

}  // namespace

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale) {
  CudaDevice& on = cuda_device(logits);
  const int rows = logits.shape(0);
  Routing out{on.empty({rows, spec.top_k}, Dtype::i32), on.empty({rows, spec.top_k}, Dtype::f32)};
  if (rows == 0) return out;
  RouteArgs args{};
  args.logits = on.data(logits, "route");
  if (expert_scale) args.expert_scale = on.data(*expert_scale, "route");
  args.chosen = on.data<int>(out.experts, "route");
  args.weights = on.data(out.weights, "route");
  args.rows = rows;
  args.experts = logits.shape(1);
  args.top_k = spec.top_k;
  args.sigmoid = spec.scores == RouterSpec::Scores::sigmoid;
  args.normalise = spec.normalise;
  args.scale = spec.scale;
  constexpr int kWarps = 4;
  on.launch(kRouting, "route", {static_cast<unsigned>((rows + kWarps - 1) / kWarps)}, 32 * kWarps, 0, &args);
  return out;
}

Tensor mix_experts(const Tensor& x, const RowNorm& norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared) {
  CudaDevice& on = cuda_device(x);
  const int rows = x.shape(0), width = x.shape(1);
  Tensor y = on.empty(x.shape(), Dtype::f32);
  if (rows == 0) return y;
  const bool same = layout_rows(rows) == rows && rows <= kMostLaneRows;  // packed rows lie by lanes
  const MatmulInput lanes = make_lanes(on, rows, width, false);
  MatmulInput packed = lanes;
  if (shared && !same) packed = make_packed(on, rows, width);
  norm_rows(on, x, &norm, nullptr, shared && !same ? &packed : nullptr, &lanes);

  const SortedPairs sorted = sort_pairs(on, routing, *experts.gate);
  const Tensor outputs = run_down(on, sorted, run_gate_up(on, sorted, lanes, experts), experts);
  WeightedSumArgs args{};
  Tensor shared_output;
  if (shared) {
    const Weight* down = shared->down;
    shared_output = cuda::linear(linear_swiglu(packed, *shared->gate, *shared->up, experts.activation),
                                 {&down, 1}, nullptr)[0];
    args.shared = on.data(shared_output, kOp);
    if (shared->gate_logits) args.gate_logits = on.data(*shared->gate_logits, kOp);
  }
  args.outputs = on.data(outputs, kOp);
  args.weights = on.data(routing.weights, kOp);
  args.out = on.data(y, kOp);
  args.top_k = sorted.top_k;
  args.width = width;
  if (rows == 1) {
    args.counts = sorted.counts;
    args.chosen = sorted.chosen;
  }
  const int blocks = rows * ((width + 255) / 256);
  on.launch(kRouting, "weighted_sum", {static_cast<unsigned>(blocks)}, 256, 0, &args);
  return y;
}

}  // namespace anabranch::ops::cuda
