#include "ops/cuda/linear.h"

#include <algorithm>
#include <optional>

#include "ops/arguments.h"
#include "ops/cuda/array.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/weight.h"

namespace anabranch::ops::cuda {
namespace {

// The GEMM reads 64 rows of x and their sums where there may be 32: what it reads more lies in the next tile
// or here.
constexpr size_t kMoreRows = 32 * 128, kMoreSums = 32 * 4;
constexpr int kMostGemvRows = 32;  // of a launch of either kernel for few

// A product over several matrices of one format.
struct Product {
  std::array<int, 4> format;
  LinearArgs args{};
};

// Units of so many rows of each matrix; with SWIGLU one has those of both.
void count_units(LinearArgs& args, bool swiglu, int rows) {
  args.units = 0;
  for (int m = 0; m < args.matrices; m++) {
    args.matrix[m].first = args.units;
    if (!swiglu || m == 0) args.units += (args.matrix[m].rows + rows - 1) / rows;
  }
}
// Of gemv.cu, whose warps take `tiles` tiles each.
void count_gemv_units(LinearArgs& args, bool swiglu, int tiles) {
  count_units(args, swiglu, tiles * (swiglu ? 16 : 32));
}

// gemv.cu's warps take as many weight tiles for each read of x as leaves the multiprocessors equally busy.
int tiles_of_a_warp(LinearArgs args, bool swiglu) {
  const auto work = [&](int tiles) {
    count_gemv_units(args, swiglu, tiles);
    return tiles * ((args.units + device().multiprocessors - 1) / device().multiprocessors);
  };
  int best = 1;
  for (const int tiles : {2, 3})
    if (work(tiles) * 16 <= work(best) * 17) best = tiles;
  return best;
}

// How gemv.cu is specialised for a format and a number of rows.
struct GemvShape {
  int row_tiles, tiles, steps, stages, shared_bytes;
};

// Slots as large, and rings as deep, as shared memory allows; x's tiles follow each other where all its rows
// are used.
GemvShape gemv_shape(const std::array<int, 4>& f, int rows, int row_tiles, int tiles, int x_rows) {
  const int record = record_bytes(f);
  const int now = std::min(rows, 8 * row_tiles), most = rows <= 4 ? 4 : 8 * row_tiles;
  const int sums = (row_tiles == 1 ? 2 : 1) * 16 * 8 * (tiles * 16 + 4) * 4;
  GemvShape s{row_tiles, tiles};
  const auto slots = [&](int of_x) { return s.steps * (16 * tiles * record + 8 * of_x * 144); };
  s.steps = f[0] || now != x_rows ? 1 : std::max(1, (tiles == 1 ? 4 : 2) / row_tiles);
  for (;; s.steps /= 2) {
    s.stages = std::min((device().shared_bytes - sums) / slots(most), 4);
    if (s.stages >= 2 || s.steps == 1) break;
  }
  s.shared_bytes = sums + s.stages * slots(now);
  return s;
}

// The same with fewer rows or tiles at a time, where that is what fits.
GemvShape gemv_shape(const LinearArgs& args, const std::array<int, 4>& f, int rows, bool swiglu) {
  const int tiles = f[0] ? 1 : tiles_of_a_warp(args, swiglu);
  for (int row_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : 4;; row_tiles /= 2) {
    GemvShape s = gemv_shape(f, rows, row_tiles, tiles, args.x_rows);
    if (s.stages < 2) s = gemv_shape(f, rows, row_tiles, 1, args.x_rows);
    if (s.stages >= 2 || row_tiles == 1) return s;
  }
}

void launch_gemv(LinearArgs args, const std::array<int, 4>& f, const GemvShape& s, bool swiglu) {
  count_gemv_units(args, swiglu, s.tiles);
  const Function gemv = kernel(
      {Source::gemv, {f[0], f[1], f[2], f[3], s.row_tiles, swiglu, s.tiles, s.steps, s.stages}}, "gemv");
  launch(gemv, {static_cast<unsigned>(std::min(args.units, device().multiprocessors))}, 512,
         static_cast<unsigned>(s.shared_bytes), &args);
}

void run_gemv(const Product& product, bool swiglu) {
  LinearArgs args = product.args;
  const int rows = args.rows;
  args.x_rows = layout_rows(rows);
  for (int first = 0; first < rows; first += args.rows) {
    args.rows = std::min(kMostGemvRows, rows - first);
    const GemvShape s = gemv_shape(args, product.format, args.rows, swiglu);
    args.first_row = first;
    args.rows = std::min(8 * s.row_tiles, args.rows);
    launch_gemv(args, product.format, s, swiglu);
  }
}

// How gemv_cluster.cu is specialised; no tiles: shared memory has no room.
struct ClusterShape {
  int tiles = 0, pass_units = 0, stages = 0, shared_bytes = 0;
};

constexpr unsigned kClusterBlocks = 8;  // kSegments of the kernels

// That run at the same time.
int clusters() {
  static const int most = most_clusters(kernel({Source::rows, {}}, "norm_heads"), kClusterBlocks, 512,
                                        static_cast<unsigned>(device().shared_bytes));
  return most;
}

// As many tiles to a warp as there are and fit: a share of a cluster in as few passes as possible.
ClusterShape cluster_shape(const LinearArgs& args, const std::array<int, 4>& f, int row_tiles, bool swiglu) {
  const int record = record_bytes(f);
  const int share = (args.units + clusters() - 1) / clusters();
  const int sums = f[0] ? 0 : args.x_bytes / (row_tiles * 1024) * f[2] * 128;
  for (int tiles = 4; tiles > 0; tiles--) {
    const int room = swiglu ? 8 * tiles : 16 * tiles, passes = (share + room - 1) / room;
    const int units = (share + passes - 1) / passes, most = units * (swiglu ? 2 : 1);
    if (most <= 16 * (tiles - 1)) continue;
    const int fixed = args.x_bytes + 2048 * most + sums + 16 + 128 * tiles,
              stage = (most + 3) / 4 * 4 * record;
    const int stages = std::min((device().shared_bytes - fixed) / stage, 6);
    if (stages >= 2) return {tiles, units, stages, fixed + stages * stage};
  }
  return {};
}

// Whether there was room: for quantised matrices of up to some 20,000 inputs, bf16 ones of half as many.
bool run_gemv_cluster(const Product& product, bool swiglu) {
  if (clusters() == 0) return false;
  LinearArgs args = product.args;
  count_units(args, swiglu, 16);
  const auto& f = product.format;
  const int row_tiles = (args.rows + 7) / 8;
  args.x_rows = layout_rows(args.rows);
  args.x_bytes = (args.input_tiles + 7) / 8 * row_tiles * 1024;
  const ClusterShape s = cluster_shape(args, f, row_tiles, swiglu);
  if (s.tiles == 0) return false;
  args.pass_units = s.pass_units;
  const Variant variant{Source::gemv_cluster, {f[0], f[1], f[2], f[3], row_tiles, swiglu, s.tiles, s.stages}};
  launch(kernel(variant, "gemv_cluster"),
         {kClusterBlocks * static_cast<unsigned>(std::min(args.units, clusters()))}, 512,
         static_cast<unsigned>(s.shared_bytes), &args);
  return true;
}

void run_gemm(const Product& product, bool swiglu) {
  LinearArgs args = product.args;
  const auto& f = product.format;
  count_units(args, swiglu, 128);
  // A block takes tiles of 128 or 64 rows of x, and a narrow one 4/7 of a wide one's time. Shared memory has
  // no room for wide tiles of two bf16 matrices.
  const int blocks = device().multiprocessors;
  const auto count = [&](int tokens) { return args.units * ((args.rows + tokens - 1) / tokens); };
  const auto rounds = [&](int tokens) { return (count(tokens) + blocks - 1) / blocks; };
  const int tokens = (swiglu && f[0]) || 4 * rounds(64) < 7 * rounds(128) ? 64 : 128;
  const Variant variant{Source::gemm, {f[0], f[1], f[2], f[3], swiglu, tokens}};
  const auto sums = scratch(static_cast<size_t>(args.input_tiles) * f[2] * args.row_tiles * 32 +
                            (args.rows <= kMostGemvRows ? kMoreSums : 0));
  args.sums = static_cast<const float*>(sums.get());
  if (!f[0])
    launch(kernel(variant, "sums"), {static_cast<unsigned>((args.input_tiles * args.row_tiles + 7) / 8)}, 256,
           0, &args);
  constexpr int kShared = 227 << 10;  // gemm.cu: all that a block may have
  launch(kernel(variant, "gemm"), {static_cast<unsigned>(std::min(count(tokens), blocks))}, 384, kShared,
         &args);
}

// wgmma and clusters are Hopper's: elsewhere many rows go through the first kernel, as many at a time as fit.
void run(const Product& product, bool swiglu) {
  const int rows = product.args.rows;
  if (device().capability != 90 || rows <= kMostLaneRows) return run_gemv(product, swiglu);
  if (rows > kMostGemvRows || !run_gemv_cluster(product, swiglu)) run_gemm(product, swiglu);
}

mx::array prepared(const mx::array& x, const RowNorm* norm) {
  if (x.dtype() == mx::bfloat16) return x;
  mx::array tiles = make_activations(x.shape(0), x.shape(1));
  norm_rows(x, norm, nullptr, &tiles);
  return tiles;
}

LinearArgs args_of(const mx::array& x, const char* op) {
  LinearArgs args{};
  args.x = data<unsigned>(x, op);
  args.rows = x.shape(0);
  args.row_tiles = layout_rows(args.rows) / 8;
  args.input_tiles = (x.shape(1) + 63) / 64;
  return args;
}

// y_i = x W_i^T (+ residual), matrices of one format in one launch.
void multiply(const mx::array& x, std::span<const Weight* const> weights, std::span<const mx::array> out,
              const mx::array* residual) {
  if (x.shape(0) == 0) return;
  std::vector<Product> products;
  for (size_t i = 0; i < weights.size(); i++) {
    const DeviceWeight& w = stored(*weights[i]);
    auto it = std::find_if(products.begin(), products.end(),
                           [&](const Product& p) { return p.format == w.format; });
    if (it == products.end()) it = products.insert(it, Product{w.format, args_of(x, "linear")});
    it->args.matrix[it->args.matrices++] = {
        static_cast<const unsigned char*>(w.memory.get()), data(out[i], "linear"),
        residual ? data(*residual, "linear") : nullptr, static_cast<int>(weights[i]->out_features()), 0};
  }
  for (const Product& product : products) run(product, false);
}

}  // namespace

int layout_rows(int rows) {
  if (rows <= kMostLaneRows) return rows;
  return rows <= kMostGemvRows ? kMostGemvRows
                               : (rows + 127) / 128 * 128;  // the GEMM takes 128 rows at a time
}

mx::array make_activations(int rows, int inputs) {
  const size_t bytes = static_cast<size_t>((inputs + 63) / 64) * layout_rows(rows) * 128;
  const bool more = rows > kMostLaneRows && rows <= kMostGemvRows;
  return make_padded({rows, inputs}, mx::bfloat16, std::max<size_t>(bytes, 1024) + (more ? kMoreRows : 0));
}

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights,
                              const RowNorm* norm) {
  std::vector<mx::array> out;
  for (const Weight* w : weights)
    out.push_back(make_array({x.shape(0), static_cast<int>(w->out_features())}, mx::float32));
  if (x.shape(0) > 0) multiply(prepared(x, norm), weights, out, nullptr);
  return out;
}

mx::array linear_add(const mx::array& x, const Weight& weight, const mx::array& residual) {
  const Weight* one = &weight;
  const mx::array out = make_array(residual.shape(), mx::float32);
  multiply(prepared(x, nullptr), {&one, 1}, {&out, 1}, &residual);
  return out;
}

mx::array linear_swiglu(const mx::array& x, const Weight& gate, const Weight& up, const RowNorm& norm) {
  const Weight* both[] = {&gate, &up};
  if (stored(gate).format != stored(up).format) {
    const auto y = cuda::linear(x, both, &norm);
    return swiglu(y[0], y[1]);
  }
  const int rows = x.shape(0), outputs = static_cast<int>(gate.out_features());
  mx::array out = make_activations(rows, outputs);
  if (outputs % 64 != 0)
    clear(out.data<char>(), static_cast<size_t>((outputs + 63) / 64) * layout_rows(rows) * 128);
  const mx::array tiles = prepared(x, &norm);
  Product product{stored(gate).format, args_of(tiles, "linear_swiglu")};
  for (const Weight* w : both)
    product.args.matrix[product.args.matrices++] = {
        static_cast<const unsigned char*>(stored(*w).memory.get()), nullptr, nullptr, outputs, 0};
  product.args.tiles = data<unsigned short>(out, "linear_swiglu");
  product.args.tiles_rows = layout_rows(rows);
  run(product, true);
  return out;
}

mx::array embed(std::span<const int> ids, const Weight& table) {
  const DeviceWeight& w = stored(table);
  const int count = static_cast<int>(ids.size()), width = static_cast<int>(table.in_features());
  mx::array out = make_array({count, width}, mx::float32);
  if (count == 0) return out;
  const auto on_device = upload(ids.data(), ids.size_bytes());
  const EmbedArgs args{static_cast<const unsigned char*>(w.memory.get()),
                       static_cast<const int*>(on_device.get()), data(out, "embed"), width, w.input_tiles};
  const auto& f = w.format;
  launch(kernel({Source::embed, {f[0], f[1], f[2], f[3]}}, "embed"), {static_cast<unsigned>(count)}, 256, 0,
         &args);
  return out;
}

}  // namespace anabranch::ops::cuda
