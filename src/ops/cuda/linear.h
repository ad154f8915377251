// Matrix products on the device. A packed MatmulInput holds bf16 in tiles: tile i has inputs [64 i, 64 i +
// 64) of all rows, 128 bytes for each of layout_rows() rows. The order of values within a tile is that of the
// kernel for that many rows (kernels/common.cuh). Padding after the last input is 0. linear() and
// linear_add() take plain and packed input; linear_swiglu(), attend() and gated_delta() return packed rows.
#pragma once

#include <span>
#include <vector>

#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/linear.h"

namespace anabranch::ops::cuda {

constexpr int kTileInputs = 64;  // per tile of packed rows

// Uninitialised packed rows.
MatmulInput make_packed(CudaDevice& on, int rows, int inputs);
// The same, for kernels that write the inputs but not the padding.
MatmulInput make_packed_cleared(CudaDevice& on, int rows, int inputs);
// The number of rows that the layout of `rows` packed rows has room for.
int layout_rows(int rows);
// Uninitialised packed rows in the layout by lanes of a warp, which make_packed() uses only for few rows. If
// `cleared`, a last tile with padding is cleared.
MatmulInput make_lanes(CudaDevice& on, int rows, int inputs, bool cleared);

// Whether every block of a product normalises these plain rows itself: only if there are few and they are not
// too long. Each of its warps then processes a part of a row.
bool normed_by_blocks(int rows, int inputs);

MatmulInput pack(const MatmulInput& x, const RowNorm* norm);
std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights, const RowNorm* norm);
// Products of rows for which normed_by_blocks() is true. The normalised rows are also written to `lanes`
// (make_lanes()).
std::vector<Tensor> linear_of_few(const Tensor& x, std::span<const Weight* const> weights,
                                  const RowNorm& norm, const MatmulInput& lanes);
Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual);
// Implements Collective::multiply_own_inputs(). columns: [out, own inputs]; segments: the group's memory.
// Returns [rows, out].
Tensor multiply_own_inputs(const MatmulInput& own, const Weight& columns, const Tensor* residual,
                           const SegmentArgs& segments);
MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation);
// The same for packed rows, which are already normalised.
MatmulInput linear_swiglu(const MatmulInput& packed, const Weight& gate, const Weight& up,
                          Activation activation);
Tensor embed(std::span<const int> ids, const Weight& table);
Tensor embed_chosen(std::span<const int> ids, const Tensor& chosen, const Weight& table);

}  // namespace anabranch::ops::cuda
