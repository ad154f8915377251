// The kernels of one instruction set. A target_*.cc defines ANABRANCH_TARGET (a namespace) and
// ANABRANCH_TABLE (the function that returns the table), and includes this. Everything is static and in the
// target's namespace, and no standard library template is used: nothing compiled with a target's flags can be
// linked in place of baseline code.
#include <stdint.h>

#include "ops/cpu/kernels.h"

#if !defined(ANABRANCH_SIMD_PORTABLE) && defined(__x86_64__)
#include <immintrin.h>
#elif !defined(ANABRANCH_SIMD_PORTABLE) && defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace anabranch::ops::cpu {
namespace ANABRANCH_TARGET {
#include "ops/cpu/simd.h"
//
#include "ops/cpu/math.h"
//
#include "ops/cpu/kernels_linear.h"
//
#include "ops/cpu/kernels_linear_int8.h"
//
#include "ops/cpu/kernels_linear_f32.h"
//
#include "ops/cpu/kernels_attention.h"
#include "ops/cpu/kernels_recurrence.h"
#include "ops/cpu/kernels_rows.h"
#include "ops/cpu/kernels_streams.h"

static constinit const CpuKernels kTable = {
    .name = ANABRANCH_TARGET_NAME,
    .tile_rows = kTile,
    .tall_rows = kTallTile,
    .unpacks_int8 = kUnpacksInt8,
    .matrix_from = 0,
    .prepare_int8 = prepare_int8,
    .prepare_f32 = prepare_f32,
    .linear_scratch_bytes = linear_scratch_bytes,
    .linear_int8 = linear_int8,
    .linear_f32 = linear_f32,
    .embed_row = embed_row,
    .rms_norm = rms_norm,
    .layer_norm = layer_norm,
    .gelu_tanh = gelu_tanh_array,
    .gelu_erf = gelu_erf_array,
    .relu2 = relu2_array,
    .xielu = xielu_array,
    .add = add_arrays,
    .add_scaled = add_scaled,
    .swiglu = swiglu,
    .geglu = geglu,
    .clamped_glu = clamped_glu,
    .clamped_swiglu = clamped_swiglu,
    .scale = scale_array,
    .soft_cap = soft_cap,
    .sigmoid_gate = sigmoid_gate,
    .rope = rope,
    .add_low_rank = add_low_rank,
    .math = math,
    .to_f16 = to_f16,
    .attention_scratch_floats = attention_scratch_floats,
    .attention_pack = attention_pack,
    .attention_block = attention_block,
    .attention_merge = attention_merge,
    .attention_finish = attention_finish,
    .recurrence_scratch_floats = recurrence_scratch_floats,
    .recurrence_heads = recurrence_heads,
    .recurrence_norm = recurrence_norm,
    .short_conv = short_conv,
    .peak_int8 = peak_int8,
    .peak_f32 = peak_f32,
    .read_bytes = read_bytes,
    .mix_streams = mix_streams,
    .add_to_streams = add_to_streams,
    .gate_streams = gate_streams,
    .add_keys = add_keys,
    .index_scores = index_scores,
};
}  // namespace ANABRANCH_TARGET

const CpuKernels* ANABRANCH_TABLE() {
  return &ANABRANCH_TARGET::kTable;
}

}  // namespace anabranch::ops::cpu
