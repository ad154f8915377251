#include "ops/cpu/experts.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/choose_experts.h"
#include "ops/cpu/device.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/linear_parts.h"
#include "ops/cpu/packed.h"
#include "ops/input_observer.h"

namespace anabranch::ops::cpu {
namespace {

// Below this a fork-join costs more than it saves.
constexpr int64_t kParallelElements = 32 << 10;

PackedMatrix matrix_of(const ExpertMatrices& all, int expert) {
  PackedMatrix m = packed(all.weight);
  m.data += int64_t{expert} * (all.padded_rows() / kPanelRows) * m.panel_bytes;
  m.rows = all.rows;
  return m;
}

const float* bias_of(const ExpertMatrices& all, int expert) {
  return all.bias ? all.bias->data<float>() + int64_t{expert} * all.rows : nullptr;
}

// The product of one expert's rows with its matrix, or with gate and up. Row i of the input is row
// row_list[i] of x, or row i if row_list is null.
struct Product {
  PackedMatrix weight, up = {};
  const float* x = nullptr;
  const int* row_list = nullptr;
  int64_t rows = 0;
  float* y = nullptr;  // [rows, weight.rows]; row i begins at y + i * y_stride, if that is not 0
  std::optional<Activation> glu = {};
  bool relu2 = false;                               // of the product, in place of a gated unit
  const float *bias = nullptr, *up_bias = nullptr;  // null: none
  const ClampedGlu* clamped = nullptr;              // in place of `glu`, which is set, too
  int64_t y_stride = 0;

  // Filled by run():
  Prepared prepared[2] = {};  // x in the format for weight, and for up if that differs
  size_t prepared_count = 0;
  ProductPart part = {};
  int64_t first_tile = 0;

  int64_t tile_rows() const { return prepared[0].a.tile; }
  int64_t tiles() const { return tiles_of(rows, tile_rows()); }
  const Prepared& up_input() const { return prepared[prepared_count - 1]; }
};

void choose_forms(const CpuDevice& device, Product& p) {
  const auto both = [&](const auto& condition) {
    return condition(device, p.weight) && (!p.glu || condition(device, p.up));
  };
  const int64_t tile_rows = choose_tile_rows(device.kernels(), p.rows, both(uses_int8), both(suits_matrix));
  p.prepared[p.prepared_count++] = make_prepared(device, p.weight, p.rows, tile_rows);
  if (!p.glu) return;
  const Prepared input = make_prepared(device, p.up, p.rows, tile_rows);
  if (input.int8 != p.prepared[0].int8 || input.a.group != p.prepared[0].a.group ||
      input.a.padded_cols != p.prepared[0].a.padded_cols)
    p.prepared[p.prepared_count++] = input;
}

void prepare_tile(const CpuKernels& k, const Product& p, int64_t tile) {
  const int64_t begin = tile * p.tile_rows(), end = std::min(p.rows, begin + p.tile_rows()),
                cols = p.weight.cols;
  const float* x = p.x;
  if (p.row_list) {
    auto* gathered =
        static_cast<float*>(thread_scratch(2, static_cast<size_t>((end - begin) * cols) * sizeof(float)));
    for (int64_t i = begin; i < end; i++)
      std::copy_n(p.x + p.row_list[i] * cols, cols, gathered + (i - begin) * cols);
    x = gathered - begin * cols;
  }
  for (size_t i = 0; i < p.prepared_count; i++)
    (p.prepared[i].int8 ? k.prepare_int8 : k.prepare_f32)(x, p.prepared[i].a, begin, end);
}

// Finds the product that entry `index` of a combined list belongs to. first(product): the index of its first
// entry.
template <class First>
size_t find_product(const std::vector<Product>& products, int64_t index, const First& first) {
  const auto next = std::upper_bound(products.begin(), products.end(), index,
                                     [&](int64_t i, const Product& p) { return i < first(p); });
  return static_cast<size_t>(next - products.begin()) - 1;
}

void prepare(CpuDevice& device, std::vector<Product>& products) {
  size_t bytes = 0;
  int64_t tiles = 0, elements = 0;
  for (Product& p : products) {
    choose_forms(device, p);
    for (size_t i = 0; i < p.prepared_count; i++) bytes += lay_out(p.prepared[i], nullptr);
    p.first_tile = tiles;
    tiles += p.tiles();
    elements += p.rows * p.weight.cols;
  }
  auto* base = static_cast<uint8_t*>(thread_scratch(0, bytes));
  for (Product& p : products)
    for (size_t i = 0; i < p.prepared_count; i++) base += lay_out(p.prepared[i], base);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const size_t i = find_product(products, t, [](const Product& p) { return p.first_tile; });
      prepare_tile(device.kernels(), products[i], t - products[i].first_tile);
    }
  };
  elements < kParallelElements ? body(0, tiles) : device.threads().parallel_for(tiles, 1, body);
}

// Runs all products as one list of units. Uses thread_scratch(0) of the calling thread until it returns.
void run(CpuDevice& device, std::vector<Product>& products) {
  prepare(device, products);
  int64_t units = 0;
  for (Product& p : products) {
    p.part = make_part(device, p.weight, p.prepared[0], p.y);
    if (p.y_stride > 0) p.part.task.y_stride = p.y_stride;
    p.part.first_unit = units;
    units += p.part.units();
  }
  device.threads().parallel_for(units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) {
      const size_t i = find_product(products, u, [](const Product& p) { return p.part.first_unit; });
      const Product& p = products[i];
      LinearTask task = p.part.unit(u - p.part.first_unit);
      run_task(device.kernels(), task, p.part.int8);
      const int64_t row_begin = task.tile_begin * p.tile_rows(),
                    row_end = std::min(p.rows, task.tile_end * p.tile_rows());
      if (p.bias) add_bias_to(device.kernels(), task, p.bias, row_begin, row_end);
      if (p.glu)
        apply_up(device.kernels(), task, {p.up, p.up_input(), p.up_bias, p.clamped}, *p.glu, row_begin,
                 row_end);
      if (p.relu2) apply_relu2(device.kernels(), task, row_begin, row_end);
    }
  });
}

// The (row, expert) pairs of a step, sorted by expert: pairs of one expert are adjacent, rows ascending.
struct SortedPairs {
  std::vector<int> rows;    // [pairs] row of x
  std::vector<int> index;   // [M, top_k] the pair's index in `rows`
  std::vector<int> begins;  // [experts + 1]
};

SortedPairs sort_pairs(const Routing& routing, int experts) {
  const int rows = routing.experts.shape(0), top_k = routing.experts.shape(1), pairs = rows * top_k;
  const int32_t* chosen = routing.experts.data<int32_t>();
  SortedPairs out;
  out.begins.assign(static_cast<size_t>(experts) + 1, 0);
  for (int i = 0; i < pairs; i++) out.begins[static_cast<size_t>(chosen[i]) + 1]++;
  for (size_t e = 0; e < static_cast<size_t>(experts); e++) out.begins[e + 1] += out.begins[e];
  std::vector<int> next(out.begins.begin(), out.begins.end() - 1);
  out.rows.resize(static_cast<size_t>(pairs));
  out.index.resize(static_cast<size_t>(pairs));
  for (int i = 0; i < pairs; i++) {
    const int at = next[static_cast<size_t>(chosen[i])]++;
    out.rows[static_cast<size_t>(at)] = i / top_k;
    out.index[static_cast<size_t>(i)] = at;
  }
  return out;
}

// Reports the inputs of gate and up, and of down, to the observer, for every expert with rows and the shared
// expert.
void show_observer(InputObserver& observer, const Tensor& normed, const Tensor& inner,
                   const Tensor& shared_inner, const SortedPairs& sorted, const Experts& experts,
                   const SharedExpert* shared) {
  const int64_t width = normed.shape(1), intermediate = experts.up->rows;
  std::vector<float> gathered;
  for (int e = 0; e < experts.up->experts; e++) {
    const int begin = sorted.begins[static_cast<size_t>(e)], end = sorted.begins[static_cast<size_t>(e) + 1];
    if (begin == end) continue;
    gathered.clear();
    for (int i = begin; i < end; i++) {
      const float* row = normed.data<float>() + sorted.rows[static_cast<size_t>(i)] * width;
      gathered.insert(gathered.end(), row, row + width);
    }
    if (experts.gate) observer.observe(experts.gate->weight, e, gathered.data(), end - begin);
    observer.observe(experts.up->weight, e, gathered.data(), end - begin);
    observer.observe(experts.down->weight, e, inner.data<float>() + begin * intermediate, end - begin);
  }
  if (!shared) return;
  observer.observe(*shared->gate, 0, normed.data<float>(), normed.shape(0));
  observer.observe(*shared->up, 0, normed.data<float>(), normed.shape(0));
  observer.observe(*shared->down, 0, shared_inner.data<float>(), normed.shape(0));
}

// The outputs of all pairs, and of the shared expert.
struct Outputs {
  Tensor pairs, shared;  // [pairs, H], [M, H]
};

Outputs run_experts(CpuDevice& device, const Tensor& normed, const SortedPairs& sorted,
                    const Experts& experts, const SharedExpert* shared) {
  const int rows = normed.shape(0), width = normed.shape(1), pairs = static_cast<int>(sorted.rows.size()),
            intermediate = experts.up->rows;
  Tensor inner = device.make({pairs, intermediate}), shared_inner;
  Outputs out{device.make({pairs, width}), {}};
  std::vector<Product> first, second;  // gate and up; down
  for (int e = 0; e < experts.up->experts; e++) {
    const int64_t begin = sorted.begins[static_cast<size_t>(e)],
                  count = sorted.begins[static_cast<size_t>(e) + 1] - begin;
    if (count == 0) continue;
    float* middle = inner.data<float>() + begin * intermediate;
    const ExpertMatrices& outer = experts.gate ? *experts.gate : *experts.up;
    Product in{.weight = matrix_of(outer, e), .x = normed.data<float>()};
    in.row_list = sorted.rows.data() + begin, in.rows = count, in.y = middle;
    in.bias = bias_of(outer, e);
    if (experts.gate) {
      in.up = matrix_of(*experts.up, e), in.glu = experts.activation;
      in.up_bias = bias_of(*experts.up, e);
      if (experts.clamped) in.clamped = &*experts.clamped;
    } else {
      in.relu2 = true;
    }
    first.push_back(in);
    second.push_back(
        {matrix_of(*experts.down, e), {}, middle, nullptr, count, out.pairs.data<float>() + begin * width});
    second.back().bias = bias_of(*experts.down, e);
  }
  if (shared) {
    shared_inner = device.make({rows, static_cast<int>(shared->gate->out_features())});
    out.shared = device.make({rows, width});
    first.push_back({packed(*shared->gate), packed(*shared->up), normed.data<float>(), nullptr, rows,
                     shared_inner.data<float>(), experts.activation});
    second.push_back(
        {packed(*shared->down), {}, shared_inner.data<float>(), nullptr, rows, out.shared.data<float>()});
  }
  run(device, first);
  run(device, second);
  if (InputObserver* observer = device.input_observer())
    show_observer(*observer, normed, inner, shared_inner, sorted, experts, shared);
  return out;
}

}  // namespace

Tensor linear_heads(const Tensor& x, const ExpertMatrices& matrices) {
  CpuDevice& device = cpu_device(x);
  const int rows = x.shape(0), heads = matrices.experts, out = matrices.rows;
  Tensor y = device.make({rows, heads * out});
  if (rows == 0) return y;
  // x as [rows * heads, in]: the rows of each head.
  std::vector<int> lists(static_cast<size_t>(rows) * static_cast<size_t>(heads));
  for (size_t i = 0; i < lists.size(); i++)
    lists[i] = static_cast<int>(i) % rows * heads + static_cast<int>(i) / rows;
  std::vector<Product> products;
  for (int h = 0; h < heads; h++) {
    Product product{matrix_of(matrices, h),           {},   x.data<float>(),
                    lists.data() + int64_t{h} * rows, rows, y.data<float>() + int64_t{h} * out};
    product.y_stride = int64_t{heads} * out;
    products.push_back(product);
  }
  run(device, products);
  return y;
}

Routing route(const Tensor& logits, const RouterSpec& spec, const Tensor* expert_scale,
              const Tensor* choice_bias) {
  CpuDevice& device = cpu_device(logits);
  const int rows = logits.shape(0), experts = logits.shape(1);
  Routing out{device.empty({rows, spec.top_k}, Dtype::i32), device.make({rows, spec.top_k})};
  const float* scale = expert_scale ? expert_scale->data<float>() : nullptr;
  const float* bias = choice_bias ? choice_bias->data<float>() : nullptr;
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++)
      choose_experts({logits.data<float>() + r * experts, static_cast<size_t>(experts)}, spec, scale, bias,
                     out.experts.data<int32_t>() + r * spec.top_k,
                     out.weights.data<float>() + r * spec.top_k);
  };
  const int64_t grain = std::max<int64_t>(1, kParallelElements / 4 / experts);
  rows <= grain ? body(0, rows) : device.threads().parallel_for(rows, grain, body);
  return out;
}

Tensor mix_experts(const Tensor& x, const RowNorm* norm, const Routing& routing, const Experts& experts,
                   const SharedExpert* shared) {
  CpuDevice& device = cpu_device(x);
  const int rows = x.shape(0), width = x.shape(1), top_k = routing.experts.shape(1);
  Tensor y = device.make(x.shape());
  if (rows == 0) return y;
  const SortedPairs sorted = sort_pairs(routing, experts.up->experts);
  const Tensor normed = norm ? cpu::rms_norm(x, norm->weight, norm->eps) : x;
  device.count_experts(packed(experts.up->weight).data, sorted.begins);
  const Outputs out = run_experts(device, normed, sorted, experts, shared);
  const float* weights = routing.weights.data<float>();
  const auto combine = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      float* to = y.data<float>() + r * width;
      std::fill_n(to, width, 0.0f);
      for (int64_t i = r * top_k; i < (r + 1) * top_k; i++)
        device.kernels().add_scaled(
            out.pairs.data<float>() + int64_t{sorted.index[static_cast<size_t>(i)]} * width, weights[i], to,
            width);
      if (!shared) continue;
      const float scale = shared->gate_logits ? sigmoid(shared->gate_logits->data<float>()[r]) : 1.0f;
      device.kernels().add_scaled(out.shared.data<float>() + r * width, scale, to, width);
    }
  };
  const int64_t grain = std::max<int64_t>(1, kParallelElements / 4 / (int64_t{width} * (top_k + 1)));
  rows <= grain ? combine(0, rows) : device.threads().parallel_for(rows, grain, combine);
  return y;
}

}  // namespace anabranch::ops::cpu
