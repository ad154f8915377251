#include "ops/table.h"

#include "ops/cuda/attention.h"
#include "ops/cuda/choose.h"
#include "ops/cuda/device.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/experts.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/low_rank.h"
#include "ops/cuda/recurrence.h"
#include "ops/cuda/shapes.h"
#include "ops/cuda/weight.h"

namespace anabranch::ops {

const OpTable& cuda_ops() {
  static const OpTable table = {.kernels_name = [](Device&) -> std::string { return "cuda"; },
                                .attention_unsupported = cuda::attention_unsupported,
                                .recurrence_unsupported = cuda::recurrence_unsupported,
                                .make_weight = cuda::make_weight,
                                .make_experts = cuda::make_experts,
                                .measure_limits = cuda::measure_limits,
                                .linear = cuda::linear,
                                .linear_add = cuda::linear_add,
                                .linear_swiglu = cuda::linear_swiglu,
                                .pack = cuda::pack,
                                .embed = cuda::embed,
                                .embed_chosen = cuda::embed_chosen,
                                .linear_heads = cuda::linear_heads,
                                .join_heads = cuda::join_heads,
                                .cut_heads = cuda::cut_heads,
                                .gate_heads = cuda::gate_heads,
                                .route = cuda::route,
                                .mix_experts = cuda::mix_experts,
                                .mixture = cuda::mixture,
                                .rms_norm = cuda::rms_norm,
                                .layer_norm = cuda::layer_norm,
                                .gelu = cuda::gelu,
                                .relu2 = cuda::relu2,
                                .xielu = cuda::xielu,
                                .add = cuda::add,
                                .add_bias = cuda::add_bias,
                                .swiglu = cuda::swiglu,
                                .clamped_glu = cuda::clamped_glu,
                                .scale = cuda::scale,
                                .soft_cap = cuda::soft_cap,
                                .sigmoid_gate = cuda::sigmoid_gate,
                                .take_rows = cuda::take_rows,
                                .concat_rows = cuda::concat_rows,
                                .best_of_rows = cuda::best_of_rows,
                                .choose_tokens = cuda::choose_tokens,
                                .rope = cuda::rope,
                                .add_low_rank = cuda::add_low_rank,
                                .low_rank_down = cuda::low_rank_down,
                                .linear_low_rank = cuda::linear_low_rank,
                                .linear_low_rank_swiglu = cuda::linear_low_rank_swiglu,
                                .kv_block_shapes = cuda::kv_block_shapes,
                                .kv_append = cuda::kv_append,
                                .attention = cuda::attention,
                                .attend = cuda::attend,
                                .recurrence = cuda::recurrence,
                                .recurrence_fold = cuda::recurrence_fold,
                                .short_conv = cuda::short_conv};
  return table;
}

}  // namespace anabranch::ops
