#include "ops/cuda/linear.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ops/arguments.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/low_rank.h"
#include "ops/cuda/weight.h"

namespace anabranch::ops::cuda {
namespace {

constexpr int kMostGemvRows = 32;  // per launch
constexpr int kGemvThreads = 512;

// Bytes of a row in a tile of packed rows.
constexpr int kTileRowBytes = 2 * kTileInputs;
int input_tiles(int inputs) {
  return (inputs + kTileInputs - 1) / kTileInputs;
}

// A product over several matrices of one format, and what is added to it.
struct Product {
  RecordFormat format;
  LinearArgs args{};
  std::shared_ptr<ProductAdds> adds = {};  // null: nothing
};

// Counts units of work: a unit is `rows` rows of a matrix; with SwiGLU, of both matrices.
void count_units(LinearArgs& args, bool swiglu, int rows) {
  args.units = 0;
  for (int m = 0; m < args.matrices; m++) {
    args.matrix[m].first = args.units;
    if (!swiglu || m == 0) args.units += (args.matrix[m].rows + rows - 1) / rows;
  }
}
// Number of segments of a dot product that a launch of gemv.cuh computes.
int own_segments(const LinearArgs& args) {
  return args.segments.ranks == 0 ? kSegments : kSegments / args.segments.ranks;
}
// The same for gemv.cuh, whose warps take `tiles` tiles each. With inputs split among ranks, a unit is one
// warp's work.
void count_gemv_units(LinearArgs& args, bool swiglu, int tiles) {
  count_units(args, swiglu, tiles * (swiglu || args.segments.ranks > 0 ? 16 : 32));
}

// Weight tiles that gemv.cuh's warps take for each read of x: as many as possible while the multiprocessors
// stay equally busy.
int tiles_of_a_warp(const DeviceInfo& card, LinearArgs args, bool swiglu) {
  const int units = args.segments.ranks > 0 ? kGemvThreads / 32 / own_segments(args) : 1,
            together = units * card.multiprocessors;
  const auto work = [&](int tiles) {
    count_gemv_units(args, swiglu, tiles);
    return tiles * ((args.units + together - 1) / together);
  };
  int best = 1;
  for (const int tiles : {2, 3})
    if (work(tiles) * 16 <= work(best) * 17) best = tiles;
  return best;
}

// Inputs per lane of a row that each block normalises itself: a multiple of 4, so that fewer kernels are
// compiled.
int inputs_of_a_lane(const RowsArgs& plain) {
  const int lanes = 32 * plain.warps;
  return std::max(8, ((plain.inputs + lanes - 1) / lanes + 3) / 4 * 4);
}

// The specialisation of gemv.cuh for a format and a number of rows.
struct GemvShape {
  int row_tiles, tiles, normed, steps, stages, shared_bytes;
};

// Chooses slots as large, and rings as deep, as shared memory allows; x's tiles are contiguous if all its
// rows are used. Rows that the block normalises, and what it adds, are stored beside the rings.
GemvShape gemv_shape(const DeviceInfo& card, const Product& product, int row_tiles, int tiles) {
  const auto& [f, args, adds] = product;
  const int normed = args.plain.x ? inputs_of_a_lane(args.plain) : 0;
  GemvShape s{row_tiles, tiles, normed};
  const int now = std::min(args.rows, 8 * row_tiles), most = normed           ? 16 / args.plain.warps
                                                             : args.rows <= 4 ? 4
                                                                              : 8 * row_tiles;
  const int sums =
      (row_tiles == 1 ? 2 : 1) * 16 * 8 * (tiles * 16 + kSumsPad) * 4 + (adds ? 4 * kAddedNumbers : 0);
  const auto beside = [&](int rows) { return sums + (normed ? args.input_tiles * rows * kXStride : 0); };
  const auto slot = [&](int rows) {
    return s.steps * (16 * tiles * record_bytes(f) + (normed ? 0 : own_segments(args) * rows * kXStride));
  };
  s.steps =
      is_plain(f) || (!normed && now != args.x_rows) ? 1 : std::max(1, (tiles == 1 ? 4 : 2) / row_tiles);
  for (;; s.steps /= 2) {
    s.stages = std::min((card.shared_bytes - beside(most)) / slot(most), 4);
    if (s.stages >= 2 || s.steps == 1) break;
  }
  s.shared_bytes = beside(now) + s.stages * slot(now);
  return s;
}

// The specialisation with the most rows and tiles at a time that fit in shared memory.
GemvShape gemv_shape(const DeviceInfo& card, const Product& product, bool swiglu) {
  const int most_tiles = is_plain(product.format) ? 1 : tiles_of_a_warp(card, product.args, swiglu);
  const int rows = product.args.rows;
  for (int row_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : 4;; row_tiles /= 2)
    for (const int tiles : {most_tiles, 1}) {
      const GemvShape s = gemv_shape(card, product, row_tiles, tiles);
      if (s.stages >= 2 || (row_tiles == 1 && tiles == 1)) return s;
    }
}

void launch_gemv(CudaDevice& on, const Product& product, const GemvShape& s, bool swiglu) {
  const RecordFormat& f = product.format;
  LinearArgs args = product.args;
  count_gemv_units(args, swiglu, s.tiles);
  constexpr int kEarlyBytes = 64 << 10;  // at least one slot; more would delay x, fewer leave memory idle
  args.early = std::max(1, kEarlyBytes / (s.steps * 16 * s.tiles * record_bytes(f)));
  const GemvVariant variant{.format = f,
                            .row_tiles = s.row_tiles,
                            .swiglu = swiglu,
                            .tiles = s.tiles,
                            .steps = s.steps,
                            .stages = s.stages,
                            .lane_inputs = s.normed,
                            .ranks = args.segments.ranks};
  const auto blocks = static_cast<unsigned>(std::min(args.units, on.info().multiprocessors));
  const auto shared_bytes = static_cast<unsigned>(s.shared_bytes);
  if (!product.adds) return on.launch(variant, "gemv", {blocks}, kGemvThreads, shared_bytes, &args);
  const AdaptedLinearArgs both{args, *product.adds};
  on.launch({variant, true}, "gemv_low_rank", {blocks}, kGemvThreads, shared_bytes, &both);
}

void run_gemv(CudaDevice& on, Product product, bool swiglu) {
  LinearArgs& args = product.args;
  const int rows = args.rows;
  args.x_rows = layout_rows(rows);
  for (int first = 0; first < rows; first += args.rows) {
    args.rows = std::min(kMostGemvRows, rows - first);
    const GemvShape s = gemv_shape(on.info(), product, swiglu);
    args.first_row = first;
    args.rows = std::min(8 * s.row_tiles, args.rows);
    launch_gemv(on, product, s, swiglu);
  }
}

// The specialisation of gemm.cu: a tile's rows (SwiGLU: of both matrices), its rows of x, and the number of
// blocks that share a tile.
struct GemmShape {
  int rows, tokens, split;

  int threads() const { return rows % 192 == 0 ? 512 : 384; }
  int units(LinearArgs args, bool swiglu) const {
    count_units(args, swiglu, swiglu ? rows / 2 : rows);
    return args.units * ((args.rows + tokens - 1) / tokens);
  }
};

// Estimated microseconds on an H200, fitted to measurements of such products (docs/internals/cuda.md).
double gemm_time(const DeviceInfo& card, const LinearArgs& args, const RecordFormat& f, bool swiglu,
                 const GemmShape& s) {
  const int tiles = s.units(args, swiglu), blocks = card.multiprocessors;
  const double rounds = (tiles * s.split + blocks - 1) / blocks,
               of_64_rows = (0.092 + 0.00112 * s.tokens) * (f.planes == 2 ? 1.75 : 1),  // and per input tile
      products = rounds * args.input_tiles / s.split * s.rows / 64 * of_64_rows;
  const double partial_megabytes = s.split == 1 ? 0 : 32e-6 * tiles * s.rows * s.tokens;
  return products + rounds + (s.split == 1 ? 2 : 3 + 0.45 * partial_megabytes);
}

GemmShape gemm_shape(const CudaDevice& on, const LinearArgs& args, const RecordFormat& f, bool swiglu) {
  const DeviceInfo& card = on.info();
  static constexpr GemmShape kShapes[] = {{128, 128, 1}, {128, 128, 2}, {128, 128, 4}, {128, 64, 1},
                                          {192, 64, 1},  {256, 64, 8},  {128, 64, 4},  {128, 32, 1},
                                          {192, 32, 1},  {256, 32, 8},  {128, 32, 4}};
  GemmShape best = {};
  double least = 0;
  for (const GemmShape& s : kShapes) {
    if (args.rows <= 32 && s.tokens > 32) continue;  // x is laid out for 32 rows
    if (s.split > 1 && !on.alone()) continue;
    if (s.split > 1 && (args.input_tiles < kSegments || s.units(args, swiglu) > CudaDevice::kMostSplitTiles))
      continue;  // a segment would be empty
    const double time = gemm_time(card, args, f, swiglu, s);
    if (best.rows == 0 || time < least) best = s, least = time;
  }
  return best;
}

void run_gemm(CudaDevice& on, const Product& product, bool swiglu) {
  LinearArgs args = product.args;
  const auto& f = product.format;
  const GemmShape s = gemm_shape(on, args, f, swiglu);
  count_units(args, swiglu, swiglu ? s.rows / 2 : s.rows);
  const int tiles = s.units(args, swiglu);
  Block partial = {};
  if (s.split > 1) {
    partial = on.scratch(sizeof(float) * kSegments * static_cast<size_t>(tiles) *
                         static_cast<size_t>(s.rows) * static_cast<size_t>(s.tokens));
    args.partial = partial.address<float>();
    args.counters = on.tile_counters();
  }
  const int blocks = std::min(tiles * s.split, on.info().multiprocessors);
  constexpr int kShared = 227 << 10;  // gemm.cu: the most that a block may have
  const GemmVariant variant{
      .format = f, .swiglu = swiglu, .rows = s.rows, .tokens = s.tokens, .split = s.split};
  on.launch(variant, "gemm", {static_cast<unsigned>(blocks)}, static_cast<unsigned>(s.threads()), kShared,
            &args);
}

// wgmma only exists on Hopper: elsewhere many rows use gemv.cuh, as many at a time as fit.
void run(CudaDevice& on, const Product& product, bool swiglu) {
  if (on.info().capability != 90 || product.args.rows <= kMostLaneRows) return run_gemv(on, product, swiglu);
  run_gemm(on, product, swiglu);
}

// The input of products: packed rows, or plain rows that are normalised if `norm` is not null.
struct Input {
  const MatmulInput& x;
  const RowNorm* norm = nullptr;
  const MatmulInput* lanes = nullptr;  // also receives the rows that blocks normalise
};

// Packs the input, unless blocks normalise the rows themselves.
MatmulInput prepared(const Input& in) {
  return normed_by_blocks(in.x.rows, in.x.inputs) ? in.x : cuda::pack(in.x, in.norm);
}

LinearArgs args_of(CudaDevice& on, const Input& in, const char* op) {
  LinearArgs args{};
  const MatmulInput& x = in.x;
  args.rows = x.rows;
  args.row_tiles = layout_rows(args.rows) / 8;
  args.input_tiles = input_tiles(x.inputs);
  if (x.packed) {
    args.x = on.data<unsigned>(x.values, op);
    return args;
  }
  RowsArgs& plain = args.plain;
  plain.x = on.data(x.values, op);
  plain.inputs = x.inputs;
  plain.warps = norm_threads(x.inputs) / 32;
  if (in.lanes) plain.lanes = on.data<unsigned short>(in.lanes->values, op);
  if (in.norm) plain.weight = on.data(in.norm->weight, op), plain.eps = in.norm->eps;
  return args;
}

// Whether gemv.cuh has room for all that is added to products with so many rows.
bool adds_in_blocks(int rows, std::span<const LowRankProduct> products) {
  int parts = 0;
  int64_t numbers = 0;
  for (const LowRankProduct& product : products)
    for (const LowRankRows& part : product.parts)
      if (part.count > 0) parts++, numbers += int64_t{part.count} * part.up.shape(1);
  return rows <= kMostLaneRows && parts <= kAddedParts && numbers <= kAddedNumbers;
}

// The parts of the launch's next matrix.
void add_parts(CudaDevice& on, std::span<const LowRankRows> parts, Product& to) {
  for (const LowRankRows& part : parts) {
    if (part.count == 0) continue;
    if (!to.adds) to.adds = std::make_shared<ProductAdds>();
    ProductAdds& adds = *to.adds;
    const int rank = part.up.shape(1);
    adds.part[adds.parts++] = {on.data(part.z, "linear_low_rank") + part.first,
                               on.data(part.up, "linear_low_rank"),
                               part.scale,
                               rank,
                               part.z.shape(2),
                               part.z.shape(0),
                               part.begin,
                               part.count,
                               adds.numbers};
    adds.numbers += part.count * rank;
  }
  if (to.adds) to.adds->end[to.args.matrices] = to.adds->parts;
}

// y_i = x W_i^T (+ residual); matrices of one format share a launch. parts: what is added to y_i.
void multiply(CudaDevice& on, const Input& in, std::span<const Weight* const> weights,
              std::span<const Tensor> out, const Tensor* residual,
              std::span<const LowRankProduct> parts = {}) {
  if (in.x.rows == 0) return;
  const MatmulInput x = prepared(in);
  std::vector<Product> products;
  for (size_t i = 0; i < weights.size(); i++) {
    const DeviceWeight& w = stored(*weights[i]);
    auto it = std::find_if(products.begin(), products.end(),
                           [&](const Product& p) { return p.format == w.format; });
    if (it == products.end())
      it = products.insert(it, Product{w.format, args_of(on, {x, in.norm, in.lanes}, "linear")});
    if (!parts.empty()) add_parts(on, parts[i].parts, *it);
    it->args.matrix[it->args.matrices++] = {w.memory.get(), on.data(out[i], "linear"),
                                            residual ? on.data(*residual, "linear_add") : nullptr,
                                            static_cast<int>(weights[i]->out_features()), 0};
  }
  for (const Product& product : products) run(on, product, false);
}

std::vector<Tensor> linear(const Input& in, std::span<const Weight* const> weights) {
  CudaDevice& on = cuda_device(in.x.values);
  std::vector<Tensor> out;
  out.reserve(weights.size());
  for (const Weight* w : weights)
    out.push_back(on.empty({in.x.rows, static_cast<int>(w->out_features())}, Dtype::f32));
  multiply(on, in, weights, out, nullptr);
  return out;
}

// parts: empty, or what is added to both products.
MatmulInput linear_swiglu(const Input& in, const Weight& gate, const Weight& up, Activation activation,
                          std::span<const LowRankProduct> parts = {}) {
  const char* op = "linear_swiglu";
  const Weight* both[] = {&gate, &up};
  // The kernels that compute both products together only support SiLU.
  if (activation != Activation::silu || stored(gate).format != stored(up).format) {
    const auto y = linear(in, both);
    return cuda::swiglu(y[0], y[1], activation);
  }
  CudaDevice& on = cuda_device(in.x.values);
  const int outputs = static_cast<int>(gate.out_features());
  MatmulInput out = make_packed_cleared(on, in.x.rows, outputs);
  if (in.x.rows == 0) return out;
  const MatmulInput x = prepared(in);
  Product product{stored(gate).format, args_of(on, {x, in.norm}, op)};
  for (size_t i = 0; i < 2; i++) {
    if (!parts.empty()) add_parts(on, parts[i].parts, product);
    product.args.matrix[product.args.matrices++] = {stored(*both[i]).memory.get(), nullptr, nullptr, outputs,
                                                    0};
  }
  product.args.tiles = on.data<unsigned short>(out.values, op);
  product.args.tiles_rows = layout_rows(in.x.rows);
  run(on, product, true);
  return out;
}

}  // namespace

bool normed_by_blocks(int rows, int inputs) {
  return rows * norm_threads(inputs) <= kGemvThreads;
}

int layout_rows(int rows) {
  if (rows <= kMostLaneRows) return rows;
  return rows <= kMostGemvRows ? kMostGemvRows
                               : (rows + 127) / 128 * 128;  // the GEMM takes 128 rows at a time
}

MatmulInput make_packed(CudaDevice& on, int rows, int inputs) {
  const Shape shape = {input_tiles(inputs), layout_rows(rows) * kTileRowBytes};
  const auto bytes = static_cast<size_t>(shape.count());
  return {on.empty_padded(shape, Dtype::u8, std::max<size_t>(bytes, 1024)), rows, inputs};
}

MatmulInput make_packed_cleared(CudaDevice& on, int rows, int inputs) {
  MatmulInput packed = make_packed(on, rows, inputs);
  if (inputs % kTileInputs != 0 && rows > 0)
    on.context().clear(on.data<void>(packed.values, "linear"), packed.values.nbytes());
  return packed;
}

MatmulInput make_lanes(CudaDevice& on, int rows, int inputs, bool cleared) {
  const Tensor values = on.empty({input_tiles(inputs), rows * kTileRowBytes}, Dtype::u8);
  if (cleared && inputs % kTileInputs != 0 && rows > 0)
    on.context().clear(on.data<void>(values, "experts"), values.nbytes());
  return {values, rows, inputs};
}

MatmulInput pack(const MatmulInput& x, const RowNorm* norm) {
  if (x.packed) return x;
  CudaDevice& on = cuda_device(x.values);
  MatmulInput packed = make_packed(on, x.rows, x.inputs);
  norm_rows(on, x.values, norm, nullptr, &packed);
  return packed;
}

std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights,
                           const RowNorm* norm) {
  return linear(Input{x, norm}, weights);
}
std::vector<Tensor> linear_of_few(const Tensor& x, std::span<const Weight* const> weights,
                                  const RowNorm& norm, const MatmulInput& lanes) {
  const MatmulInput rows = x;
  return linear(Input{rows, &norm, &lanes}, weights);
}

Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual) {
  CudaDevice& on = cuda_device(x.values);
  const Weight* one = &weight;
  const Tensor out = on.empty(residual.shape(), Dtype::f32);
  multiply(on, {x}, {&one, 1}, {&out, 1}, &residual);
  return out;
}

Tensor multiply_own_inputs(const MatmulInput& own, const Weight& columns, const Tensor* residual,
                           const SegmentArgs& segments) {
  CudaDevice& on = cuda_device(own.values);
  const MatmulInput x = prepared({own});
  const DeviceWeight& w = stored(columns);
  Product product{w.format, args_of(on, {x}, "linear")};
  LinearArgs& args = product.args;
  const int outputs = static_cast<int>(columns.out_features());
  Tensor out = on.empty({x.rows, outputs}, Dtype::f32);
  args.matrix[args.matrices++] = {w.memory.get(), on.data<float>(out, "linear"),
                                  residual ? on.data<float>(*residual, "linear") : nullptr, outputs, 0};
  args.segments = segments;
  args.all_rows = args.rows;
  run_gemv(on, product, false);
  return out;
}

std::vector<Tensor> linear_low_rank(const MatmulInput& rows, std::span<const LowRankProduct> products,
                                    const Tensor* residual) {
  CudaDevice& on = cuda_device(rows.values);
  const MatmulInput x = cuda::pack(rows, nullptr);  // blocks that normalise rows add no parts
  std::vector<const Weight*> weights;
  std::vector<LowRankOutput> outputs;
  for (const LowRankProduct& product : products) {
    weights.push_back(product.weight);
    outputs.push_back(
        {on.empty({x.rows, static_cast<int>(product.weight->out_features())}, Dtype::f32), product.parts});
  }
  std::vector<Tensor> y;
  for (const LowRankOutput& output : outputs) y.push_back(output.y);
  const bool adds = adds_in_blocks(x.rows, products);
  multiply(on, {x}, weights, y, residual, adds ? products : std::span<const LowRankProduct>());
  if (!adds) cuda::add_low_rank(outputs);
  return y;
}
MatmulInput linear_low_rank_swiglu(const MatmulInput& rows, std::span<const LowRankProduct> both,
                                   Activation activation) {
  const Weight &gate = *both[0].weight, &up = *both[1].weight;
  const MatmulInput x = cuda::pack(rows, nullptr);
  if (activation == Activation::silu && stored(gate).format == stored(up).format &&
      adds_in_blocks(x.rows, both))
    return linear_swiglu(Input{x}, gate, up, activation, both);
  const Weight* const weights[] = {&gate, &up};
  auto y = linear(Input{x}, weights);
  LowRankOutput outputs[] = {{std::move(y[0]), both[0].parts}, {std::move(y[1]), both[1].parts}};
  return cuda::low_rank_swiglu(outputs, activation);
}

MatmulInput linear_swiglu(const MatmulInput& packed, const Weight& gate, const Weight& up,
                          Activation activation) {
  return linear_swiglu(Input{packed}, gate, up, activation);
}
MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation) {
  const MatmulInput rows = x;
  return linear_swiglu(Input{rows, &norm}, gate, up, activation);
}

namespace {

Tensor embed(std::span<const int> ids, const int* chosen, const Weight& table) {
  CudaDevice& on = cuda_device(table.device());
  const DeviceWeight& w = stored(table);
  const int count = static_cast<int>(ids.size()), width = static_cast<int>(table.in_features());
  Tensor out = on.empty({count, width}, Dtype::f32);
  if (count == 0) return out;
  const Block rows = on.upload(ids.data(), ids.size_bytes());
  const EmbedArgs args{w.memory.get(), rows.address<int>(), chosen, on.data(out, "embed"),
                       width,          w.input_tiles};
  on.launch(EmbedVariant{w.format}, "embed", {static_cast<unsigned>(count)}, 256, 0, &args);
  return out;
}

}  // namespace

Tensor embed(std::span<const int> ids, const Weight& table) {
  return embed(ids, nullptr, table);
}
Tensor embed_chosen(std::span<const int> ids, const Tensor& chosen, const Weight& table) {
  return embed(ids, cuda_device(table.device()).data<int>(chosen, "embed"), table);
}

}  // namespace anabranch::ops::cuda
