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
static_assert(kMostExperts == ops::kMostExperts);
const Variant kRouting = Source::routing;

// The (row, expert) pairs, sorted by expert, in tiles of up to 8 * row_tiles pairs of one expert.
struct SortedPairs {
  int pairs = 0, top_k = 0, slots = 0, row_tiles = 1;
  const int* chosen = nullptr;
  unsigned long long* counts = nullptr;
  Block order = {}, tiles = {};  // empty for a single row, whose experts are already in ascending order
};

unsigned long long* counters(CudaDevice& on, const ExpertMatrices& gate) {
  const DeviceWeight& weight = stored(gate.weight);
  return on.expert_counters(weight.split ? static_cast<const void*>(weight.table()) : weight.memory.get(),
                            gate.experts);
}

// A mixture's first matrices, by which its experts are counted.
const ExpertMatrices& first_of(const Experts& experts) {
  return experts.gate ? *experts.gate : *experts.up;
}

constexpr int kRowsToBring = 8;  // mean rows per expert from which missing experts are copied first

SortedPairs sort_pairs(CudaDevice& on, const Routing& routing, const ExpertMatrices& first) {
  SortedPairs out;
  const int rows = routing.experts.shape(0), experts = first.experts;
  out.top_k = routing.experts.shape(1);
  out.pairs = out.slots = rows * out.top_k;
  out.chosen = on.data<int>(routing.experts, kOp);
  out.counts = counters(on, first);
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

// The table of addresses of a matrix's experts. If most experts are read by several tiles of rows, those that
// the device lacks are first copied to it, once; otherwise a kernel would read them over the bus again for
// each tile. i: the index of the matrix in the launch.
const unsigned long long* table_for(CudaDevice& on, const ExpertMatrices& matrix, const SortedPairs& sorted,
                                    size_t i, Block& brought) {
  const DeviceWeight& weight = stored(matrix.weight);
  if (!weight.split || weight.split->missing_bytes() == 0 || sorted.pairs < kRowsToBring * matrix.experts)
    return weight.table();
  const auto addresses = weight.split->bring_missing(on.stage() + i * weight.split->missing_bytes());
  brought = on.upload(addresses.data(), addresses.size() * sizeof(addresses[0]));
  return brought.address<unsigned long long>();
}

// Computes the products of all pairs; with two matrices, SwiGLU of their products.
void launch(CudaDevice& on, const SortedPairs& sorted, ExpertArgs args,
            std::initializer_list<const ExpertMatrices*> matrices) {
  const bool swiglu = matrices.size() == 2;
  const ExpertMatrices& first = **matrices.begin();
  const DeviceWeight& weight = stored(first.weight);
  std::array<Block, 2> brought = {};
  size_t i = 0;
  for (const ExpertMatrices* m : matrices) {
    args.weights[i] = stored(m->weight).memory.get();
    args.tables[i] = table_for(on, *m, sorted, i, brought[i]);
    i++;
  }
  args.chosen = sorted.chosen;
  args.tiles = sorted.tiles.address<ExpertTile>();
  args.rows = first.rows;
  args.input_tiles = weight.input_tiles;
  args.pairs = sorted.pairs;
  // With one row tile of x, a block takes 16 rows of gate and up, or 64 of one matrix; with bf16 weights
  // fewer, because they need more registers.
  const auto& f = weight.format;
  const int tiles = is_plain(f) || (swiglu && sorted.row_tiles == 1) ? 2 : 4;
  const int unit_rows = 16 * (swiglu ? tiles / 2 : tiles);
  args.units = (args.rows + unit_rows - 1) / unit_rows;
  const ExpertsVariant variant{.format = f, .row_tiles = sorted.row_tiles, .swiglu = swiglu, .tiles = tiles};
  on.launch(variant, "experts", {static_cast<unsigned>(sorted.slots) * static_cast<unsigned>(args.units)},
            256, 0, &args);
}

// Whether one launch can compute gate, up and what goes into the down product.
bool is_fused(const Experts& e) {
  return e.gate && !e.gate->bias && !e.up->bias && !e.clamped &&
         stored(e.gate->weight).format == stored(e.up->weight).format;
}

// The products of all pairs in the order of `order` (null: in that of rows), with their experts' biases.
Tensor run_product(CudaDevice& on, const SortedPairs& sorted, ExpertArgs args, const ExpertMatrices& matrices,
                   const int* order) {
  Tensor y = on.empty({sorted.pairs, matrices.rows}, Dtype::f32);
  args.out = on.data(y, kOp);
  launch(on, sorted, args, {&matrices});
  if (!matrices.bias) return y;
  const ExpertBiasArgs biases{args.out,     on.data(*matrices.bias, kOp), sorted.chosen, order, sorted.pairs,
                              matrices.rows};
  on.launch(kRouting, "add_expert_bias", {static_cast<unsigned>((y.size() + 255) / 256)}, 256, 0, &biases);
  return y;
}

// What goes into the down products of all pairs, packed by lanes; x is packed by lanes.
MatmulInput run_gate_up(CudaDevice& on, const SortedPairs& sorted, const MatmulInput& x,
                        const Experts& experts) {
  const int intermediate = experts.up->rows;
  ExpertArgs args{};
  args.x = on.data<unsigned>(x.values, kOp);
  args.x_rows = x.rows;
  args.order = sorted.order.address<int>();
  args.divide = sorted.top_k;
  if (is_fused(experts)) {
    MatmulInput out = make_lanes(on, sorted.pairs, intermediate, true);
    args.gelu = experts.activation == Activation::gelu_tanh;
    args.packed = on.data<unsigned short>(out.values, kOp);
    launch(on, sorted, args, {experts.gate, experts.up});
    return out;
  }
  const auto product = [&](const ExpertMatrices& m) { return run_product(on, sorted, args, m, args.order); };
  const Tensor up = product(*experts.up);
  const auto inner = [&] {
    if (!experts.gate) return cuda::relu2(up);
    const Tensor gate = product(*experts.gate);
    return experts.clamped ? cuda::clamped_glu(gate, up, *experts.clamped)
                           : cuda::swiglu(gate, up, experts.activation);
  }();
  MatmulInput out = make_lanes(on, sorted.pairs, intermediate, false);
  norm_rows(on, inner, nullptr, nullptr, nullptr, &out);
  return out;
}

// Down products: [pairs, H], in the order of rows.
Tensor run_down(CudaDevice& on, const SortedPairs& sorted, const MatmulInput& x, const Experts& experts) {
  ExpertArgs args{};
  args.x = on.data<unsigned>(x.values, kOp);
  args.x_rows = x.rows;
  args.divide = 1;
  args.out_order = sorted.order.address<int>();
  return run_product(on, sorted, args, *experts.down, nullptr);
}

// The normalised rows in two layouts: by lanes for the experts, packed for the router and the shared expert.
struct Inputs {
  MatmulInput lanes, packed;
};

Inputs norm_inputs(CudaDevice& on, const Tensor& x, const RowNorm* norm, bool packed) {
  const int rows = x.shape(0), width = x.shape(1);
  Inputs in{make_lanes(on, rows, width, false), x};
  const bool same = layout_rows(rows) == rows && rows <= kMostLaneRows;  // packed rows are by lanes
  packed = packed && !same;
  in.packed = packed ? make_packed(on, rows, width) : in.lanes;
  norm_rows(on, x, norm, nullptr, packed ? &in.packed : nullptr, &in.lanes);
  return in;
}

RouteArgs route_args(CudaDevice& on, const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
                     const Tensor* choice_bias, const Routing& out) {
  RouteArgs args{};
  args.logits = on.data(logits, "route");
  if (expert_scale) args.expert_scale = on.data(*expert_scale, "route");
  if (choice_bias) args.choice_bias = on.data(*choice_bias, "route");
  args.chosen = on.data<int>(out.experts, "route");
  args.weights = on.data(out.weights, "route");
  args.rows = logits.shape(0);
  args.experts = logits.shape(1);
  args.top_k = spec.top_k;
  args.sigmoid = spec.scores == RouterSpec::Scores::sigmoid;
  args.normalise = spec.normalise;
  args.groups = spec.groups;
  args.top_groups = spec.top_groups;
  args.best_of_group = spec.best_of_group;
  args.tolerance = spec.tolerance;
  args.scale = spec.scale;
  args.least_sum = spec.least_sum;
  args.added_sum = spec.added_sum;
  return args;
}

Routing empty_routing(CudaDevice& on, int rows, int top_k) {
  return {on.empty({rows, top_k}, Dtype::i32), on.empty({rows, top_k}, Dtype::f32)};
}

// The routed experts and the shared expert, weighted and added up, plus residual. shared, residual: may be
// null.
Tensor mix(CudaDevice& on, const Inputs& in, const Routing& routing, const Experts& experts,
           const SharedExpert* shared, const Tensor* residual) {
  const int rows = in.lanes.rows, width = experts.down->rows;
  const SortedPairs sorted = sort_pairs(on, routing, first_of(experts));
  const Tensor outputs = run_down(on, sorted, run_gate_up(on, sorted, in.lanes, experts), experts),
               y = on.empty({rows, width}, Dtype::f32);
  WeightedSumArgs args{};
  Tensor shared_output;
  if (shared) {
    const Weight* down = shared->down;
    shared_output = cuda::linear(linear_swiglu(in.packed, *shared->gate, *shared->up, experts.activation),
                                 {&down, 1}, nullptr)[0];
    args.shared = on.data(shared_output, kOp);
    if (shared->gate_logits) args.gate_logits = on.data(*shared->gate_logits, kOp);
  }
  args.outputs = on.data(outputs, kOp);
  args.weights = on.data(routing.weights, kOp);
  args.out = on.data(y, kOp);
  args.top_k = sorted.top_k;
  args.width = width;
  if (residual) args.residual = on.data(*residual, kOp);
  if (rows == 1) {
    args.counts = sorted.counts;
    args.chosen = sorted.chosen;
  }
  const int blocks = rows * ((width + 255) / 256);
  on.launch(kRouting, "weighted_sum", {static_cast<unsigned>(blocks)}, 256, 0, &args);
  return y;
}

// Every kCallsBetween calls, moves the experts with the most rows since the last time to the device, in place
// of others.
void move_experts(CudaDevice& on, const Experts& experts) {
  constexpr int kCallsBetween = 256, kMostSwaps = 8;
  SplitExperts* first = stored(first_of(experts).weight).split.get();
  if (!first || ++first->use.calls % kCallsBetween != 0) return;
  const unsigned long long* counts = counters(on, first_of(experts));
  if (!counts) return;
  std::vector<uint64_t> now(static_cast<size_t>(first->experts())), rows = now;
  on.context().copy_to_host(now.data(), const_cast<unsigned long long*>(counts), now.size() * sizeof(now[0]));
  first->use.rows.resize(now.size());
  for (size_t e = 0; e < now.size(); e++) rows[e] = now[e] - first->use.rows[e];
  first->use.rows = now;
  const auto swaps = choose_swaps(*first, rows, kMostSwaps);
  if (swaps.empty()) return;
  for (const ExpertMatrices* matrix : {experts.gate, experts.up, experts.down}) {
    if (!matrix) continue;
    SplitExperts& split = *stored(matrix->weight).split;
    for (const Swap& swap : swaps) split.replace(swap.leaving, swap.arriving);
    split.write_table();
  }
}

// With more than this, reading an expert once for all its rows is faster.
constexpr int kMostFewRows = 6, kMostOfFew = 512;  // rows, experts

bool takes_few(int rows, const MixtureWeights& w) {
  if (!is_fused(w.experts) || w.experts.down->bias || w.router_bias || w.routing.soft_cap > 0 ||
      w.routing.scores == RouterSpec::Scores::sparse_mixer)
    return false;
  const auto same = [](const Weight& a, const Weight& b) { return stored(a).format == stored(b).format; };
  const Experts& e = w.experts;
  return rows <= kMostFewRows && w.routing.top_k <= kMostFewTopK && e.gate->experts <= kMostOfFew &&
         (!w.gate || (w.gate->out_features() == e.gate->rows && same(*w.gate, e.gate->weight) &&
                      same(*w.up, e.up->weight) && same(*w.down, e.down->weight)));
}

Tensor mix_few(CudaDevice& on, const MatmulInput& x, std::span<const Tensor> logits, const MixtureWeights& w,
               const Tensor* residual) {
  const Experts& experts = w.experts;
  const int rows = x.rows, width = experts.down->rows, top_k = w.routing.top_k,
            pairs = rows * (top_k + (w.gate ? 1 : 0));
  const Routing chosen = empty_routing(on, rows, top_k);
  const MatmulInput inner = make_lanes(on, pairs, experts.gate->rows, true);
  const auto memory = [](const Weight* weight) { return weight ? stored(*weight).memory.get() : nullptr; };
  FewGateUpArgs first{route_args(on, logits[0], w.routing, w.expert_scale, w.choice_bias, chosen),
                      {memory(&experts.gate->weight), memory(&experts.up->weight)},
                      {memory(w.gate), memory(w.up)},
                      {stored(experts.gate->weight).table(), stored(experts.up->weight).table()}};
  first.x = on.data<unsigned>(x.values, kOp);
  first.packed = on.data<unsigned short>(inner.values, kOp);
  first.rows = experts.gate->rows;
  first.input_tiles = stored(experts.gate->weight).input_tiles;
  first.units = (first.rows + 15) / 16;
  first.gelu = experts.activation == Activation::gelu_tanh;
  const int count = experts.gate->experts, held = count <= 128 ? 4 : count <= 256 ? 8 : 16;
  on.launch(FewGateUpVariant{stored(experts.gate->weight).format, held}, "few_gate_up",
            {static_cast<unsigned>(pairs * first.units)}, 256, 0, &first);

  const Tensor y = on.empty({rows, width}, Dtype::f32);
  FewDownArgs second{memory(&experts.down->weight), memory(w.down), stored(experts.down->weight).table()};
  second.x = on.data<unsigned>(inner.values, kOp);
  second.chosen = on.data<int>(chosen.experts, kOp);
  second.expert_weights = on.data(chosen.weights, kOp);
  if (w.output_gate) second.gate_logits = on.data(logits[1], kOp);
  if (residual) second.residual = on.data(*residual, kOp);
  second.out = on.data(y, kOp);
  second.counts = counters(on, *experts.gate);
  second.rows = width;
  second.input_tiles = stored(experts.down->weight).input_tiles;
  second.x_rows = pairs;
  second.units = (width + 15) / 16;
  second.top_k = top_k;
  on.launch(FewDownVariant{stored(experts.down->weight).format}, "few_down",
            {static_cast<unsigned>(rows * second.units)}, 512, 0, &second);
  return y;
}

}  // namespace

Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices) {
  CudaDevice& on = cuda_device(x);
  const int rows = x.shape(0), heads = matrices.experts, width = x.shape(1) / heads;
  if (rows == 0) return on.empty({0, heads * matrices.rows}, Dtype::f32);
  const MatmulInput lanes = make_lanes(on, rows * heads, width, false);
  norm_rows(on, x.reshape({rows * heads, width}), nullptr, nullptr, nullptr, &lanes);
  SortedPairs all;
  all.pairs = rows * heads;
  all.row_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : 4;
  all.slots = heads * ((rows + 8 * all.row_tiles - 1) / (8 * all.row_tiles));
  ExpertArgs args{};
  args.x = on.data<unsigned>(lanes.values, "linear_heads");
  args.x_rows = lanes.rows;
  args.divide = 1;
  args.head_rows = rows;
  args.heads = heads;
  return run_product(on, all, args, matrices, nullptr).reshape({rows, heads * matrices.rows});
}

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias) {
  CudaDevice& on = cuda_device(logits);
  const int rows = logits.shape(0);
  const Routing out = empty_routing(on, rows, spec.top_k);
  if (rows == 0) return out;
  const Tensor capped = spec.soft_cap > 0 ? cuda::soft_cap(logits, spec.soft_cap) : logits;
  const RouteArgs args = route_args(on, capped, spec, expert_scale, choice_bias, out);
  constexpr int kWarps = 4;
  if (spec.scores == RouterSpec::Scores::sparse_mixer) {
    on.launch(kRouting, "route_sparse", {static_cast<unsigned>((rows + 31) / 32)}, 32, 0, &args);
    return out;
  }
  on.launch(kRouting, "route", {static_cast<unsigned>((rows + kWarps - 1) / kWarps)}, 32 * kWarps, 0, &args);
  return out;
}

Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared) {
  CudaDevice& on = cuda_device(x);
  if (x.shape(0) == 0) return on.empty(x.shape(), Dtype::f32);
  return mix(on, norm_inputs(on, x, norm, shared != nullptr), routing, experts, shared, nullptr);
}

Tensor mixture(const Tensor& x, const RowNorm* norm, const MixtureWeights& w, bool add_x) {
  CudaDevice& on = cuda_device(x);
  if (x.shape(0) == 0) return on.empty(x.shape(), Dtype::f32);
  move_experts(on, w.experts);
  const int rows = x.shape(0), width = x.shape(1);
  const Weight* both[] = {w.router, w.output_gate};
  const std::span routers(both, w.output_gate ? 2 : 1);
  const Tensor* residual = add_x ? &x : nullptr;
  const bool few = takes_few(rows, w);
  if (few && norm && !w.router_norm && normed_by_blocks(rows, width)) {
    const MatmulInput lanes = make_lanes(on, rows, width, false);
    return mix_few(on, lanes, linear_of_few(x, routers, *norm, lanes), w, residual);
  }
  const Inputs in = norm_inputs(on, x, norm, w.gate || !w.router_norm);
  const auto logits = cuda::linear(w.router_norm ? MatmulInput(x) : in.packed, routers, w.router_norm);
  if (few) return mix_few(on, in.lanes, logits, w, residual);
  const SharedExpert shared{w.gate, w.up, w.down, w.output_gate ? &logits[1] : nullptr};
  const Tensor biased = w.router_bias ? cuda::add_bias(logits[0], *w.router_bias) : logits[0];
  return mix(on, in, cuda::route(biased, w.routing, w.expert_scale, w.choice_bias), w.experts,
             w.gate ? &shared : nullptr, residual);
}

}  // namespace anabranch::ops::cuda
