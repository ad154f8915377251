// The table of CPU kernels, compiled once per instruction set (target_*.cc), and the plain structs that they
// take. Raw pointers only: no MLX or standard library code may be compiled with a target's flags.
//
// A task specifies a part of the output; tasks of one op are disjoint and run on any thread.
#pragma once

#include <cstdint>

#include "base/limits.h"
#include "ops/recurrence_rule.h"

namespace anabranch::ops::cpu {

constexpr int kPanelRows = 16;
constexpr int kMaxTileRows = 8;
constexpr int kMatrixRows = 16;  // rows of a tile for matrix units

// A packed weight matrix (layout: ops/cpu/packed.h). A panel of a coded matrix is a sequence of records: the
// codes of `record` inputs, then the data for their scales and biases.
struct PackedMatrix {
  enum Kind : int { affine, table, fp8, f32, f16, bf16, e8m0, e4m3 };  // e8m0 and e4m3: of scales only
  const uint8_t* data = nullptr;
  int64_t rows = 0, cols = 0, padded_cols = 0;
  int64_t panel_bytes = 0;
  Kind kind = f32;
  // affine, table and fp8 only:
  Kind scale_type = f32;
  float scale_factor = 1;     // of every scale; 1 for affine
  bool block_scales = false;  // f16 factors times integers, instead of values of scale_type
  int bits = 0, group = 0;
  bool symmetric = false;
  float zero_point = 0;  // bias = -zero_point * scale when symmetric
  int record = 0, record_bytes = 0;
  int factor_offset = 0, scale_offset = 0, bias_offset = 0;  // within a record
  // table only: the values plus 128, and the smallest n such that all values are in [-n, n).
  uint8_t values[16] = {};
  int most = 0;
  bool has_nan = false;  // fp8 only: some codes are NaN

  bool coded() const { return kind == affine || kind == table || kind == fp8; }
  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t groups() const { return padded_cols / group; }
  int64_t records() const { return padded_cols / record; }
};

// Activations in the format of the linear kernels. Rows are cut into tiles of `tile` rows (the last may be
// shorter; h is its height). All data of tile t are adjacent: q [padded_cols / 4][h][4], x [padded_cols][h],
// scale [x groups][h], sum and int_sum [weight groups][h].
// Tiles of kMatrixRows rows are for matrix units: all have this height, with zeros after the last row, and q
// is [padded_cols / w][kMatrixRows][w], where w is matrix_width(group).
struct Activations {
  int64_t rows = 0, cols = 0, padded_cols = 0;
  int64_t tile = 1;
  int group = 0;    // weight group
  int x_group = 0;  // inputs that share an activation scale: max(group, 32)
  int8_t* q = nullptr;
  float* scale = nullptr;
  float* sum = nullptr;  // int8: scale * (sum of q in the weight group); fp32: sum of x in the weight group
  int32_t* int_sum = nullptr;
  float* x = nullptr;
};

static constexpr int matrix_width(int group) {
  return group >= 64 ? 64 : 32;
}

// Computes y[row * y_stride + 16 * panel + lane] for the rows of tiles [tile_begin, tile_end) and for panels
// [panel_begin, panel_end).
struct LinearTask {
  const PackedMatrix* weight;
  const Activations* input;
  float* y;
  int64_t y_stride;
  int64_t panel_begin, panel_end, tile_begin, tile_end;
  bool unpack;    // unpack the codes once for all tiles, instead of reading the packed codes for each tile
  void* scratch;  // linear_scratch_bytes(weight, tiles), when unpack
};

struct RopeTask {
  const float* x;
  float* y;
  const float* cosines;  // [rows, d]
  const float* sines;
  int64_t row_begin, row_end, heads, head_dim, d;
};

// So many panels stay in the cache for all rows. Fewer would read too little of a row of y in one piece.
constexpr int kLowRankPanels = 32;
// Adds to panels [panel_begin, panel_end) of 16 outputs what ops/low_rank.h says, for the rows of one part.
struct LowRankTask {
  const float* z = nullptr;   // [rows, rank]
  const float* up = nullptr;  // [out, rank]
  float* y = nullptr;         // [rows, out]
  float scale = 1;
  int64_t rows = 0, rank = 0, out = 0;
  int64_t panel_begin = 0, panel_end = 0;
};

// One layer's cache, for the kernels; blocks of 256 positions.
struct AttentionArgs {
  const void* const* k_blocks = nullptr;  // each [Hkv, 16, D, 16] (see ops/cpu/attention.h)
  // Each [Hkv, ceil(D / 16), 256, 16]; null: values are the last value_dim dimensions of the keys.
  const void* const* v_blocks = nullptr;
  bool half = true;  // f16, else f32
  int64_t kv_heads = 0, heads = 0, head_dim = 0, value_dim = 0;
  int64_t tokens = 0, first_position = 0;  // query row t is at position first_position + t
  int64_t window = 0;
  bool whole = false;             // rows see all positions up to the last row's
  float scale = 0, soft_cap = 0;  // see ScoreSpec (ops/attention.h)
  const float* sinks = nullptr;   // [Hq]; null: none
  const float* q = nullptr;       // [T, Hq, D]
  float* out = nullptr;           // [T, Hq, value_dim]
};

// The partial softmax of some rows over the blocks seen so far: accumulators relative to the maximum. Before
// the first block max is -infinity, sum and acc are 0.
struct AttentionPartial {
  float* max;  // [rows, padded to a multiple of 16]
  float* sum;  // the same shape
  float* acc;  // [rows, padded value_dim]
};

// Entries of draft tokens, f32: k [n, Hk, Dk], delta [n, Hv, Dv], decay [n, Hv] or [n, Hv, Dk], rows [n, C].
struct DeltaWindow {
  float *k = nullptr, *delta = nullptr, *decay = nullptr, *rows = nullptr;
};

struct RecurrenceArgs {
  int64_t tokens = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, conv_kernel = 0,
          channels = 0;
  const float *qkv = nullptr, *z = nullptr, *b = nullptr, *a = nullptr;
  const float *conv_weight = nullptr, *a_log = nullptr, *dt_bias = nullptr, *norm_weight = nullptr;
  const float *conv_bias = nullptr, *skip = nullptr;  // null: none
  RecurrenceRule rule;
  float eps = 0;
  bool sigmoid_gate = false;
  const float* conv_state = nullptr;  // rows that precede qkv, [kernel - 1, C]
  const float* s_in = nullptr;        // [Hv, Dk, Dv]
  float* s_out = nullptr;             // may be s_in
  float* y = nullptr;                 // [T, Hv * Dv]

  DeltaWindow window;
  int64_t replay = 0;  // number of leading window entries that are applied to S before the tokens
  bool fold = false;   // these entries are accepted, and stored in s_out (conv_state already has their rows);
                       // otherwise they are drafts
  bool draft = false;  // the tokens become entries [entry, entry + T) and leave s_out alone
  int64_t entry = 0;
  float* draft_keys = nullptr;   // receives the drafts' keys, [T, Hk * Dk]
  float* products = nullptr;     // short_conv(): receives B * x, [T, C]; qkv is the same memory
  const float* gated = nullptr;  // short_conv(): B, C and x, [T, 3 C]; null: qkv is x, and B and C are 1
};

// Value heads [begin, end) of a key head, which are computed together. first: they are the first of a
// thread's share, so their states have not been prefetched, and are fetched at once. next: states of the
// value head that this thread reads after these, to be prefetched; may be null. Neither changes a result.
struct HeadsTask {
  int64_t key_head = 0, begin = 0, end = 0;
  bool first = false;
  const float* next = nullptr;
};

struct CpuKernels {
  const char* name;
  int tile_rows;      // Activations::tile for the linear kernels
  int tall_rows;      // maximum of Activations::tile for linear_int8 without unpack
  bool unpacks_int8;  // LinearTask::unpack pays in linear_int8 for many rows
  int matrix_from;    // matrix units pay from this number of rows on; 0: there are none

  // Activations of rows [begin, end) (multiples of tile, or the end).
  void (*prepare_int8)(const float* x, const Activations& out, int64_t begin, int64_t end);
  void (*prepare_f32)(const float* x, const Activations& out, int64_t begin, int64_t end);
  int64_t (*linear_scratch_bytes)(const PackedMatrix& weight, int64_t tiles);
  void (*linear_int8)(const LinearTask& task);  // affine and table only
  void (*linear_f32)(const LinearTask& task);   // any kind
  void (*embed_row)(const PackedMatrix& weight, int64_t row, float* y);

  void (*rms_norm)(const float* x, const float* w, float eps, float* y, int64_t rows, int64_t k);
  void (*layer_norm)(const float* x, const float* w, const float* b, float eps, float* y, int64_t rows,
                     int64_t k);
  void (*gelu_tanh)(const float* x, float unused, float* y, int64_t count);
  void (*gelu_erf)(const float* x, float unused, float* y, int64_t count);
  void (*relu2)(const float* x, float unused, float* y, int64_t count);
  void (*xielu)(const float* x, float positive, float negative, float linear, float near, float* y,
                int64_t count);
  void (*add)(const float* a, const float* b, float* y, int64_t count);
  // y += scale * x
  void (*add_scaled)(const float* x, float scale, float* y, int64_t count);
  void (*swiglu)(const float* gate, const float* up, float* y, int64_t count);
  void (*geglu)(const float* gate, const float* up, float* y, int64_t count);  // with gelu_tanh
  void (*clamped_glu)(const float* gate, const float* up, float alpha, float limit, float* y, int64_t count);
  void (*clamped_swiglu)(const float* gate, const float* up, float limit, float* y, int64_t count);
  void (*scale)(const float* x, float factor, float* y, int64_t count);
  void (*soft_cap)(const float* x, float cap, float* y, int64_t count);
  void (*sigmoid_gate)(const float* x, const float* gate, float* y, int64_t count);
  void (*rope)(const RopeTask& task);
  void (*add_low_rank)(const LowRankTask& task);
  // exp, sigmoid, silu, softplus, exp2, tanh, gelu_tanh, gelu_erf (which = 0 .. 7), for accuracy tests.
  void (*math)(int which, const float* x, float* y, int64_t count);

  // f32 -> f16 with saturation at +-65504.
  void (*to_f16)(const float* x, uint16_t* y, int64_t count);
  int64_t (*attention_scratch_floats)(const AttentionArgs& args, int64_t rows);
  // Scales and packs query rows [row_begin, row_end) (row = token * group + head in group) of a kv head for
  // attention_block: rows * head_dim floats.
  void (*attention_pack)(const AttentionArgs& args, int64_t kv_head, int64_t row_begin, int64_t row_end,
                         float* to);
  // Merges block `block` into the result of these rows. next_keys: the keys that this thread reads next,
  // which are prefetched; may be null.
  void (*attention_block)(const AttentionArgs& args, int64_t kv_head, int64_t row_begin, int64_t row_end,
                          int64_t block, const float* q, const void* next_keys, const AttentionPartial& into,
                          float* scratch);
  // Merges `from` into `into`, in that order.
  void (*attention_merge)(const AttentionArgs& args, int64_t rows, const AttentionPartial& into,
                          const AttentionPartial& from);
  void (*attention_finish)(const AttentionArgs& args, int64_t kv_head, int64_t row_begin, int64_t row_end,
                           const AttentionPartial& from);

  // heads: the most value heads of a task.
  int64_t (*recurrence_scratch_floats)(const RecurrenceArgs& args, int64_t heads);
  // The op for some value heads of a key head, all tokens, without the norm if RecurrenceRule::norms_rows().
  void (*recurrence_heads)(const RecurrenceArgs& args, const HeadsTask& task, float* scratch);
  // That norm: of group `group` of a token's outputs.
  void (*recurrence_norm)(const RecurrenceArgs& args, int64_t token, int64_t group);
  // Channels [begin, end) of all tokens.
  void (*short_conv)(const RecurrenceArgs& args, int64_t begin, int64_t end);

  // Probe: `rounds` of the inner loops with all registers in use; returns the number of operations (multiply
  // and add each count).
  double (*peak_int8)(int64_t rounds);
  double (*peak_f32)(int64_t rounds);
  // Probe: reads `bytes` (a multiple of 64) once.
  void (*read_bytes)(const uint8_t* from, int64_t bytes);

  // Rows of `streams` streams of `width` values (ops/streams.h).
  void (*mix_streams)(const float* x, const float* gates, float* y, int64_t streams, int64_t width);
  void (*add_to_streams)(const float* x, const float* y, const float* weights, float* out, int64_t streams,
                         int64_t width);
  void (*gate_streams)(const float* keys, const float* queries, const float* values, float* out,
                       int64_t streams, int64_t width);
  // Adds the keys of positions [first, last) of a block of one head to sum [d].
  void (*add_keys)(const void* block, bool half, int64_t d, int64_t first, int64_t last, float* sum);
  // One row's scores of `count` keys [count, d] (ops/indexed_attention.h).
  void (*index_scores)(const float* q, const float* keys, float* scores, int64_t heads, int64_t d,
                       int64_t count);
};

// What replaces kernels of another table where a processor has matrix units.
struct MatrixKernels {
  const char* name;
  int from;  // CpuKernels::matrix_from
  void (*prepare_int8)(const float* x, const Activations& out, int64_t begin, int64_t end);
  int64_t (*linear_scratch_bytes)(const PackedMatrix& weight, int64_t tiles);
  void (*linear_int8)(const LinearTask& task);
  double (*peak_int8)(int64_t rounds);
};

// Null when this build lacks the target. These functions run on every machine: they only return the address
// of a constant.
const MatrixKernels* kernels_avx512_amx();
const CpuKernels* kernels_avx512_vnni();
const CpuKernels* kernels_avx512();
const CpuKernels* kernels_avx2();
const CpuKernels* kernels_neon_dotprod();
const CpuKernels* kernels_neon();
const CpuKernels* kernels_portable();

}  // namespace anabranch::ops::cpu
