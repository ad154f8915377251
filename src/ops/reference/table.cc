#include "ops/table.h"

#include "ops/reference/attention.h"
#include "ops/reference/device.h"
#include "ops/reference/elementwise.h"
#include "ops/reference/experts.h"
#include "ops/reference/indexed_attention.h"
#include "ops/reference/linear.h"
#include "ops/reference/low_rank.h"
#include "ops/reference/recurrence.h"
#include "ops/reference/streams.h"
#include "ops/reference/weight.h"

namespace anabranch::ops {

const OpTable& reference_ops() {
  static const OpTable table = [] {
    OpTable t;
    t.kernels_name = [](Device& device) -> std::string {
      return reference::device_of(device).launcher() ? "metal" : "reference";
    };
    t.attention_unsupported = [](int, const Rope&) { return std::string(); };
    t.recurrence_unsupported = [](const RecurrenceShape&) { return std::string(); };
    t.make_weight = reference::make_weight;
    t.measure_limits = [](Device&) { return MachineLimits(); };
    t.linear = reference::linear;
    t.linear_add = reference::linear_add;
    t.linear_swiglu = reference::linear_swiglu;
    t.embed = reference::embed;
    t.linear_heads = reference::linear_heads;
    t.join_heads = reference::join_heads;
    t.cut_heads = reference::cut_heads;
    t.gate_heads = reference::gate_heads;
    t.route = reference::route;
    t.mix_experts = reference::mix_experts;
    t.rms_norm = reference::rms_norm;
    t.layer_norm = reference::layer_norm;
    t.gelu = reference::gelu;
    t.relu2 = reference::relu2;
    t.xielu = reference::xielu;
    t.add = reference::add;
    t.add_bias = reference::add_bias;
    t.swiglu = reference::swiglu;
    t.clamped_glu = reference::clamped_glu;
    t.scale = reference::scale;
    t.soft_cap = reference::soft_cap;
    t.sigmoid_gate = reference::sigmoid_gate;
    t.take_rows = reference::take_rows;
    t.concat_rows = reference::concat_rows;
    t.best_of_rows = nullptr;
    t.rope = reference::rope;
    t.add_low_rank = reference::add_low_rank;
    t.kv_block_shapes = reference::kv_block_shapes;
    t.kv_append = reference::kv_append;
    t.attention = reference::attention;
    t.attend = nullptr;
    t.recurrence = reference::recurrence;
    t.recurrence_fold = reference::recurrence_fold;
    t.short_conv = reference::short_conv;
    t.index_keys = reference::index_keys;
    t.index_scores = reference::index_scores;
    t.kv_gather = reference::kv_gather;
    t.norm_streams = reference::norm_streams;
    t.mix_streams = reference::mix_streams;
    t.add_to_streams = reference::add_to_streams;
    t.gate_streams = reference::gate_streams;
    return t;
  }();
  return table;
}

}  // namespace anabranch::ops
