#include "models/family.h"

#include <algorithm>
#include <cmath>

#include "base/outside_text.h"
#include "checkpoint/quantize.h"

namespace anabranch {
namespace {

const Family* family_named(const std::string& model_type) {
  for (const char* name : {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"})
    if (model_type == name) return &qwen3_5_family();
  for (const char* name : {"gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text"})
    if (model_type == name) return &gemma_family();
  return find_llama_family(model_type);
}

WeightSource stored_as(const ModelBuilder& builder, WeightSource source) {
  const bool rounds = builder.for_drafts && builder.device.favours_8_bits();
  return rounds ? rounded_to_8_bits(std::move(source)) : source;
}

}  // namespace

Result<const Family*> find_family(const Checkpoint& checkpoint) {
  const std::string type = string_at(checkpoint.config(), "model_type");
  if (type.empty())
    return make_error(ErrorKind::invalid, "{}: config.json has no \"model_type\"", checkpoint.path());
  const Family* family = family_named(type);
  if (!family)
    return make_error(
        ErrorKind::unsupported,
        "{}: model_type \"{}\" is not supported; llama, mistral, ministral, ministral3, mistral3, mixtral, "
        "qwen2, qwen3, qwen3_moe, qwen3_5, qwen3_5_moe, qwen3_next, gemma2, gemma3 and gemma4 are",
        checkpoint.path(), shown(type));
  return family;
}

Result<WeightSource> ModelBuilder::take_matrix(const std::string& name, int64_t rows, int64_t cols) const {
  TRY(auto source, checkpoint.take_matrix(name, rows, cols));
  return stored_as(*this, std::move(source));
}

Result<WeightSource> ModelBuilder::take_matrices(const std::string& name, int64_t count, int64_t rows,
                                                 int64_t cols) const {
  TRY(auto source, checkpoint.take_matrices(name, count, rows, cols));
  return stored_as(*this, std::move(source));
}

nn::Linear linear_of(const ModelBuilder& builder, const std::string& module, const WeightSource& source,
                     std::vector<int64_t> rows) {
  nn::Linear linear{ops::Weight::make(builder.device, rows.empty() ? source : select_rows(source, rows)), {}};
  linear.origin =
      std::make_shared<nn::Origin>(nn::Origin{module, static_cast<int>(source.rows), std::move(rows)});
  return linear;
}

Result<nn::Linear> take_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                               bool bias) {
  TRY(auto source, builder.take_matrix(name + ".weight", out, in));
  nn::Linear linear = linear_of(builder, name, source);
  if (bias) {
    TRY(auto values, builder.checkpoint.take(name + ".bias", {out}));
    linear.bias = builder.device.to_device(values);
  }
  return linear;
}

void append_rows(std::vector<int64_t>& rows, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++) rows.push_back(row);
}

Tensor take_elements(const ModelBuilder& builder, const Tensor& values, const std::vector<int64_t>& rows) {
  Tensor out = host_device().empty({static_cast<int>(rows.size())}, Dtype::f32);
  for (size_t i = 0; i < rows.size(); i++) out.data<float>()[i] = values.data<float>()[rows[i]];
  return builder.device.to_device(out);
}

Result<nn::Linear> take_rows_of_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                                       const std::vector<int64_t>& rows, bool bias) {
  if (static_cast<int>(rows.size()) == out) return take_linear(builder, name, out, in, bias);
  TRY(auto source, builder.take_matrix(name + ".weight", out, in));
  nn::Linear linear = linear_of(builder, name, source, rows);
  if (bias) {
    TRY(const auto values, builder.checkpoint.take(name + ".bias", {out}));
    linear.bias = take_elements(builder, values, rows);
  }
  return linear;
}

Result<nn::Linear> take_last_linear(const ModelBuilder& builder, const std::string& name, ops::Split inputs,
                                    bool bias) {
  const int hidden = builder.spec.hidden, in = inputs.all();
  if (!builder.group) return take_linear(builder, name, hidden, in, bias);
  const auto outputs = builder.split(hidden / kSharedColumns, kSharedColumns);
  std::vector<int64_t> rows;
  append_rows(rows, outputs.first(builder.rank()), outputs.last(builder.rank()));
  TRY(const auto source, builder.take_matrix(name + ".weight", hidden, in));
  nn::Linear linear{ops::Weight::make(builder.device, select_rows(source, rows)), {}};
  const int first = inputs.first(builder.rank()), last = inputs.last(builder.rank());
  const bool whole_groups = source.group == 0 || in / builder.group->ranks() % source.group == 0;
  if (builder.keeps_own_inputs && whole_groups && builder.group->splits_inputs(inputs))
    linear.own_inputs = ops::Weight::make(builder.device, select_columns(source, first, last));
  if (bias) {
    TRY(const auto values, builder.checkpoint.take(name + ".bias", {hidden}));
    linear.bias = builder.device.to_device(values);
  }
  linear.share = std::make_shared<nn::Share>(nn::Share{builder.group, std::move(inputs), outputs});
  return linear;
}

Result<nn::RmsNorm> take_norm(const ModelBuilder& builder, const std::string& name, int size,
                              const NormsSpec& norms) {
  const auto info = builder.checkpoint.find(name + ".weight");
  TRY(auto weight, builder.checkpoint.take(name + ".weight", {size}));
  if (norms.offset && info->norms == NormConvention::offset)
    for (int i = 0; i < size; i++) weight.data<float>()[i] += 1.0f;
  return nn::RmsNorm{builder.device.to_device(weight), norms.eps};
}

namespace {

ops::Split split_inner(const ModelBuilder& builder, int intermediate) {
  return builder.group ? builder.split(intermediate / kSharedTile, kSharedTile)
                       : builder.split(1, intermediate);
}

Tensor ones(int size) {
  Tensor out = host_device().empty({size}, Dtype::f32);
  std::fill_n(out.data<float>(), size, 1.0f);
  return out;
}

}  // namespace

Result<nn::Attention> take_attention(const ModelBuilder& builder, const std::string& prefix,
                                     const LayerSpec& layer) {
  const auto& a = std::get<AttentionSpec>(layer.mixer);
  const int hidden = builder.spec.hidden, width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
  const int queries = a.heads / a.kv_heads * a.head_dim;  // query rows per key head
  const auto by_queries = builder.split(a.kv_heads, queries), by_keys = builder.split(a.kv_heads, a.head_dim);
  const int rank = builder.rank();
  std::vector<int64_t> query_rows, key_rows;
  append_rows(query_rows, by_queries.first(rank), by_queries.last(rank));
  append_rows(key_rows, by_keys.first(rank), by_keys.last(rank));
  const ops::Rope& rope = builder.spec.ropes.at(static_cast<size_t>(layer.rope));
  nn::Attention out;
  out.heads = by_queries.size(rank) / a.head_dim;
  out.kv_heads = by_keys.size(rank) / a.head_dim;
  out.head_dim = a.head_dim;
  const float scale = a.scale != 0 ? a.scale : 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  out.scores = {scale, a.window, a.soft_cap};
  out.rope = rope;
  if (a.output_gate) {
    TRY(auto both, builder.take_matrix(prefix + "q_proj.weight", 2 * width, hidden));
    std::vector<int64_t> first_rows, gate_rows;
    for (const int64_t row : query_rows) {
      const int64_t head = row / a.head_dim, i = row % a.head_dim;
      first_rows.push_back(2 * head * a.head_dim + i);
      gate_rows.push_back((2 * head + 1) * a.head_dim + i);
    }
    out.q = linear_of(builder, prefix + "q_proj", both, std::move(first_rows));
    out.gate = linear_of(builder, prefix + "q_proj", both, std::move(gate_rows));
  } else {
    TRY(out.q, take_rows_of_linear(builder, prefix + "q_proj", width, hidden, query_rows, a.qkv_bias));
  }
  TRY(out.o, take_last_linear(builder, prefix + "o_proj", by_queries, a.out_bias));
  if (a.qk_norm) {
    TRY(out.q_norm, take_norm(builder, prefix + "q_norm", a.head_dim, layer.norms));
  }
  if (a.kv_layer >= 0) {  // some files contain matrices that are not used
    for (const char* name : {"k_proj.", "v_proj.", "k_norm.", "v_norm."})
      builder.checkpoint.ignore(prefix + name);
    return out;
  }
  TRY(out.k, take_rows_of_linear(builder, prefix + "k_proj", kv_width, hidden, key_rows, a.qkv_bias));
  if (!a.keys_are_values) {
    TRY(out.v, take_rows_of_linear(builder, prefix + "v_proj", kv_width, hidden, key_rows, a.qkv_bias));
  }
  if (a.qk_norm) {
    TRY(out.k_norm, take_norm(builder, prefix + "k_norm", a.head_dim, layer.norms));
  }
  if (a.v_norm) out.v_norm = nn::RmsNorm{builder.device.to_device(ones(a.head_dim)), layer.norms.eps};
  return out;
}

Result<nn::Mlp> take_mlp(const ModelBuilder& builder, const std::string& prefix, const MlpSpec& mlp) {
  const int hidden = builder.spec.hidden;
  const auto inner = split_inner(builder, mlp.intermediate);
  std::vector<int64_t> rows;
  append_rows(rows, inner.first(builder.rank()), inner.last(builder.rank()));
  TRY(auto gate,
      take_rows_of_linear(builder, prefix + "gate_proj", mlp.intermediate, hidden, rows, mlp.bias));
  TRY(auto up, take_rows_of_linear(builder, prefix + "up_proj", mlp.intermediate, hidden, rows, mlp.bias));
  TRY(auto down, take_last_linear(builder, prefix + "down_proj", inner, mlp.bias));
  return nn::Mlp{std::move(gate), std::move(up), std::move(down), mlp.activation};
}

Result<ops::ExpertMatrices> take_experts(const ModelBuilder& builder, const std::string& name,
                                         const MoeSpec& moe, int rows, int cols) {
  TRY(const auto source, builder.take_matrices(name + ".weight", moe.experts, rows, cols));
  return ops::ExpertMatrices::make(builder.device, source, moe.experts);
}

namespace {

Result<nn::Moe> take_moe(const ModelBuilder& builder, const std::string& p, const MoeSpec& spec) {
  const int hidden = builder.spec.hidden, inner = spec.intermediate, shared = spec.shared_intermediate;
  nn::Moe moe;
  moe.routing = spec.routing;
  moe.activation = spec.activation;
  TRY(auto router, take_linear(builder, p + "gate", spec.experts, hidden));
  moe.router = std::move(router.weight);
  TRY(moe.gate, take_experts(builder, p + "switch_mlp.gate_proj", spec, inner, hidden));
  TRY(moe.up, take_experts(builder, p + "switch_mlp.up_proj", spec, inner, hidden));
  TRY(moe.down, take_experts(builder, p + "switch_mlp.down_proj", spec, hidden, inner));
  if (shared == 0) return moe;
  TRY(auto mlp, take_mlp(builder, p + "shared_expert.", {shared, spec.activation}));
  TRY(auto output_gate, take_linear(builder, p + "shared_expert_gate", 1, hidden));
  moe.shared = nn::Moe::Shared{std::move(mlp.gate.weight), std::move(mlp.up.weight),
                               std::move(mlp.down.weight), std::move(output_gate.weight)};
  return moe;
}

}  // namespace

Result<nn::FeedForward> take_feed_forward(const ModelBuilder& builder, const std::string& prefix,
                                          const FeedForwardSpec& spec) {
  if (const auto* moe = std::get_if<MoeSpec>(&spec)) {
    TRY(nn::FeedForward out, take_moe(builder, prefix, *moe));
    return out;
  }
  TRY(nn::FeedForward out, take_mlp(builder, prefix, std::get<MlpSpec>(spec)));
  return out;
}

}  // namespace anabranch
