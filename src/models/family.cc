#include "models/family.h"

#include <algorithm>
#include <cmath>

#include "base/outside_text.h"
#include "checkpoint/quantize.h"
#include "ops/table.h"

namespace anabranch {
namespace {

const Family* family_named(const std::string& model_type) {
  for (const char* name : {"qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"})
    if (model_type == name) return &qwen3_5_family();
  if (model_type == "qwen4_exp" || model_type == "qwen4_exp_text") return &qwen4_exp_family();
  for (const char* name : {"gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "gemma4_unified",
                           "gemma4_unified_text", "vaultgemma"})
    if (model_type == name) return &gemma_family();
  if (const Family* hybrid = find_hybrid_family(model_type)) return hybrid;
  if (const Family* latent = find_latent_family(model_type)) return latent;
  return find_llama_family(model_type);
}

WeightSource stored_as(const ModelBuilder& builder, WeightSource source) {
  const bool rounds = builder.for_drafts && builder.device.favours_8_bits();
  return rounds ? rounded_to_8_bits(std::move(source)) : source;
}

}  // namespace

Result<const Family*> find_family(const Checkpoint& checkpoint) {
  const std::string outer = string_at(checkpoint.config(), "model_type"),
                    type = text_type_of(checkpoint.config());
  if (type.empty())
    return make_error(ErrorKind::invalid, "{}: config.json has no \"model_type\"", checkpoint.path());
  const bool is_text =
      !find_outer_type(outer) || is_llama_member(type) || is_latent_member(type) || is_hybrid_member(type);
  const Family* family = is_text ? family_named(type) : nullptr;
  if (!family && find_outer_type(outer))
    return make_error(ErrorKind::unsupported, "{}: model_type \"{}\" is not supported in text_config of {}",
                      checkpoint.path(), shown(type), outer);
  if (!family)
    return make_error(ErrorKind::unsupported,
                      "{}: model_type \"{}\" is not supported; {}{}{}{}qwen3_5, qwen3_5_moe, qwen3_next, "
                      "qwen4_exp, gemma2, "
                      "gemma3, gemma4 and vaultgemma are",
                      checkpoint.path(), shown(type), outer_type_names(), llama_member_names(),
                      hybrid_names(), latent_names());
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

void scale_linear(nn::Linear& linear, float input, float output) {
  linear.scale = input * output;
  if (linear.bias && output != 1) linear.bias = ops::scale(*linear.bias, output);
}

Tensor filled(int size, float value) {
  Tensor out = host_device().empty({size}, Dtype::f32);
  std::fill_n(out.data<float>(), size, value);
  return out;
}

void append_rows(std::vector<int64_t>& rows, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; row++) rows.push_back(row);
}

Tensor take_elements(const ModelBuilder& builder, const Tensor& values, const std::vector<int64_t>& rows) {
  Tensor out = host_device().empty({static_cast<int>(rows.size())}, Dtype::f32);
  for (size_t i = 0; i < rows.size(); i++) out.data<float>()[i] = values.data<float>()[rows[i]];
  return builder.device.to_device(out);
}

// conv1d weights come as [C, 1, k] (Hugging Face), [C, k, 1] (mlx) or [C, k] (GGUF), all with the same memory
// layout.
Result<Tensor> take_conv(Checkpoint& checkpoint, const std::string& name, int channels, int kernel) {
  const auto info = checkpoint.find(name);
  const std::vector<int64_t> shape = info ? info->shape : std::vector<int64_t>{channels, 1, kernel};
  if (shape.empty() || shape[0] != channels || shape.size() > 3)
    return make_error(ErrorKind::invalid, "{}: a convolution of {} channels and {} taps was expected", name,
                      channels, kernel);
  TRY(auto raw, checkpoint.take(name, shape));
  if (raw.size() != int64_t{channels} * kernel)
    return make_error(ErrorKind::invalid, "{}: {} values, but {} channels of {} taps were expected", name,
                      raw.size(), channels, kernel);
  auto taps = host_device().empty({kernel, channels}, Dtype::f32);
  for (int c = 0; c < channels; c++) {
    for (int t = 0; t < kernel; t++) taps.data<float>()[t * channels + c] = raw.data<float>()[c * kernel + t];
  }
  return taps;
}

Tensor take_channels(const Tensor& taps, const std::vector<int64_t>& channels) {
  const int64_t kernel = taps.shape(0), all = taps.shape(1), some = static_cast<int64_t>(channels.size());
  if (some == all && std::ranges::is_sorted(channels)) return taps;
  Tensor out = host_device().empty({taps.shape(0), static_cast<int>(some)}, Dtype::f32);
  for (int64_t t = 0; t < kernel; t++) {
    for (int64_t i = 0; i < some; i++)
      out.data<float>()[t * some + i] = taps.data<float>()[t * all + channels[static_cast<size_t>(i)]];
  }
  return out;
}

Result<nn::Linear> take_rows_of_linear(const ModelBuilder& builder, const std::string& name, int out, int in,
                                       const std::vector<int64_t>& rows, bool bias) {
  if (static_cast<int>(rows.size()) == out && std::ranges::is_sorted(rows))
    return take_linear(builder, name, out, in, bias);
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

Result<nn::Norm> take_norm(const ModelBuilder& builder, const std::string& name, int size,
                           const NormsSpec& norms) {
  if (norms.weightless) {
    nn::Norm plain{{builder.device.to_device(filled(size, 1)), norms.eps}};
    if (norms.layer_norm) plain.bias = builder.device.to_device(filled(size, 0));
    return plain;
  }
  const auto info = builder.checkpoint.find(name + ".weight");
  std::optional<Tensor> bias;
  if (norms.bias) {
    TRY(bias, builder.checkpoint.take(name + ".bias", {size}));
  } else if (norms.layer_norm) {
    bias = filled(size, 0);
  }
  TRY(auto weight, builder.checkpoint.take(name + ".weight", {size}));
  if (norms.offset && info->norms == NormConvention::offset)
    for (int i = 0; i < size; i++) weight.data<float>()[i] += 1.0f;
  nn::Norm norm{{builder.device.to_device(weight), norms.eps}};
  if (bias) norm.bias = builder.device.to_device(*bias);
  return norm;
}

namespace {

ops::Split split_inner(const ModelBuilder& builder, int intermediate) {
  return builder.group ? builder.split(intermediate / kSharedTile, kSharedTile)
                       : builder.split(1, intermediate);
}

// A matrix, and its bias, with the rows of several projections, or the matrix of one of them.
struct SharedMatrix {
  std::string module;
  WeightSource source;
  std::optional<Tensor> bias;
};

// "<name>", if the files have it; in it the projections' rows follow each other.
Result<std::optional<SharedMatrix>> take_shared(const ModelBuilder& builder, const std::string& name,
                                                int rows, bool bias) {
  std::optional<SharedMatrix> out;
  if (!builder.checkpoint.has(name + ".weight")) return out;
  out = SharedMatrix{name, {}, {}};
  TRY(out->source, builder.take_matrix(name + ".weight", rows, builder.spec.hidden));
  if (bias) {
    TRY(out->bias, builder.checkpoint.take(name + ".bias", {rows}));
  }
  return out;
}

// Rows of the projection "<name>" [out, hidden], which in `shared`, if there is one, begins at `first`.
Result<nn::Linear> take_projection(const ModelBuilder& builder, const std::optional<SharedMatrix>& shared,
                                   int first, const std::string& name, int out, std::vector<int64_t> rows,
                                   bool bias) {
  if (!shared) return take_rows_of_linear(builder, name, out, builder.spec.hidden, rows, bias);
  for (int64_t& row : rows) row += first;
  nn::Linear linear = linear_of(builder, shared->module, shared->source, rows);
  if (bias) linear.bias = take_elements(builder, *shared->bias, rows);
  return linear;
}

// The rows of heads whose first `turned` dimensions turn as pairs of neighbours, in an order in which
// dimensions i and i + half turn as a pair.
std::vector<int64_t> pairs_apart(const std::vector<int64_t>& rows, int head_dim, int turned) {
  std::vector<int64_t> out = rows;
  for (size_t i = 0; i < rows.size(); i++) {
    const int64_t head = rows[i] / head_dim * head_dim, at = rows[i] % head_dim, half = turned / 2;
    if (at < turned) out[i] = head + (at < half ? 2 * at : 2 * (at - half) + 1);
  }
  return out;
}

// Finds rows of queries, keys and values in a matrix in which each head's follow each other. The rows are
// given for three matrices, and returned less the place at which take_projection() expects these to begin.
void rows_of_heads(int head_dim, int width, std::vector<int64_t>& queries, std::vector<int64_t>& keys,
                   std::vector<int64_t>& values) {
  int64_t part = 0;
  for (auto* rows : {&queries, &keys, &values}) {
    for (int64_t& row : *rows) {
      const int64_t head = row / head_dim, i = row % head_dim;
      row = (3 * head + part) * head_dim + i - part * width;
    }
    part++;
  }
}

nn::Norm plain_norm(const ModelBuilder& builder, int size, float eps) {
  return nn::Norm{{builder.device.to_device(filled(size, 1)), eps}};
}

// The output gate, with a row for each head or for each value. For a device with attend() of its own, which
// multiplies with a sigmoid for each value, the row of a head is repeated for its values.
Result<void> take_gate(const ModelBuilder& builder, const std::string& prefix, const AttentionSpec& a,
                       nn::Attention& out) {
  const GateSpec& gate = *a.gate;
  const int of_head = gate.of_heads ? 1 : a.value_dim > 0 ? a.value_dim : a.head_dim;
  const int first = builder.split(a.kv_heads, a.heads / a.kv_heads).first(builder.rank());
  const bool repeats = gate.of_heads && gate.curve == ops::GateCurve::sigmoid && a.value_dim == 0 &&
                       builder.device.ops().attend;
  std::vector<int64_t> rows;
  for (int64_t i = int64_t{first} * of_head; i < int64_t{first + out.heads} * of_head; i++)
    rows.insert(rows.end(), repeats ? static_cast<size_t>(a.head_dim) : 1, i);
  TRY(const auto source,
      builder.take_matrix(prefix + gate.module + ".weight", int64_t{a.heads} * of_head, builder.spec.hidden));
  out.gate = linear_of(builder, prefix + gate.module, source, std::move(rows));
  if (!repeats && (gate.of_heads || gate.curve != ops::GateCurve::sigmoid)) out.curve = gate.curve;
  return {};
}

}  // namespace

Result<nn::Attention> take_attention(const ModelBuilder& builder, const std::string& prefix,
                                     const LayerSpec& layer) {
  const auto& a = *attention_of(layer.mixer);
  const int hidden = builder.spec.hidden, width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
  const int queries = a.heads / a.kv_heads * a.head_dim;  // query rows per key head
  const int of_value = a.value_dim > 0 ? a.value_dim : a.head_dim, value_width = a.kv_heads * of_value;
  const auto by_queries = builder.split(a.kv_heads, queries), by_keys = builder.split(a.kv_heads, a.head_dim);
  const int rank = builder.rank();
  std::vector<int64_t> query_rows, key_rows, value_rows;
  append_rows(query_rows, by_queries.first(rank), by_queries.last(rank));
  append_rows(key_rows, by_keys.first(rank), by_keys.last(rank));
  append_rows(value_rows, by_keys.first(rank) / a.head_dim * of_value,
              by_keys.last(rank) / a.head_dim * of_value);
  const ops::Rope& rope = builder.spec.ropes.at(static_cast<size_t>(layer.rope));
  if (a.neighbours_turn) {
    const int turned = 2 * static_cast<int>(rope.inv_freq.size());
    query_rows = pairs_apart(query_rows, a.head_dim, turned);
    key_rows = pairs_apart(key_rows, a.head_dim, turned);
  }
  nn::Attention out;
  out.heads = by_queries.size(rank) / a.head_dim;
  out.kv_heads = by_keys.size(rank) / a.head_dim;
  out.head_dim = a.head_dim;
  const float scale = a.scale != 0 ? a.scale : 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  out.scores = {scale, a.window, a.soft_cap};
  if (a.sinks) {
    TRY(const auto sinks, builder.checkpoint.take(prefix + "sinks", {a.heads}));
    std::vector<int64_t> own;
    append_rows(own, by_queries.first(rank) / a.head_dim, by_queries.last(rank) / a.head_dim);
    out.scores.sinks = take_elements(builder, sinks, own);
  }
  out.rope = rope;
  out.norms_all_heads = a.norms_all_heads;
  out.norms_after_rope = a.norms_after_rope;
  out.value_dim = a.value_dim;
  const char* by_heads = layer.form.qkv_by_heads;
  TRY(auto shared, take_shared(builder, prefix + layer.form.qkv, width + kv_width + value_width, a.qkv_bias));
  if (by_heads && !shared) {
    TRY(shared, take_shared(builder, prefix + by_heads, width + kv_width + value_width, a.qkv_bias));
    if (shared) rows_of_heads(a.head_dim, kv_width, query_rows, key_rows, value_rows);
  }
  if (a.output_gate) {
    TRY(auto both, builder.take_matrix(prefix + "q_proj.weight", 2 * width, hidden));
    std::vector<int64_t> first_rows, gate_rows;
    std::optional<Tensor> query_bias, gate_bias;
    for (const int64_t row : query_rows) {
      const int64_t head = row / a.head_dim, i = row % a.head_dim;
      first_rows.push_back(2 * head * a.head_dim + i);
      gate_rows.push_back((2 * head + 1) * a.head_dim + i);
    }
    if (a.qkv_bias) {
      TRY(const auto bias, builder.checkpoint.take(prefix + "q_proj.bias", {2 * width}));
      query_bias = take_elements(builder, bias, first_rows);
      gate_bias = take_elements(builder, bias, gate_rows);
    }
    out.q = linear_of(builder, prefix + "q_proj", both, std::move(first_rows));
    out.gate = linear_of(builder, prefix + "q_proj", both, std::move(gate_rows));
    out.q.bias = query_bias, out.gate->bias = gate_bias;
  } else {
    TRY(out.q, take_projection(builder, shared, 0, prefix + "q_proj", width, query_rows, a.qkv_bias));
  }
  if (a.gate) TRY_VOID(take_gate(builder, prefix, a, out));
  const auto by_values = builder.split(a.kv_heads, a.heads / a.kv_heads * of_value);
  TRY(out.o, take_last_linear(builder, prefix + layer.form.o, by_values, a.out_bias));
  scale_linear(out.q, a.in_scale, 1);
  scale_linear(out.o, 1, a.out_scale);
  const auto norm_of = [&](const char* name, int size) -> Result<nn::Norm> {
    if (!a.norms_weigh) return plain_norm(builder, size, layer.norms.eps);
    return take_norm(builder, prefix + name, size, layer.norms);
  };
  if (a.qk_norm) {
    TRY(out.q_norm, norm_of(layer.form.q_norm, a.norms_all_heads ? width : a.head_dim));
  }
  if (a.kv_layer >= 0) {  // some files contain matrices that are not used
    for (const char* name : {"k_proj.", "v_proj.", "k_norm.", "v_norm."})
      builder.checkpoint.ignore(prefix + name);
    return out;
  }
  TRY(out.k, take_projection(builder, shared, width, prefix + "k_proj", kv_width, key_rows, a.qkv_bias));
  scale_linear(*out.k, a.in_scale, a.key_scale);
  if (!a.keys_are_values) {
    TRY(out.v, take_projection(builder, shared, width + kv_width, prefix + "v_proj", value_width, value_rows,
                               a.qkv_bias));
    scale_linear(*out.v, a.in_scale, 1);
  }
  if (a.qk_norm) {
    TRY(out.k_norm, norm_of(layer.form.k_norm, a.norms_all_heads ? kv_width : a.head_dim));
  }
  if (a.v_norm) out.v_norm = plain_norm(builder, a.head_dim, layer.norms.eps);
  return out;
}

namespace {

// softplus(x) = log(1 + exp(x)).
float softplus(float x) {
  return static_cast<float>(std::max<double>(x, 0) + std::log1p(std::exp(-std::abs(double{x}))));
}

// One number, of any shape.
Result<float> take_number(const ModelBuilder& builder, const std::string& name) {
  const auto info = builder.checkpoint.find(name);
  TRY(const auto value, builder.checkpoint.take(name, info ? info->shape : std::vector<int64_t>{1}));
  if (value.size() != 1)
    return make_error(ErrorKind::invalid, "{}: {} values, but one was expected", name, value.size());
  return value.data<float>()[0];
}

Result<ops::Xielu> take_xielu(const ModelBuilder& builder, const std::string& prefix) {
  TRY(const float alpha_p, take_number(builder, prefix + "alpha_p"));
  TRY(const float alpha_n, take_number(builder, prefix + "alpha_n"));
  TRY(const float beta, take_number(builder, prefix + "beta"));
  TRY(const float eps, take_number(builder, prefix + "eps"));
  return xielu_of(alpha_p, alpha_n, beta, eps);
}

}  // namespace

ops::Xielu xielu_of(float alpha_p, float alpha_n, float beta, float eps) {
  return {softplus(alpha_p), beta + softplus(alpha_n), beta, eps};
}

Result<nn::Mlp> take_mlp(const ModelBuilder& builder, const std::string& prefix, const MlpSpec& mlp,
                         const LayerForm& form) {
  const int width = mlp.intermediate;
  const auto inner = split_inner(builder, mlp.intermediate);
  std::vector<int64_t> rows;
  append_rows(rows, inner.first(builder.rank()), inner.last(builder.rank()));
  TRY(const auto shared, take_shared(builder, prefix + form.gate_up, 2 * width, mlp.bias));
  std::optional<nn::Linear> gate;
  if (mlp.gated) {
    TRY(gate, take_projection(builder, shared, 0, prefix + form.gate, width, rows, mlp.bias));
  }
  TRY(auto up, take_projection(builder, shared, width, prefix + form.up, width, rows, mlp.bias));
  TRY(auto down, take_last_linear(builder, prefix + form.down, inner, mlp.bias));
  if (gate) scale_linear(*gate, 1, mlp.gate_scale);
  scale_linear(down, 1, mlp.down_scale);
  nn::Mlp out{std::move(gate), std::move(up), std::move(down), mlp.activation,
              mlp.gelu,        mlp.relu2,     mlp.xielu,       mlp.clamped};
  if (mlp.xielu_in_files) {
    TRY(out.xielu, take_xielu(builder, prefix + "act_fn."));
  }
  return out;
}

Result<ops::ExpertMatrices> take_experts(const ModelBuilder& builder, const std::string& name,
                                         const MoeSpec& moe, int rows, int cols) {
  TRY(const auto source, builder.take_matrices(name + ".weight", moe.experts, rows, cols));
  auto out = ops::ExpertMatrices::make(builder.device, source, moe.experts);
  if (moe.expert_bias) {
    TRY(const auto bias, builder.checkpoint.take(name + ".bias", {moe.experts, rows}));
    out.bias = builder.device.to_device(bias);
  }
  return out;
}

namespace {

// [experts], or Ernie's [1, experts]. Rows could not be compared if a value were not finite.
Result<Tensor> take_choice_bias(const ModelBuilder& builder, const std::string& name, int experts) {
  const auto info = builder.checkpoint.find(name);
  const bool row = info && info->shape == std::vector<int64_t>{1, experts};
  TRY(const auto values, builder.checkpoint.take(name, row ? info->shape : std::vector<int64_t>{experts}));
  if (!std::all_of(values.data<float>(), values.data<float>() + experts,
                   [](float x) { return std::isfinite(x); }))
    return make_error(ErrorKind::invalid, "{}: a value of the router's bias is not finite", name);
  return builder.device.to_device(values.reshape({experts}));
}

Result<nn::Moe> take_moe(const ModelBuilder& builder, const std::string& p, const MoeSpec& spec) {
  const int hidden = builder.spec.hidden, inner = spec.intermediate, shared = spec.shared_intermediate;
  nn::Moe moe;
  moe.routing = spec.routing;
  moe.activation = spec.activation;
  moe.clamped = spec.clamped;
  TRY(auto router, take_linear(builder, p + "gate", spec.experts, hidden, spec.expert_bias));
  moe.router = std::move(router.weight);
  moe.router_bias = std::move(router.bias);
  if (spec.choice_bias) {
    TRY(moe.choice_bias, take_choice_bias(builder, p + "gate.e_score_correction_bias", spec.experts));
  }
  const int width = spec.latent > 0 ? spec.latent : hidden;
  if (spec.gated) {
    TRY(moe.gate, take_experts(builder, p + "switch_mlp.gate_proj", spec, inner, width));
  }
  TRY(moe.up, take_experts(builder, p + "switch_mlp.up_proj", spec, inner, width));
  TRY(moe.down, take_experts(builder, p + "switch_mlp.down_proj", spec, width, inner));
  if (spec.latent > 0) {
    TRY(auto in, take_linear(builder, p + "fc1_latent_proj", width, hidden, spec.bias));
    TRY(auto out, take_linear(builder, p + "fc2_latent_proj", hidden, width, spec.bias));
    moe.latent = {std::move(in), std::move(out)};
  }
  if (shared == 0) return moe;
  TRY(auto mlp, take_mlp(builder, p + "shared_expert.",
                         {.intermediate = shared,
                          .activation = spec.activation,
                          .bias = spec.bias,
                          .gated = spec.gated,
                          .relu2 = !spec.gated,
                          .clamped = spec.shared_clamped}));
  scale_linear(mlp.down, 1, spec.shared_scale);
  if (spec.bias || !spec.gated || spec.latent > 0 || spec.shared_scale != 1 || spec.shared_clamped) {
    moe.shared_mlp = std::move(mlp);
    return moe;
  }
  moe.shared =
      nn::Moe::Shared{std::move(mlp.gate->weight), std::move(mlp.up.weight), std::move(mlp.down.weight), {}};
  if (spec.shared_gate) {
    TRY(auto output_gate, take_linear(builder, p + "shared_expert_gate", 1, hidden));
    moe.shared->output_gate = std::move(output_gate.weight);
  }
  return moe;
}

}  // namespace

Result<nn::FeedForward> take_feed_forward(const ModelBuilder& builder, const std::string& prefix,
                                          const FeedForwardSpec& spec, const LayerForm& form) {
  if (const auto* moe = std::get_if<MoeSpec>(&spec)) {
    TRY(nn::FeedForward out, take_moe(builder, prefix, *moe));
    return out;
  }
  if (std::holds_alternative<std::monostate>(spec)) return nn::FeedForward(nn::Absent());
  TRY(nn::FeedForward out, take_mlp(builder, prefix, std::get<MlpSpec>(spec), form));
  return out;
}

Result<nn::DecoderLayer> join_layer(const ModelBuilder& builder, const std::string& prefix,
                                    const LayerSpec& layer, nn::Mixer mixer, nn::FeedForward feed_forward) {
  const LayerForm& form = layer.form;
  nn::DecoderLayer out{{}, std::move(mixer), {}, std::move(feed_forward)};
  struct Place {
    const char* name;
    std::optional<nn::Norm>* norm;
    const NormsSpec* norms;
  };
  NormsSpec after = layer.norms;
  if (after.post_eps > 0) after.eps = after.post_eps;
  for (const auto& [name, norm, norms] :
       {Place{form.norm1, &out.norm1, &layer.norms}, Place{form.post1, &out.post1, &after},
        Place{form.norm2, &out.norm2, &layer.norms}, Place{form.post2, &out.post2, &after}})
    if (name) {
      TRY(*norm, take_norm(builder, prefix + name, builder.spec.hidden, *norms));
    }
  out.parallel = form.parallel;
  if (form.parallel && !out.norm2) out.norm2 = out.norm1;
  out.residual_scale = layer.residual_scale;
  out.normed_residual = layer.normed_residual;
  return out;
}

}  // namespace anabranch
