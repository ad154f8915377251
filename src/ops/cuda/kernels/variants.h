// The specialisations of the kernels, as host and device see them. A kernel's file is compiled with the
// constant kVariant, of the type that has the file's name (compiler.cc). All members are ints.
#pragma once

namespace anabranch::ops::cuda {

// How a packed matrix is stored (weights.cuh).
struct RecordFormat {
  int kind;    // kPlainValues: the weights are bf16; otherwise what their codes mean (args.h)
  int planes;  // products for an input: planes of values (high, low), or of integers (4 bits each)
  int groups;  // groups of a tile of 64 inputs
};

struct GemvVariant {
  RecordFormat format;
  int row_tiles;    // 8 rows of x each, at a time
  int swiglu;       // two matrices of one size; silu(first) * second is stored
  int tiles;        // 16 rows of weights each, at a time: two halves of a unit of work have as many
  int steps;        // input tiles in a slot of a ring
  int stages;       // slots of a ring
  int lane_inputs;  // not 0: blocks make x of plain rows, and a lane has this many inputs of a row
  int ranks;        // not 0: the inputs are one rank's, and sums are sent to this many ranks
};
struct GemmVariant {
  RecordFormat format;
  int swiglu;        // see GemvVariant
  int rows, tokens;  // of a tile: rows of weights (with SwiGLU, half from each matrix), rows of x
  int split;         // blocks that share a tile
};
struct EmbedVariant {
  RecordFormat format;
};

struct ExpertsVariant {
  RecordFormat format;
  int row_tiles, swiglu, tiles;  // see GemvVariant; tiles: with SwiGLU, half from each matrix
};
struct FewGateUpVariant {
  RecordFormat format;
  int held;  // supports up to 32 * held experts
};
struct FewDownVariant {
  RecordFormat format;
};
struct LowRankDownVariant {
  RecordFormat format;
  int row_tiles;  // see GemvVariant
};

struct AttentionVariant {
  int head_dim, stages;  // stages: of a ring in shared memory, which does not change a result
  int values = 0;        // not 0: values are the last so many dimensions of the keys
};
struct AttentionManyVariant {
  int head_dim, warpgroups;  // a warpgroup has 64 query rows
};

// gated_delta_few.cu (makers: 0) and gated_delta_many.cu. Only the dimensions change a result.
struct DeltaVariant {
  int key_dim, value_dim;     // of a head
  int taps;                   // of the convolution
  int columns, lane_columns;  // of a value head's state: per block, per lane
  int tokens;                 // made at a time
  int makers;                 // threads that only make tokens
};

struct RecurrenceVariant {
  int key_dim;           // padded_key (args.h)
  int delta, key_decay;  // see RecurrenceRule
};

}  // namespace anabranch::ops::cuda
