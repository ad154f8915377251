// What the products of linear.cc and experts.cc share: activations in the form that a weight wants, and the
// cutting of a product into units of work.
#pragma once

#include <cstddef>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"
#include "ops/elementwise.h"

namespace anabranch::ops::cpu {

bool uses_int8(const CpuDevice& device, const PackedMatrix& m);

// Activations as one kind of weight wants them, laid out in one piece of scratch.
struct Prepared {
  Activations a;
  bool int8 = false;
};

int64_t tiles_of(int64_t rows, int64_t tile_rows);

// The height of the tiles that `rows` rows are best cut into. int8: whether all weights use int8.
int64_t choose_tile_rows(const CpuKernels& kernels, int64_t rows, bool int8);

// Rows for products with `m`, without memory.
Prepared make_prepared(const CpuDevice& device, const PackedMatrix& m, int64_t rows, int64_t tile_rows);
// Sizes, then pointers, of the parts of `p` at `base`; returns the bytes they take, a multiple of 64.
size_t lay_out(Prepared& p, uint8_t* base);

// A product cut into units: a block of panels times a block of tiles, the panels running faster.
struct ProductPart {
  LinearTask task;
  bool int8;
  int64_t panel_step, tile_step, panel_blocks, tile_blocks;
  int64_t first_unit = 0;  // in the list of the whole op

  int64_t units() const { return panel_blocks * tile_blocks; }
  // The task of unit `local` of this product.
  LinearTask unit(int64_t local) const;
};
ProductPart make_part(CpuDevice& device, const PackedMatrix& m, const Prepared& form, float* y);

// Runs a task on the calling thread. Uses thread_scratch(1).
void run_task(const CpuKernels& kernels, LinearTask& task, bool int8);

// y = activation(gate) * up, element by element.
using GluKernel = void (*)(const float* gate, const float* up, float* y, int64_t count);
GluKernel glu_kernel(const CpuKernels& kernels, Activation activation);

// After `gate` has been run: computes the same block of the product with `up`, whose input is `form`, then y
// = activation(y) * it for rows [row_begin, row_end). Uses thread_scratch(1) and (2).
void apply_up(const CpuKernels& kernels, const LinearTask& gate, const PackedMatrix& up, const Prepared& form,
              Activation activation, int64_t row_begin, int64_t row_end);

}  // namespace anabranch::ops::cpu
