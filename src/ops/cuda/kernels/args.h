// Arguments of the kernels, as host and device see them.
#pragma once

namespace anabranch::ops::cuda {

// Maximum number of experts in a mixture (must equal the constant in ops/experts.h).
constexpr int kMostExperts = 2048;

// Number of segments of a dot product; each is summed by itself, then they are added in order.
constexpr int kSegments = 8;

constexpr int kMostExchangeRanks = 8;

// Up to this many rows of activations are stored by lanes of a warp; more rows are stored as Hopper's wgmma
// reads them.
constexpr int kMostLaneRows = 16;

// For products of few rows, in shared memory: the stride in bytes between rows of 64 inputs of x, and the
// padding in floats of a warp's sums for a row. Both avoid bank conflicts.
constexpr int kXStride = 128 + 16, kSumsPad = 4;

// Scales of codes are multiplied by 2^kScaleExponent (for E4M3 numbers: 2^kE4m3ScaleExponent) and biases by
// 2^-kSumExponent (kernels/weights.cuh). Reason: read as the bits of a bf16 number, an integer is 2^133 times
// and an E4M3 number 2^120 times too small, and sums shall be 2^kSumExponent times too small.
constexpr int kSumExponent = 32, kScaleExponent = 133 - kSumExponent, kE4m3ScaleExponent = 120 - kSumExponent;

// The kinds of a packed matrix: codes that are integers, E4M3 numbers, or (from kFirstTable on) indices into
// a table of kCodeTables; or no codes, but bf16 values.
constexpr int kIntegers = 0, kPlainValues = 1, kE4m3 = 2, kFirstTable = 3;
// Tables after the first are 8 magnitudes and a sign, which takes fewer instructions.
constexpr int kCodeTableCount = 5;
constexpr signed char kCodeTables[kCodeTableCount][16] = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},  // IQ4_NL, IQ4_XS
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},                   // MXFP4, NVFP4: twice E2M1
    {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62},      // IQ3_XXS
    {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15},              // IQ3_S
    {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43, 0, 0, 0, 0, 0}};                    // IQ2_XXS, IQ2_XS, IQ2_S

// One of the matrices of a launch, which all have the same inputs; the layout of `weights` is that of
// kernels/weights.cuh. `out` [rows of x, rows] f32, plus `residual` if it is not null. With SWIGLU there are
// two matrices of one size, and silu(first) * second is stored in `tiles`.
struct MatrixArgs {
  const unsigned char* weights;
  float* out;
  const float* residual;
  int rows, first;  // first: its first unit of work (GEMV: pairs of 16 rows; GEMM: a tile's rows)
};
// Rows of x that are plain f32, not packed; the product normalises them unless weight is null.
struct RowsArgs {
  const float *x, *weight;  // [rows, inputs], [inputs]
  unsigned short* lanes;    // also receives the result by lanes, for other products; may be null
  int inputs, warps;        // warps: that sum a row's squares (norm_threads() in ops/cuda/elementwise.h)
  float eps;
};
// For a GEMV of a rank's own inputs: each rank sends the sums of its segments to every rank as lines
// (kernels/lines.cuh). to[r]: where rank r receives them, [own segments / 2][rows of x][rows of the matrix]
// lines (with one own segment: 1 instead of own segments / 2). from: where this rank receives the lines of
// all ranks, in order of rank. ranks: 0 for other products.
struct SegmentArgs {
  void* to[kMostExchangeRanks];
  const void* from;
  const unsigned* failed;  // not 0: a rank has failed
  int ranks;
  unsigned epoch;
};
struct LinearArgs {
  MatrixArgs matrix[8];
  int matrices, units;
  const unsigned* x;   // packed tiles
  float* partial;      // GEMM of split tiles: the sums of their segments
  unsigned* counters;  // [tile], 0 before and after a launch
  int input_tiles, rows;
  int row_tiles;          // GEMM: tiles of x, 8 rows each
  int x_rows, first_row;  // GEMV: rows in the layout of x; first row of this launch
  unsigned short* tiles;
  int tiles_rows;  // number of rows in the layout of `tiles`
  RowsArgs plain;  // GEMV: the rows to make x from, if x is not packed
  int early;       // GEMV: slots of weights to request before the previous kernel has ended
  int all_rows;    // GEMV of a rank's own inputs: rows of x in all launches
  SegmentArgs segments;
};

// Rows of x that use one expert: positions [first, first + count) of the sorted pairs.
struct ExpertTile {
  int expert, first, count;
};
struct RouteArgs {
  const float* logits;                      // [rows, experts]
  const float *expert_scale, *choice_bias;  // [experts], or null
  int* chosen;                              // [rows, top_k]
  float* weights;
  int rows, experts, top_k, sigmoid, normalise, groups, top_groups, best_of_group;
  float scale, least_sum, added_sum, tolerance;
};
// y[p] += bias[e], where e is the expert of the pair at position p: chosen[order ? order[p] : p].
struct ExpertBiasArgs {
  float* y;  // [pairs, width]
  const float* bias;
  const int *chosen, *order;
  int pairs, width;
};
// Sorts the (row, expert) pairs by expert, then by row. Expert e's tiles of up to `tile_rows` pairs begin at
// slot e + its first position / tile_rows, or (compact) at its first position.
struct SortArgs {
  const int* chosen;           // [pairs]
  int* order;                  // [pairs]: the pair of each position
  ExpertTile* tiles;           // [slots]
  unsigned long long* counts;  // [experts]: the number of pairs is added; may be null
  int pairs, experts, tile_rows, slots, compact;
};
// y = x W^T for every tile, where W is its expert's matrix; with SWIGLU, activation(first) * second is stored
// in `packed`. Position p uses row (order ? order[p] : p) / divide of x, and stores to row out_order ?
// out_order[p] : p.
struct ExpertArgs {
  const unsigned char* weights[2];
  const unsigned long long* tables[2];  // addresses of each expert's weights; null: experts follow each other
  const unsigned* x;                    // packed by lanes (lane_index())
  const ExpertTile* tiles;              // null: tile p is position p alone, of expert chosen[p]
  const int *chosen, *order, *out_order;
  float* out;                                           // [pairs, rows]
  unsigned short* packed;                               // by lanes
  int rows, input_tiles, x_rows, divide, pairs, units;  // units: blocks per tile
  int gelu;                                             // activation: gelu_tanh() instead of silu()
  // Not 0: experts are the heads of so many rows, and all are used: position p is row p % head_rows of head
  // p / head_rows, and x and out have the heads of a row side by side.
  int head_rows, heads;
};
// For few rows, each with up to kMostFewTopK experts: the choice of experts, and activation(gate x) * (up x)
// of all (row, expert) pairs. The pairs of a row are adjacent: its experts in ascending order, then the
// shared expert if there is one.
constexpr int kMostFewTopK = 32;
struct FewGateUpArgs {
  RouteArgs route;
  const unsigned char *weights[2], *shared[2];  // shared: null, or with the experts' size and format
  const unsigned long long* tables[2];          // see ExpertArgs
  const unsigned* x;                            // packed by lanes
  unsigned short* packed;                       // [pairs] by lanes
  int rows, input_tiles, units, gelu;           // rows: of one matrix; units: 16 of them
};
// Then the down products of all pairs and their weighted sum; see WeightedSumArgs.
struct FewDownArgs {
  const unsigned char *weights, *shared;
  const unsigned long long* table;
  const unsigned* x;  // [pairs] packed by lanes
  const int* chosen;
  const float *expert_weights, *gate_logits, *residual;
  float* out;
  unsigned long long* counts;  // [experts]: the number of pairs is added; may be null
  int rows, input_tiles, x_rows, units, top_k;
};
// y[m] = sum of weights[m][i] * outputs[m][i], plus sigmoid(gate_logits[m]) * shared[m], plus residual[m].
struct WeightedSumArgs {
  const float *outputs, *weights;     // [rows * top_k, width], [rows, top_k]
  const float *shared, *gate_logits;  // [rows, width], [rows]; may be null
  float* out;
  int top_k, width;
  const float* residual;  // [rows, width], may be null
  // For a single row, whose pairs are not sorted: 1 is added for each of its experts; may be null.
  unsigned long long* counts;
  const int* chosen;
};

struct EmbedArgs {
  const unsigned char* weights;
  const int *ids, *chosen;  // an id below 0 means element -1 - id of `chosen`
  float* out;
  int inputs, input_tiles;
};

struct NormArgs {
  const float* x;                       // [rows, inputs]
  const float* weight;                  // null: no norm
  const float* gate;                    // same shape as x
  float* out;                           // [rows, inputs], or null
  unsigned short* tiles;                // or null
  unsigned short* lanes;                // the same packed by lanes for any number of rows, or null
  int rows, inputs, width, tiles_rows;  // width: of the normalised part, divides inputs
  float eps;
  int sigmoid_gate;  // multiply by sigmoid(gate) instead of silu(gate)
  int gate_first;    // norm_groups: the norm is that of the gated numbers
};

// out = f(a, b) element by element; if b has fewer elements (`b_count`), it is repeated. f by op, with p for
// the parameters: a + b, silu(a) b, gelu_tanh(a) b, a sigmoid(b), p a, p tanh(a / p), gelu_tanh(a),
// gelu_erf(a), max(a, 0)^2, and what ops/elementwise.h says of Xielu and ClampedGlu (without silu_first, with
// it), whose members are the parameters in order.
enum PairOp {
  kAdd,
  kSwiGlu,
  kGeGlu,
  kSigmoidGate,
  kScale,
  kSoftCap,
  kGeluTanh,
  kGeluErf,
  kRelu2,
  kXielu,
  kClampedGlu,
  kClampedSilu
};
struct PairArgs {
  const float *a, *b;
  float* out;
  long count, b_count;
  int op;
  float parameter, more[3];
};

// Heads of rows (ops/heads.h): `count` numbers, `width` of each head, from a_width and b_width of the
// operands. A gate has one number for each head.
enum HeadOp { kJoinHeads, kCutHeads, kSigmoidHeads, kSoftplusHeads };
struct HeadArgs {
  const float *a, *b;
  float* out;
  long count;
  int width, a_width, b_width, op;
};

struct LayerNormArgs {
  const float *x, *weight, *bias;  // [rows, inputs], [inputs] x 2
  float* out;                      // [rows, inputs]
  int rows, inputs;
  float eps;
};

// The down-projections of adapters (ops/low_rank.h). kDownTiles input tiles are one piece of z. A block adds
// up `joined` of them, for 16 of a part's columns and some of its rows, and stores the sum as a piece; of
// many rows it joins all, to save memory. first: the part's first block.
constexpr int kDownTiles = 16, kDownParts = 64;
struct LowRankDownPart {
  const unsigned char* weights;
  float* z;  // [pieces, count, columns]
  int columns, begin, count, first;
};
struct LowRankDownArgs {
  const unsigned* x;                               // packed
  int x_rows, input_tiles, joined, pieces, parts;  // x_rows: in the layout of x; pieces: that are stored
  LowRankDownPart part[kDownParts];
};
static_assert(sizeof(LowRankDownArgs) <= 4096, "what a launch takes");

// What adapters add to outputs that have the same rows, and the activation of two of them (ops/low_rank.h).
// A block takes 64 outputs and block_rows rows (1 or kLowRankRows), from first_row on: one of few rows, so
// that parts of different rows are added at the same time, and more of many, which share the weights.
constexpr int kLowRankParts = 64, kLowRankOutputs = 8, kLowRankRows = 8, kLowRankThreads = 64;
struct LowRankPart {
  const float *z, *up;  // z: of its first column; [pieces, count, columns], [out, rank]
  float scale;
  int rank, columns, pieces, begin, count;
  int at;  // of ProductAdds: its first number of z in shared memory
};
// Parts [first_part, end_part), in order; first: the output's first block.
struct LowRankOutputArgs {
  float* y;  // [.., out]
  int out, first, first_part, end_part;
};
struct LowRankArgs {
  unsigned short* tiles;  // null, or activation(y of output 0) * (y of output 1) is stored here, packed
  int tiles_rows, gelu;
  int outputs, first_row, end_row, block_rows;
  LowRankOutputArgs output[kLowRankOutputs];
  LowRankPart part[kLowRankParts];
};
static_assert(sizeof(LowRankArgs) <= 4096, "what a launch takes");
// The same as a part of a product's launch (gemv.cuh): each matrix m has the parts [end[m - 1], end[m]), in
// order. A block holds all numbers of z that they read, with their pieces added up.
constexpr int kAddedNumbers = 1024, kAddedParts = 64;
struct ProductAdds {
  int parts, numbers;
  int end[8];
  LowRankPart part[kAddedParts];
};
struct AdaptedLinearArgs {
  LinearArgs linear;
  ProductAdds adds;
};
static_assert(sizeof(AdaptedLinearArgs) <= 4096, "what a launch takes");

struct TakeArgs {
  const float* x;
  const int* rows;
  float* out;
  int width;
};

// The part of a row of logits that a block processes.
constexpr int kChoosePart = 4096, kChooseThreads = 256, kChosen = 64;
enum ChooseKind { kNotHere, kGreedy, kNoise, kTopK };  // see RowSampling (ops/choose.h)
struct ChooseRow {
  float temperature, behind_top, top_p;
  int kind, top_k;
  unsigned long long seed, position;
};
struct ChooseArgs {
  const float* logits;  // [rows, vocab]
  const ChooseRow* rows;
  unsigned long long* ranks;  // [rows, parts, kChosen]; only the first of kChosen unless kTopK
  unsigned long long* best;   // [rows]
  int* chosen;                // [rows]
  int vocab, parts;
};

// A span of query rows. Its work is tiles of query rows, each divided into `splits` units of up to unit_parts
// parts.
constexpr int kPart = 128, kJoinedAhead = 6, kAttendSpans = 32, kAttendPairs = 151;
struct AttendSpan {
  int row, count, length, first_pair;  // length: of the sequence, including these rows; first_pair: pair of
                                       // addresses of its first block
  int begin;                           // the first visible part
  int first_unit, splits, unit_parts;
  int first_slot;  // slot of its first tile's first part in `sums`
  int whole;       // not 0: its rows see all positions of the span's sequence
};
struct AttendArgs {
  const float *q, *k, *v;  // projections [rows][heads][D], [rows][kv heads][D]; each may be null
  const float *q_norm, *k_norm, *inv_freq;  // may be null: no norms, no rotation
  const float* far_inv_freq;                // Rope (ops/rope.h)
  int far_from, query_period;
  float query_beta;
  const int* positions;             // [rows][axes]; null: they follow from the spans
  const float* axis;                // index of the position that rotates each pair; null: there is only one
  float* q_out;                     // f32, or null
  unsigned short* q16;              // [rows][heads][D] f16, or null
  const float* gate;                // same shape as q, or null
  float* out;                       // [rows][heads][D], or null
  unsigned short* tiles;            // the same as packed activations
  float *sums, *largest;            // per part: [slot][kv head][slot_rows][D], [..][slot_rows][2]
  const unsigned long long* table;  // pairs of addresses of blocks: keys, values; if null, `pairs`
  const AttendSpan* span_table;     // and `span` are used
  int first_row, rows, heads, kv_heads, pairs_turned, tiles_rows, spans, window;
  int slot_rows, joined_ahead, axes;
  bool prepares;  // attend() also does the work of prepare()
  float q_eps, k_eps, attention_factor;
  float scale, soft_cap;  // of scores (ScoreSpec in ops/attention.h), times log2(e)
  const float* sinks;     // [heads], or null
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
  WindowArgs from, to;  // entries to apply first; destination of the tokens' entries
  int row, count;
  short entry;           // index of the first token in `to`; -1: the tokens are applied permanently
  unsigned char replay;  // number of leading entries of `from` that are applied first
  bool fold;             // the replayed entries are applied permanently
};
struct DeltaArgs {
  const float *qkv, *b, *a;  // [rows][channels], [rows][value heads] x 2
  const float *conv_weight, *a_log, *dt_bias;
  float* y;  // [rows][value heads * DV]
  // gate not null: the output norm is applied in the same launch, and y is not written. gate has the shape of
  // y; out: see NormArgs.
  const float *gate, *norm_weight;
  float* out;
  unsigned short* tiles;
  int tiles_rows;
  float eps;
  int sigmoid_gate;  // see NormArgs
  int key_heads, value_heads;
  int beside;  // the previous launch is for other states
  DeltaSpan span[kDeltaSpans];
};
static_assert(sizeof(DeltaArgs) <= 4096, "what a launch takes");

// A recurrence of any rule (recurrence_tokens.cu, recurrence.cu). Its tokens are made in memory first, with
// 0 after the numbers of a head: queries and keys [rows][key heads][padded_key], values [rows][value
// heads][padded_value], beta [rows][value heads], decays the same, or with key_decay [..][padded_key].
constexpr int kRecurrenceColumns = 32, kMostKeyDim = 256;
struct RecurrenceArgs {
  const float *qkv, *b, *a;
  const float *conv_weight, *conv_bias, *a_log, *dt_bias, *skip;  // the biases and skip may be null
  float *queries, *keys, *values, *decay, *beta;
  float* y;  // [rows][value heads * DV]
  int key_heads, value_heads, key_dim, value_dim, taps;
  int padded_key, padded_value;  // the dims, rounded up to multiples of kRecurrenceColumns
  int beta_rule, decay_rule;     // RecurrenceRule's enums
  int unit_keys, key_decay;
  float bound, step_min, step_max;
  int beside;  // see DeltaArgs
  DeltaSpan span[kDeltaSpans];
};
static_assert(sizeof(RecurrenceArgs) <= 4096, "what a launch takes");

// A short convolution. in: [rows][3][channels] (B, C and x), or [rows][channels] if it is not gated.
struct ShortConvArgs {
  const float *in, *weight, *bias;  // bias may be null
  float* out;                       // [rows][channels], or null
  unsigned short* tiles;            // or null
  int channels, taps, gated, tiles_rows;
  int beside;  // see DeltaArgs
  DeltaSpan span[kDeltaSpans];
};
static_assert(sizeof(ShortConvArgs) <= 4096, "what a launch takes");

// A rank's part of an exchange (ops/cuda/collective.h), in pieces of 16 bytes. Row i of `from` is written to
// pieces [i * all_pieces + first_piece, ... + row_pieces) of each rank's `to`, plus the f32 values of
// `residual` at that place, if there is one.
struct ExchangeArgs {
  const void* from;
  const void* residual;  // same layout as `to`
  void* to[kMostExchangeRanks];
  void* lines[kMostExchangeRanks];      // exchange_few: each rank's memory for lines; else null
  unsigned* flags[kMostExchangeRanks];  // of each rank: the number of the last exchange that each other rank
                                        // has reported to it
  unsigned* counter;                    // number of finished blocks, 0 before and after
  const unsigned* failed;               // not 0: a rank has failed
  int rows, row_pieces, all_pieces, first_piece;
  int all_rows;  // rows of `to`; also set on a rank without own rows, which waits for all pieces
  int rank, ranks;
  unsigned epoch;  // number of this exchange
};

}  // namespace anabranch::ops::cuda
