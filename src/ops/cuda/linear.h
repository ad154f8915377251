// Matrix products on the device. A packed MatmulInput holds bf16 in tiles: inputs [64 i, 64 i + 64) of all
// rows are tile i, of 128 bytes for each of layout_rows() rows. Within a tile the values lie as the kernel
// for that many rows reads them (kernels/common.cuh). What the last tile has beyond the inputs is 0. linear()
// and linear_add() take plain and packed input; linear_swiglu(), attend() and gated_delta() give packed rows.
#pragma once

#include <span>
#include <vector>

#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/linear.h"

namespace anabranch::ops::cuda {

constexpr int kTileInputs = 64;  // of a tile of packed rows

// Uninitialised packed rows.
MatmulInput make_packed(CudaDevice& on, int rows, int inputs);
// The same, for kernels that write the inputs and nothing beyond them.
MatmulInput make_packed_cleared(CudaDevice& on, int rows, int inputs);
// Rows that packed rows are laid out for.
int layout_rows(int rows);
// The same layout for any number of rows as make_packed() has for the fewest: by lanes of a warp. Cleared
// where `cleared` and the last tile has more than the inputs.
MatmulInput make_lanes(CudaDevice& on, int rows, int inputs, bool cleared);

// Whether products normalise these plain rows in each block for itself: few, and not too long. A warp takes a
// part of a row.
bool normed_by_blocks(int rows, int inputs);

std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights, const RowNorm* norm);
// The same where normed_by_blocks(). The normalised rows go to `lanes` (make_lanes()) as well.
std::vector<Tensor> linear_of_few(const Tensor& x, std::span<const Weight* const> weights,
                                  const RowNorm& norm, const MatmulInput& lanes);
Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual);
// Collective::multiply_own_inputs(), where `segments` says: columns [out, own inputs] -> [rows, out].
Tensor multiply_own_inputs(const MatmulInput& own, const Weight& columns, const Tensor* residual,
                           const SegmentArgs& segments);
MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation);
// The same of packed rows, which are normalised.
MatmulInput linear_swiglu(const MatmulInput& packed, const Weight& gate, const Weight& up,
                          Activation activation);
Tensor embed(std::span<const int> ids, const Weight& table);
Tensor embed_chosen(std::span<const int> ids, const Tensor& chosen, const Weight& table);

}  // namespace anabranch::ops::cuda
