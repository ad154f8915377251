// Common code of linear.cc and experts.cc: activations in the format that a weight needs, and the division of
// a product into units of work.
#pragma once

#include <cstddef>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"
#include "ops/elementwise.h"

namespace anabranch::ops::cpu {

bool uses_int8(const CpuDevice& device, const PackedMatrix& m);
// Whether matrix units pay for products with `m`: a group costs them the same work, however short it is.
bool suits_matrix(const CpuDevice& device, const PackedMatrix& m);

// Activations in the format that one kind of weight needs, in one block of scratch memory.
struct Prepared {
  Activations a;
  bool int8 = false;
};

int64_t tiles_of(int64_t rows, int64_t tile_rows);

// The best height of tiles for `rows` rows. int8: whether all weights use int8; matrix: whether all suit
// matrix units.
int64_t choose_tile_rows(const CpuKernels& kernels, int64_t rows, bool int8, bool matrix);

// Describes the rows for products with `m`; memory is assigned by lay_out().
Prepared make_prepared(const CpuDevice& device, const PackedMatrix& m, int64_t rows, int64_t tile_rows);
// Sets the sizes and pointers of the arrays of `p` from `base` on; returns their size in bytes, a multiple of
// 64.
size_t lay_out(Prepared& p, uint8_t* base);

// A product divided into units: a block of panels times a block of tiles. Consecutive units differ in their
// panels first.
struct ProductPart {
  LinearTask task;
  bool int8;
  int64_t panel_step, tile_step, panel_blocks, tile_blocks;
  int64_t first_unit = 0;  // in the list of the whole op

  int64_t units() const { return panel_blocks * tile_blocks; }
  // The task of unit `local` of this product.
  LinearTask unit(int64_t local) const;
};
ProductPart make_part(CpuDevice& device, const PackedMatrix& m, const Prepared& input, float* y);

// Runs a task on the calling thread. Uses thread_scratch(1).
void run_task(const CpuKernels& kernels, LinearTask& task, bool int8);

// y = activation(gate) * up, element by element.
using GluKernel = void (*)(const float* gate, const float* up, float* y, int64_t count);
GluKernel glu_kernel(const CpuKernels& kernels, Activation activation);
void clamped_glu(const CpuKernels& kernels, const ClampedGlu& how, const float* gate, const float* up,
                 float* y, int64_t count);

// Adds a bias [out] to rows [row_begin, row_end) of the block of y that the task has written.
void add_bias_to(const CpuKernels& kernels, const LinearTask& task, const float* bias, int64_t row_begin,
                 int64_t row_end);
// y = relu(y)^2 of the block of a task that has been run.
void apply_relu2(const CpuKernels& kernels, const LinearTask& task, int64_t row_begin, int64_t row_end);

// The second half of a gated linear unit.
struct UpHalf {
  const PackedMatrix& weight;
  const Prepared& input;
  const float* bias = nullptr;          // null: none
  const ClampedGlu* clamped = nullptr;  // null: activation(gate) * up
};
// Called after `gate` has been run: computes the same block of the product with `up`, then y =
// activation(y) * that product, or what `clamped` says, for rows [row_begin, row_end). Uses thread_scratch(1)
// and (2).
void apply_up(const CpuKernels& kernels, const LinearTask& gate, const UpHalf& up, Activation activation,
              int64_t row_begin, int64_t row_end);

}  // namespace anabranch::ops::cpu
