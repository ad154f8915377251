#include "ops/cpu/linear_parts.h"

#include <algorithm>

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kUnitBytes = 16 << 10;
// Unpacking a panel first pays from this many full tiles on; fewer if a code's bits are in two places.
constexpr int64_t kUnpackTiles = 4, kUnpackSplitTiles = 2;
// Without unpacking, a short last tile does not matter from this many rows on.
constexpr int64_t kManyRows = 64;
// Size of a block of activations that is multiplied with one panel after another: half an L2 cache or less.
constexpr int64_t kTileBlockBytes = 192 << 10;
constexpr int64_t kMatrixBlockBytes = 1 << 20;  // processors with matrix units have an L2 cache of 2 MiB

size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

bool pays_to_unpack(const CpuKernels& kernels, const Prepared& input, const PackedMatrix& m) {
  if (input.a.tile == kMatrixRows) return true;
  if (input.int8 && !kernels.unpacks_int8) return false;
  const int64_t height = kernels.tile_rows;
  const bool split = input.int8 && (m.bits == 3 || m.bits == 5 || m.bits == 6);
  return input.a.tile == height && input.a.rows / height >= (split ? kUnpackSplitTiles : kUnpackTiles);
}

// About 16 units per thread, so that a delayed thread does not delay the others for long; but units are large
// enough that handing them out takes less time than computing them.
int64_t panel_step(int threads, const PackedMatrix& m, const LinearTask& task, int64_t tile_blocks) {
  const int64_t units = std::max<int64_t>(1, threads * 16 / tile_blocks), rows = task.input->rows;
  const int64_t beside = rows > 4 ? 2 : 1;  // kernels for many rows take panels in pairs
  const int64_t bytes = m.panel_bytes * tiles_of(rows, task.input->tile);
  const int64_t least = (kUnitBytes + bytes - 1) / bytes;
  const int64_t step = std::max(least, std::min<int64_t>(m.panels() / units, 64));
  return (step + beside - 1) / beside * beside;
}

}  // namespace

bool uses_int8(const CpuDevice& device, const PackedMatrix& m) {
  return (m.kind == PackedMatrix::affine || m.kind == PackedMatrix::table) && !device.precise();
}

bool suits_matrix(const CpuDevice& device, const PackedMatrix& m) {
  return device.kernels().matrix_from > 0 && uses_int8(device, m) && m.group >= 32;
}

int64_t tiles_of(int64_t rows, int64_t tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

// Few rows are divided evenly: for a last tile of one row, decoding the weights costs as much as for four
// rows.
int64_t choose_tile_rows(const CpuKernels& k, int64_t rows, bool int8, bool matrix) {
  if (matrix && k.matrix_from > 0 && rows >= k.matrix_from) return kMatrixRows;
  const int64_t many = int8 && !k.unpacks_int8 ? kManyRows : kUnpackTiles * k.tile_rows;
  return rows >= many ? k.tile_rows : tiles_of(rows, tiles_of(rows, int8 ? k.tall_rows : k.tile_rows));
}

Prepared make_prepared(const CpuDevice& device, const PackedMatrix& m, int64_t rows, int64_t tile_rows) {
  Prepared p;
  p.int8 = uses_int8(device, m);
  p.a.rows = rows;
  p.a.cols = m.cols;
  p.a.padded_cols = m.padded_cols;
  p.a.tile = tile_rows;
  p.a.group = m.group;
  p.a.x_group = std::max(m.group, 32);
  return p;
}

size_t lay_out(Prepared& p, uint8_t* base) {
  Activations& a = p.a;
  const int64_t rows = a.tile == kMatrixRows ? tiles_of(a.rows, a.tile) * a.tile : a.rows;
  size_t at = 0;
  const auto take = [&](int64_t bytes) {
    uint8_t* start = base + at;
    at += aligned(static_cast<size_t>(bytes));
    return start;
  };
  const int64_t sums = a.group > 0 ? rows * (a.padded_cols / a.group) : 0;
  a.sum = reinterpret_cast<float*>(take(sums * 4));
  if (p.int8) {
    a.q = reinterpret_cast<int8_t*>(take(rows * a.padded_cols));
    a.scale = reinterpret_cast<float*>(take(rows * (a.padded_cols / a.x_group) * 4));
    a.int_sum = reinterpret_cast<int32_t*>(take(sums * 4));
  } else {
    a.x = reinterpret_cast<float*>(take(rows * a.padded_cols * 4));
  }
  return at;
}

LinearTask ProductPart::unit(int64_t local) const {
  LinearTask out = task;
  out.panel_begin = local % panel_blocks * panel_step;
  out.panel_end = std::min(task.panel_end, out.panel_begin + panel_step);
  out.tile_begin = task.tile_begin + local / panel_blocks * tile_step;
  out.tile_end = std::min(task.tile_end, out.tile_begin + tile_step);
  return out;
}

ProductPart make_part(CpuDevice& device, const PackedMatrix& m, const Prepared& input, float* y) {
  const int64_t tile_rows = input.a.tile, tiles = tiles_of(input.a.rows, tile_rows);
  ProductPart part;
  part.int8 = input.int8;
  part.task = {};
  part.task.weight = &m;
  part.task.input = &input.a;
  part.task.y = y;
  part.task.y_stride = m.rows;
  part.task.panel_end = m.panels();
  part.task.tile_end = tiles;
  part.task.unpack = pays_to_unpack(device.kernels(), input, m);
  const int64_t tile_bytes = tile_rows * m.padded_cols * (input.int8 ? 1 : 4);
  const int64_t block =
      std::max((tile_rows == kMatrixRows ? kMatrixBlockBytes : kTileBlockBytes) / tile_bytes, kUnpackTiles);
  part.tile_step = part.task.unpack ? std::min(block, tiles) : tiles;
  part.tile_blocks = (tiles + part.tile_step - 1) / part.tile_step;
  part.panel_step = panel_step(device.threads().size(), m, part.task, part.tile_blocks);
  part.panel_blocks = (m.panels() + part.panel_step - 1) / part.panel_step;
  return part;
}

void run_task(const CpuKernels& k, LinearTask& task, bool int8) {
  if (task.unpack)
    task.scratch = thread_scratch(
        1, static_cast<size_t>(k.linear_scratch_bytes(*task.weight, task.tile_end - task.tile_begin)));
  (int8 ? k.linear_int8 : k.linear_f32)(task);
}

GluKernel glu_kernel(const CpuKernels& k, Activation activation) {
  return activation == Activation::gelu_tanh ? k.geglu : k.swiglu;
}

void clamped_glu(const CpuKernels& k, const ClampedGlu& how, const float* gate, const float* up, float* y,
                 int64_t count) {
  if (how.silu_first)
    k.clamped_swiglu(gate, up, how.limit, y, count);
  else
    k.clamped_glu(gate, up, how.alpha, how.limit, y, count);
}

namespace {

int64_t first_output(const LinearTask& task) {
  return task.panel_begin * kPanelRows;
}

int64_t outputs_of(const LinearTask& task) {
  return std::min(task.panel_end * kPanelRows, task.weight->rows) - first_output(task);
}

}  // namespace

void add_bias_to(const CpuKernels& k, const LinearTask& task, const float* bias, int64_t row_begin,
                 int64_t row_end) {
  const int64_t first = first_output(task);
  for (int64_t r = row_begin; r < row_end; r++) {
    float* y = task.y + r * task.y_stride + first;
    k.add(y, bias + first, y, outputs_of(task));
  }
}

void apply_relu2(const CpuKernels& k, const LinearTask& task, int64_t row_begin, int64_t row_end) {
  for (int64_t r = row_begin; r < row_end; r++) {
    float* y = task.y + r * task.y_stride + first_output(task);
    k.relu2(y, 0, y, outputs_of(task));
  }
}

void apply_up(const CpuKernels& k, const LinearTask& gate, const UpHalf& half, Activation activation,
              int64_t row_begin, int64_t row_end) {
  const int64_t first = first_output(gate), count = outputs_of(gate);
  auto* block = static_cast<float*>(
      thread_scratch(2, static_cast<size_t>((row_end - row_begin) * count) * sizeof(float)));
  LinearTask up = gate;
  up.weight = &half.weight;
  up.input = &half.input.a;
  up.y = block - (row_begin * count + first);
  up.y_stride = count;
  run_task(k, up, half.input.int8);
  if (half.bias) add_bias_to(k, up, half.bias, row_begin, row_end);
  for (int64_t r = row_begin; r < row_end; r++) {
    float *y = gate.y + r * gate.y_stride + first, *other = block + (r - row_begin) * count;
    if (half.clamped)
      clamped_glu(k, *half.clamped, y, other, y, count);
    else
      glu_kernel(k, activation)(y, other, y, count);
  }
}

}  // namespace anabranch::ops::cpu
