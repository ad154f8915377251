#include "ops/table.h"

#include "ops/cpu/attention.h"
#include "ops/cpu/device.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/experts.h"
#include "ops/cpu/indexed_attention.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/low_rank.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/probe.h"
#include "ops/cpu/recurrence.h"
#include "ops/cpu/streams.h"

namespace anabranch::ops {

const OpTable& cpu_ops() {
  static const OpTable table{
      .kernels_name = [](Device& device) -> std::string { return cpu::cpu_device(device).kernels().name; },
      .attention_unsupported = [](int, const Rope&) { return std::string(); },
      .recurrence_unsupported = [](const RecurrenceShape&) { return std::string(); },
      .make_weight = [](Device& device, const WeightSource& source)
          -> std::shared_ptr<const Weight::Storage> { return cpu::pack(cpu::cpu_device(device), source); },
      .measure_limits = cpu::measure_limits,
      .linear = cpu::linear,
      .linear_add = cpu::linear_add,
      .linear_swiglu = cpu::linear_swiglu,
      .embed = cpu::embed,
      .linear_heads = cpu::linear_heads,
      .join_heads = cpu::join_heads,
      .cut_heads = cpu::cut_heads,
      .gate_heads = cpu::gate_heads,
      .route = cpu::route,
      .mix_experts = cpu::mix_experts,
      .rms_norm = cpu::rms_norm,
      .layer_norm = cpu::layer_norm,
      .gelu = cpu::gelu,
      .relu2 = cpu::relu2,
      .xielu = cpu::xielu,
      .add = cpu::add,
      .add_bias = cpu::add_bias,
      .swiglu = cpu::swiglu,
      .clamped_glu = cpu::clamped_glu,
      .scale = cpu::scale,
      .soft_cap = cpu::soft_cap,
      .sigmoid_gate = cpu::sigmoid_gate,
      .take_rows = cpu::take_rows,
      .concat_rows = cpu::concat_rows,
      .best_of_rows = nullptr,
      .rope = cpu::rope,
      .add_low_rank = cpu::add_low_rank,
      .kv_block_shapes = cpu::kv_block_shapes,
      .kv_append = cpu::kv_append,
      .attention = cpu::attention,
      .attend = nullptr,
      .recurrence = cpu::recurrence,
      .recurrence_fold = cpu::recurrence_fold,
      .short_conv = cpu::short_conv,
      .index_keys = cpu::index_keys,
      .index_scores = cpu::index_scores,
      .kv_gather = cpu::kv_gather,
      .norm_streams = cpu::norm_streams,
      .mix_streams = cpu::mix_streams,
      .add_to_streams = cpu::add_to_streams,
      .gate_streams = cpu::gate_streams,
  };
  return table;
}

}  // namespace anabranch::ops
