// Arguments of the kernels, as host and device see them.
#pragma once

namespace anabranch::ops::cuda {

// Of a mixture (ops/experts.h has the same number).
constexpr int kMostExperts = 2048;

// Parts of a dot product, each summed by itself, then added in order.
constexpr int kSegments = 8;

constexpr int kMostExchangeRanks = 8;

// Up to so many rows of activations lie by lanes of a warp, more as Hopper's wgmma reads them.
constexpr int kMostLaneRows = 16;

// Products of few rows, in shared memory: the bytes of 64 inputs of a row, and the floats beside a warp's
// sums for a row. Both spare the banks.
constexpr int kXStride = 128 + 16, kSumsPad = 4;

// Scales of codes are multiplied by 2^kScaleExponent (E4M3 numbers: 2^kE4m3ScaleExponent) and biases by
// 2^-kSumExponent (kernels/weights.cuh): as bits of a bf16 number an integer is 2^133 and an E4M3 number
// 2^120 times too small, and sums are to be 2^kSumExponent too small.
constexpr int kSumExponent = 32, kScaleExponent = 133 - kSumExponent, kE4m3ScaleExponent = 120 - kSumExponent;

// What the codes of a packed matrix are: integers, E4M3 numbers, or from kFirstTable on places in a table of
// kCodeTables; or there are none, but bf16 values.
constexpr int kIntegers = 0, kPlainValues = 1, kE4m3 = 2, kFirstTable = 3;
// Tables after the first have a sign above 8 magnitudes, which takes fewer instructions.
constexpr int kCodeTableCount = 5;
constexpr signed char kCodeTables[kCodeTableCount][16] = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},  // IQ4_NL, IQ4_XS
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},                   // MXFP4, NVFP4: twice E2M1
    {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62},      // IQ3_XXS
    {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15},              // IQ3_S
    {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0}};                    // IQ2_XXS, IQ2_XS, IQ2_S

// Matrices with the same inputs, one after the other (kernels/weights.cuh). `out` [rows of x, rows] f32, plus
// `residual` if there is one; for SWIGLU two matrices of one size, whose silu(first) * second goes to
// `tiles`.
struct MatrixArgs {
  const unsigned char* weights;
  float* out;
  const float* residual;
  int rows, first;  // first: unit of work (GEMV: pairs of 16 rows; GEMM: a tile's rows)
};
// Plain rows, normalised unless weight is null.
struct RowsArgs {
  const float *x, *weight;  // [rows, inputs], [inputs]
  unsigned short* lanes;    // where the result goes by lanes, for other products too; may be null
  int inputs, warps;        // warps: that sum a row's squares (norm_threads() in ops/cuda/elementwise.h)
  float eps;
};
// GEMV of a rank's own inputs: the sums of its segments go to every rank as lines (kernels/lines.cuh),
// [own segments / 2][rows of x][rows of the matrix] of them (own segments: 1: so many) from to[rank] on. The
// lines of all ranks, one rank's after the other's, come to `from`. ranks: 0: no such product.
struct SegmentArgs {
  void* to[kMostExchangeRanks];
  const void* from;
  const unsigned* failed;  // not 0: a rank will not come
  int ranks;
  unsigned epoch;
};
struct LinearArgs {
  MatrixArgs matrix[8];
  int matrices, units;
  const unsigned* x;   // tiles
  float* partial;      // GEMM of split tiles: their segments' sums
  unsigned* counters;  // [tile], 0 before and after
  int input_tiles, rows;
  int row_tiles;          // GEMM: of x, 8 rows each
  int x_rows, first_row;  // GEMV: rows that x is laid out for, rows before these
  unsigned short* tiles;
  int tiles_rows;  // that `tiles` is laid out for
  RowsArgs plain;  // GEMV: what x is made of, where it is not packed
  int early;       // GEMV: slots of weights to ask for before the kernel before has ended
  int all_rows;    // GEMV of a rank's own inputs: of x, in all launches
  SegmentArgs segments;
};

// Rows of x that use one expert, in positions [first, first + count) of the sorted pairs.
struct ExpertTile {
  int expert, first, count;
};
struct RouteArgs {
  const float* logits;        // [rows, experts]
  const float* expert_scale;  // [experts], or null
  int* chosen;                // [rows, top_k]
  float* weights;
  int rows, experts, top_k, sigmoid, normalise;
  float scale;
};
// Sorts the pairs of row and expert by expert, pairs of one expert by row. Expert e's tiles of up to
// `tile_rows` pairs begin at e + its first position / tile_rows, or (compact) at its first position.
struct SortArgs {
  const int* chosen;           // [pairs]
  int* order;                  // [pairs]: the pair of each position
  ExpertTile* tiles;           // [slots]
  unsigned long long* counts;  // [experts]: each expert's pairs are added; may be null
  int pairs, experts, tile_rows, slots, compact;
};
// y = x W^T of every tile, W its expert's matrix; with SWIGLU, activation(first) * second goes to `packed`.
// Position p has row (order ? order[p] : p) / divide of x, and row out_order ? out_order[p] : p of the
// result.
struct ExpertArgs {
  const unsigned char* weights[2];
  const unsigned long long* tables[2];  // where each expert's weights are; null: one after the other
  const unsigned* x;                    // packed by lanes (lane_index())
  const ExpertTile* tiles;              // null: tile p is position p alone, of expert chosen[p]
  const int *chosen, *order, *out_order;
  float* out;                                           // [pairs, rows]
  unsigned short* packed;                               // by lanes
  int rows, input_tiles, x_rows, divide, pairs, units;  // units: of each tile, which blocks take
  int gelu;                                             // the activation: gelu_tanh() instead of silu()
};
// For few rows, each with up to kMostFewTopK experts: the choice of experts, and
// activation(gate x) * (up x) of all pairs of row and expert. The pairs of a row lie together, those of its
// experts in ascending order, then that of the shared expert if there is one.
constexpr int kMostFewTopK = 32;
struct FewGateUpArgs {
  RouteArgs route;
  const unsigned char *weights[2], *shared[2];  // shared: null, or of the experts' size and format
  const unsigned long long* tables[2];          // as in ExpertArgs
  const unsigned* x;                            // packed by lanes
  unsigned short* packed;                       // [pairs] by lanes
  int rows, input_tiles, units, gelu;           // rows: of one matrix; units: 16 of them
};
// Then down of all pairs and their weighted sum, as WeightedSumArgs says.
struct FewDownArgs {
  const unsigned char *weights, *shared;
  const unsigned long long* table;
  const unsigned* x;  // [pairs] packed by lanes
  const int* chosen;
  const float *expert_weights, *gate_logits, *residual;
  float* out;
  unsigned long long* counts;  // [experts]: each pair is counted; may be null
  int rows, input_tiles, x_rows, units, top_k;
};
// y[m] = sum of weights[m][i] * outputs[m][i], then + sigmoid(gate_logits[m]) * shared[m]; then residual[m] +
// that.
struct WeightedSumArgs {
  const float *outputs, *weights;     // [rows * top_k, width], [rows, top_k]
  const float *shared, *gate_logits;  // [rows, width], [rows]; may be null
  float* out;
  int top_k, width;
  const float* residual;  // [rows, width], may be null
  // One row, whose pairs nothing sorts: 1 is added for each of its experts; may be null.
  unsigned long long* counts;
  const int* chosen;
};

struct EmbedArgs {
  const unsigned char* weights;
  const int *ids, *chosen;  // an id below 0: -1 - its place in `chosen`
  float* out;
  int inputs, input_tiles;
};

struct NormArgs {
  const float* x;                       // [rows, inputs]
  const float* weight;                  // null: no norm
  const float* gate;                    // of x's shape
  float* out;                           // [rows, inputs], or null
  unsigned short* tiles;                // or null
  unsigned short* lanes;                // the same packed by lanes whatever the rows, or null
  int rows, inputs, width, tiles_rows;  // width: of what is normalised, divides inputs
  float eps;
  int sigmoid_gate;  // times sigmoid(gate) instead of silu(gate)
};

// f(a, b) element by element; b of `b_count` elements is repeated. With p the parameter: a + b, silu(a) b,
// gelu_tanh(a) b, a sigmoid(b), p a, p tanh(a / p), gelu_tanh(a), gelu_erf(a).
enum PairOp { kAdd, kSwiGlu, kGeGlu, kSigmoidGate, kScale, kSoftCap, kGeluTanh, kGeluErf };
struct PairArgs {
  const float *a, *b;
  float* out;
  long count, b_count;
  int op;
  float parameter;
};

struct LayerNormArgs {
  const float *x, *weight, *bias;  // [rows, inputs], [inputs] x 2
  float* out;                      // [rows, inputs]
  int rows, inputs;
  float eps;
};

struct TakeArgs {
  const float* x;
  const int* rows;
  float* out;
  int width;
};

// Of a row of logits, a block takes a part.
constexpr int kChoosePart = 4096, kChooseThreads = 256, kChosen = 64;
enum ChooseKind { kNotHere, kGreedy, kNoise, kTopK };  // as in RowChoice (ops/choose.h)
struct ChooseRow {
  float temperature, behind_top, top_p;
  int kind, top_k;
  unsigned long long seed, position;
};
struct ChooseArgs {
  const float* logits;  // [rows, vocab]
  const ChooseRow* rows;
  unsigned long long* ranks;  // [rows, parts, kChosen]; the first alone where not so many are asked for
  unsigned long long* best;   // [rows]
  int* chosen;                // [rows]
  int vocab, parts;
};

// A span of query rows. Its work is tiles of query rows, each in `splits` units of up to unit_parts parts.
constexpr int kPart = 128, kJoinedAhead = 6, kAttendSpans = 32, kAttendPairs = 152;
struct AttendSpan {
  int row, count, length, first_pair;  // length: positions with these; pair: of its first block
  int begin;                           // the first part that is seen
  int first_unit, splits, unit_parts;
  int first_slot;  // of its tiles' parts in `sums`
  int whole;       // not 0: its rows see all of its positions
};
struct AttendArgs {
  const float *q, *k, *v;  // as projected [rows][heads][D], [rows][kv heads][D]; each may be null
  const float *q_norm, *k_norm, *inv_freq;  // may be null: no norms, no rotation
  const float* far_inv_freq;                // Rope (ops/rope.h)
  int far_from, query_period;
  float query_beta;
  const int* positions;             // [rows][axes]; null: as the spans say
  const float* axis;                // which of them turns each pair; null: the only one
  float* q_out;                     // f32, or null
  unsigned short* q16;              // [rows][heads][D] f16, or null
  const float* gate;                // of q's shape, or null
  float* out;                       // [rows][heads][D], or null
  unsigned short* tiles;            // the same as activations
  float *sums, *largest;            // of parts [slot][kv head][slot_rows][D], [..][slot_rows][2]
  const unsigned long long* table;  // pairs of addresses of blocks: keys, values; null: `pairs`,
  const AttendSpan* span_table;     // and `span`
  int first_row, rows, heads, kv_heads, pairs_turned, tiles_rows, spans, window;
  int slot_rows, joined_ahead, axes;
  bool prepares;  // attend() does what prepare() does
  float q_eps, k_eps, attention_factor;
  float scale, soft_cap;  // of scores (ScoreSpec in ops/attention.h), times log2(e)
  AttendSpan span[kAttendSpans];
  unsigned long long pairs[2 * kAttendPairs];
};
static_assert(sizeof(AttendArgs) <= 4096, "what a launch takes");

constexpr int kDeltaSpans = 32;
struct WindowArgs {
  float *k, *delta, *decay, *rows;
};
struct DeltaSpan {
  const float* s_in;
  float* s_out;
  const float* conv_in;
  float* conv_out;
  WindowArgs from, to;  // entries to apply first; where the tokens go
  int row, count;
  short entry;           // of the first token in `to`; -1: the tokens are applied for good
  unsigned char replay;  // the first so many entries of `from` are applied first
  bool fold;             // what is replayed is applied for good
};
struct DeltaArgs {
  const float *qkv, *b, *a;  // [rows][channels], [rows][value heads] x 2
  const float *conv_weight, *a_log, *dt_bias;
  float* y;  // [rows][value heads * DV]
  // Not null: the output norm follows at once, and y is not written. `gate` is of y's shape; out as in
  // NormArgs.
  const float *gate, *norm_weight;
  float* out;
  unsigned short* tiles;
  int tiles_rows;
  float eps;
  int sigmoid_gate;  // as in NormArgs
  int key_heads, value_heads;
  int beside;  // the launch before it is one of other states
  DeltaSpan span[kDeltaSpans];
};
static_assert(sizeof(DeltaArgs) <= 4096, "what a launch takes");

// A rank's part of an exchange (ops/cuda/collective.h), in pieces of 16 bytes. Row i of `from` goes to pieces
// [i * all_pieces + first_piece, ... + row_pieces) of each rank's `to`, plus `residual` there, f32, if there
// is one.
struct ExchangeArgs {
  const void* from;
  const void* residual;  // laid out as `to`
  void* to[kMostExchangeRanks];
  void* lines[kMostExchangeRanks];      // exchange_few: of each rank, where others write; else null
  unsigned* flags[kMostExchangeRanks];  // of each rank: the last exchange that the others have told it of
  unsigned* counter;                    // of blocks that are done, 0 before and after
  const unsigned* failed;               // not 0: a rank will not come
  int rows, row_pieces, all_pieces, first_piece;
  int all_rows;  // of `to`; a rank without rows has other pieces to wait for
  int rank, ranks;
  unsigned epoch;  // of this exchange
};

}  // namespace anabranch::ops::cuda
