// Products on matrix units, in a table of their own; with_matrix_units() puts them beside the other kernels.
// Before including this file, define ANABRANCH_TARGET (a namespace), ANABRANCH_TARGET_NAME, ANABRANCH_TABLE (the
// function that returns the table), ANABRANCH_BASE (the table of the other kernels), ANABRANCH_MATRIX (a header
// like matrix_amx.h) and ANABRANCH_MATRIX_FROM (see CpuKernels::matrix_from). As for kernels.inl, everything is
// static.
#include <stdint.h>

#include "ops/cpu/kernels.h"

#if !defined(ANABRANCH_SIMD_PORTABLE)
#include <immintrin.h>
#endif

namespace anabranch::ops::cpu {
namespace ANABRANCH_TARGET {
#include "ops/cpu/simd.h"
//
#include "ops/cpu/kernels_linear.h"
//
#include ANABRANCH_MATRIX
//
#include "ops/cpu/kernels_matrix.h"

static const CpuKernels* base_table() {
  return ANABRANCH_BASE;
}

static int64_t scratch_bytes(const PackedMatrix& w, int64_t tiles) {
  const bool coded = w.kind == PackedMatrix::affine || w.kind == PackedMatrix::table;
  const int64_t mine = coded ? matrix_scratch_bytes(w, tiles) : 0,
                other = base_table()->linear_scratch_bytes(w, tiles);
  return mine > other ? mine : other;
}

static void linear_int8(const LinearTask& t) {
  t.input->tile == kMatrixRows ? linear_matrix(t) : base_table()->linear_int8(t);
}

static double peak_matrix(int64_t rounds) {
  const int64_t turns = rounds / 16;
  open_matrix(64);
  for (int64_t i = 0; i < turns; i++) {
    matrix_multiply<4, 0, 2, false>();
    matrix_multiply<5, 1, 2, false>();
    matrix_multiply<6, 0, 3, false>();
    matrix_multiply<7, 1, 3, false>();
  }
  close_matrix();
  return 4 * 2.0 * 16 * 16 * 64 * static_cast<double>(turns);
}

static constinit const MatrixKernels kTable = {
    .name = ANABRANCH_TARGET_NAME,
    .from = ANABRANCH_MATRIX_FROM,
    .prepare_int8 = prepare_matrix,
    .linear_scratch_bytes = scratch_bytes,
    .linear_int8 = linear_int8,
    .peak_int8 = peak_matrix,
};
}  // namespace ANABRANCH_TARGET

const MatrixKernels* ANABRANCH_TABLE() {
  return &ANABRANCH_TARGET::kTable;
}

}  // namespace anabranch::ops::cpu
