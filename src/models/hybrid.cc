// The weights of hybrids (hybrid_config.h).
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "checkpoint/experts.h"
#include "models/family.h"

namespace anabranch {
namespace {

// A matrix and, if the files have one, its bias, for layers that have some of its rows each.
struct SplitLinear {
  std::string name;
  WeightSource source;
  std::optional<Tensor> bias;

  nn::Linear rows(const ModelBuilder& builder, const std::vector<int64_t>& rows) const {
    nn::Linear linear = linear_of(builder, name, source, rows);
    if (bias) linear.bias = take_elements(builder, *bias, rows);
    return linear;
  }
};

Result<SplitLinear> take_split(const ModelBuilder& builder, const std::string& name, int rows) {
  SplitLinear out{name, {}, {}};
  TRY(out.source, builder.take_matrix(name + ".weight", rows, builder.spec.hidden));
  if (builder.checkpoint.has(name + ".bias")) {
    TRY(out.bias, builder.checkpoint.take(name + ".bias", {rows}));
  }
  return out;
}

// The projection back to the residual stream, with a bias if the files have one.
Result<nn::Linear> take_out(const ModelBuilder& builder, const std::string& name, int width) {
  return take_linear(builder, name, builder.spec.hidden, width, builder.checkpoint.has(name + ".bias"));
}

Result<Tensor> take_vector(const ModelBuilder& builder, const std::string& name, int size) {
  TRY(const auto values, builder.checkpoint.take(name, {size}));
  return builder.device.to_device(values);
}

// in_proj has the rows of z, x, B, C and dt, and the convolution the channels of x, B and C. The recurrence
// takes C as queries, B as keys and x as values, in this order.
Result<nn::Recurrence> take_mamba2(const ModelBuilder& builder, const std::string& p,
                                   const ops::RecurrenceShape& shape, float eps,
                                   const RecurrenceScales& scales = {}) {
  const int width = shape.value_heads * shape.value_dim, states = shape.key_heads * shape.key_dim;
  const int channels = shape.conv_channels(), heads = shape.value_heads;
  std::vector<int64_t> order, of_z, of_x, of_a;
  append_rows(order, width + states, channels);
  append_rows(order, width, width + states);
  append_rows(order, 0, width);
  append_rows(of_z, 0, width);
  for (const int64_t channel : order) of_x.push_back(width + channel);
  append_rows(of_a, width + channels, width + channels + heads);
  TRY(const auto in, take_split(builder, p + "in_proj", width + channels + heads));
  nn::Recurrence out;
  out.shape = shape;
  out.qkv = in.rows(builder, of_x);
  out.z = in.rows(builder, of_z);
  out.a = in.rows(builder, of_a);
  scale_linear(out.qkv, scales.in, 1);
  scale_linear(out.z, scales.in, scales.z);
  scale_linear(*out.a, scales.in, scales.a);
  TRY(auto taps, take_conv(builder.checkpoint, p + "conv1d.weight", channels, shape.conv_kernel));
  // The factors of x, B and C multiply the convolution, which comes next.
  for (int64_t i = 0; i < taps.size(); i++) {
    const int64_t channel = i % channels;
    taps.data<float>()[i] *= channel < width            ? scales.values
                             : channel < width + states ? scales.keys
                                                        : scales.queries;
  }
  out.weights.conv_weight = builder.device.to_device(take_channels(taps, order));
  if (shape.rule.conv_bias) {
    TRY(const auto bias, builder.checkpoint.take(p + "conv1d.bias", {channels}));
    out.weights.conv_bias = take_elements(builder, bias, order);
  }
  TRY(out.weights.a_log, take_vector(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", heads));
  TRY(out.weights.skip, take_vector(builder, p + "D", heads));
  if (shape.rule.norm != ops::RecurrenceRule::Norm::none) {
    TRY(out.weights.norm_weight, take_vector(builder, p + "norm.weight", width));
  }
  out.weights.eps = eps;
  TRY(out.out, take_out(builder, p + "out_proj", width));
  scale_linear(out.out, 1, scales.out);
  return out;
}

// A matrix of the rows of several.
Result<nn::Linear> take_joined(const ModelBuilder& builder,
                               std::initializer_list<std::pair<std::string, int>> parts) {
  std::vector<WeightSource> sources;
  for (const auto& [name, rows] : parts) {
    TRY(auto source, builder.take_matrix(name + ".weight", rows, builder.spec.hidden));
    sources.push_back(std::move(source));
  }
  const WeightSource& first = sources.front();
  const bool alike = std::ranges::all_of(sources, [&](const WeightSource& s) {
    return s.kind == first.kind && s.bits == first.bits && s.group == first.group && s.table == first.table;
  });
  if (!alike)
    for (WeightSource& source : sources) source = decoded(std::move(source));
  return nn::Linear{ops::Weight::make(builder.device, join_rows(std::move(sources))), {}};
}

// The convolution of queries, keys and values, in one tensor or in three, whose names differ in MLX's files.
// Transformers cuts it into three parts of about equal size when it saves, whatever the sizes of keys and
// values.
Result<Tensor> take_three_convs(Checkpoint& checkpoint, const std::string& p,
                                const ops::RecurrenceShape& shape) {
  const int keys = shape.key_heads * shape.key_dim, channels = shape.conv_channels(),
            kernel = shape.conv_kernel;
  if (checkpoint.has(p + "conv1d.weight"))
    return take_conv(checkpoint, p + "conv1d.weight", channels, kernel);
  Tensor all = host_device().empty({kernel, channels}, Dtype::f32);
  int begin = 0;
  const char* suffix = checkpoint.has(p + "q_conv.conv.weight") ? "_conv.conv.weight" : "_conv1d.weight";
  for (const auto& [name, usual] : {std::pair{"q", keys}, {"k", keys}, {"v", channels - 2 * keys}}) {
    const auto info = checkpoint.find(p + name + suffix);
    const bool some = info && !info->shape.empty() && info->shape[0] > 0;
    const int count = some ? static_cast<int>(std::min<int64_t>(info->shape[0], channels - begin)) : usual;
    TRY(const auto taps, take_conv(checkpoint, p + name + suffix, count, kernel));
    for (int t = 0; t < kernel; t++)
      std::copy_n(taps.data<float>() + t * count, count, all.data<float>() + t * channels + begin);
    begin += count;
  }
  if (begin != channels)
    return make_error(ErrorKind::invalid, "{}: convolutions of {} channels, but {} were expected", p, begin,
                      channels);
  return all;
}

// A projection "<name>"; or, in place of it, two of low rank, one after the other.
struct LowRankNames {
  const char *whole, *first, *second;
};
Result<nn::Linear> take_low_rank(const ModelBuilder& builder, const std::string& p, const LowRankNames& names,
                                 int rows, int rank, std::optional<nn::Linear>& low) {
  const int hidden = builder.spec.hidden;
  if (builder.checkpoint.has(p + names.whole + ".weight"))
    return take_linear(builder, p + names.whole, rows, hidden);
  TRY(low, take_linear(builder, p + names.first, rank, hidden));
  return take_linear(builder, p + names.second, rows, rank);
}

// A vector with a value for each head, which may have further dimensions of 1.
Result<Tensor> take_of_heads(const ModelBuilder& builder, const std::string& name, int heads) {
  const auto info = builder.checkpoint.find(name);
  std::vector<int64_t> shape{heads};
  if (info && std::ranges::count(info->shape, heads) > 0 &&
      std::accumulate(info->shape.begin(), info->shape.end(), int64_t{1}, std::multiplies()) == heads)
    shape = info->shape;
  TRY(const auto values, builder.checkpoint.take(name, shape));
  return builder.device.to_device(values.reshape({heads}));
}

// OLMo's Gated DeltaNet and Kimi Delta Attention, with a projection for each of their inputs.
Result<nn::Recurrence> take_delta_of_projections(const ModelBuilder& builder, const std::string& p,
                                                 const ops::RecurrenceShape& shape, float eps) {
  const int keys = shape.key_heads * shape.key_dim, values = shape.value_heads * shape.value_dim;
  const int heads = shape.value_heads, hidden = builder.spec.hidden, decays = heads * shape.decay_dim();
  nn::Recurrence out;
  out.shape = shape;
  TRY(out.qkv, take_joined(builder, {{p + "q_proj", keys}, {p + "k_proj", keys}, {p + "v_proj", values}}));
  TRY(out.z,
      take_low_rank(builder, p, {"g_proj", "g_a_proj", "g_b_proj"}, values, shape.value_dim, out.z_low));
  TRY(out.b, take_linear(builder, p + "b_proj", heads, hidden));
  const LowRankNames of_a{shape.rule.key_decay ? "f_proj" : "a_proj", "f_a_proj", "f_b_proj"};
  TRY(out.a, take_low_rank(builder, p, of_a, decays, shape.key_dim, out.a_low));
  TRY(const auto taps, take_three_convs(builder.checkpoint, p, shape));
  out.weights.conv_weight = builder.device.to_device(taps);
  TRY(out.weights.a_log, take_of_heads(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", decays));
  TRY(out.weights.norm_weight, take_vector(builder, p + "o_norm.weight", shape.value_dim));
  out.weights.eps = eps;
  TRY(out.out, take_linear(builder, p + "o_proj", hidden, values));
  return out;
}

// Lara's Gated DeltaNet: in_proj has the rows of queries, keys, values, z, b and a.
Result<nn::Recurrence> take_delta_of_one(const ModelBuilder& builder, const std::string& p,
                                         const ops::RecurrenceShape& shape, float eps) {
  const int values = shape.value_heads * shape.value_dim, channels = shape.conv_channels();
  const int heads = shape.value_heads, of_b = channels + values;
  TRY(const auto in, take_split(builder, p + "in_proj", of_b + 2 * heads));
  const auto rows = [&](int first, int last) {
    std::vector<int64_t> out;
    append_rows(out, first, last);
    return in.rows(builder, out);
  };
  nn::Recurrence out;
  out.shape = shape;
  out.qkv = rows(0, channels);
  out.z = rows(channels, of_b);
  out.b = rows(of_b, of_b + heads);
  out.a = rows(of_b + heads, of_b + 2 * heads);
  TRY(const auto taps, take_conv(builder.checkpoint, p + "conv1d.weight", channels, shape.conv_kernel));
  out.weights.conv_weight = builder.device.to_device(taps);
  TRY(out.weights.a_log, take_vector(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", heads));
  TRY(out.weights.norm_weight, take_vector(builder, p + "out_norm.weight", shape.value_dim));
  out.weights.eps = eps;
  TRY(out.out, take_linear(builder, p + "out_proj", builder.spec.hidden, values));
  return out;
}

// Lightning attention: qkv_proj has [query | key | value] for each head. There is no convolution.
Result<nn::Recurrence> take_lightning(const ModelBuilder& builder, const std::string& p,
                                      const ops::RecurrenceShape& shape, float decay_factor) {
  const int heads = shape.value_heads, dim = shape.value_dim, width = heads * dim;
  const int hidden = builder.spec.hidden;
  std::vector<int64_t> order;
  for (int part = 0; part < 3; part++)
    for (int head = 0; head < heads; head++)
      append_rows(order, (3 * head + part) * dim, (3 * head + part + 1) * dim);
  nn::Recurrence out;
  out.shape = shape;
  TRY(const auto qkv, take_split(builder, p + "qkv_proj", 3 * width));
  out.qkv = qkv.rows(builder, order);
  TRY(out.z, take_linear(builder, p + "output_gate", width, hidden));
  TRY(out.out, take_linear(builder, p + "out_proj", hidden, width));
  TRY(out.weights.norm_weight, take_vector(builder, p + "norm.weight", width));
  out.weights.eps = 1e-6f;  // whatever rms_norm_eps says
  out.weights.conv_weight = builder.device.to_device(filled(3 * width, 1).reshape({1, 3 * width}));
  Tensor a_log = filled(heads, 0);
  for (int h = 0; h < heads; h++)
    a_log.data<float>()[h] = std::log(decay_factor * std::exp2(-8.0f * (h + 1) / heads));
  out.weights.a_log = builder.device.to_device(a_log);
  // Some files contain the rates of the decays, too, as they are computed here, or rounded.
  for (const char* name : {"slope_rate", "query_decay", "key_decay", "diagonal_decay"})
    builder.checkpoint.ignore(p + name);
  return out;
}

Result<nn::Mixer> take_short_conv(const ModelBuilder& builder, const std::string& p,
                                  const ops::RecurrenceShape& shape) {
  const int channels = shape.channels;
  nn::ShortConv out;
  out.shape = shape;
  TRY(out.in, take_linear(builder, p + "in_proj", 3 * channels, builder.spec.hidden, shape.rule.conv_bias));
  TRY(const auto taps, take_conv(builder.checkpoint, p + "conv.weight", channels, shape.conv_kernel));
  out.weights.weight = builder.device.to_device(taps);
  if (shape.rule.conv_bias) {
    TRY(out.weights.bias, take_vector(builder, p + "conv.bias", channels));
  }
  TRY(out.out, take_linear(builder, p + "out_proj", builder.spec.hidden, channels, shape.rule.conv_bias));
  return nn::Mixer(std::move(out));
}

Result<nn::Recurrence> take_recurrence(const ModelBuilder& builder, const std::string& p,
                                       const ops::RecurrenceShape& shape, const LayerSpec& layer) {
  const ops::RecurrenceRule& rule = shape.rule;
  if (rule.decay == ops::RecurrenceRule::Decay::constant)
    return take_lightning(builder, p, shape, layer.decay_factor);
  if (!rule.delta) return take_mamba2(builder, p, shape, layer.norms.eps);
  if (!rule.key_decay && builder.checkpoint.has(p + "in_proj.weight"))
    return take_delta_of_one(builder, p, shape, layer.norms.eps);
  // OLMo's norm has its own eps, whatever rms_norm_eps says.
  return take_delta_of_projections(builder, p, shape, rule.key_decay ? layer.norms.eps : 1e-5f);
}

bool has_factors(const ModelSpec& model, const LayerSpec& layer) {
  const auto& spec = std::get<SideBySideSpec>(layer.mixer);
  const AttentionSpec& a = spec.attention;
  const auto* mlp = std::get_if<MlpSpec>(&layer.mlp);
  return a.in_scale != 1 || a.key_scale != 1 || a.out_scale != 1 || spec.scales != RecurrenceScales{} ||
         (mlp && (mlp->gate_scale != 1 || mlp->down_scale != 1)) || model.embedding_scale != 1 ||
         model.logits_scale != 1;
}

// MLX conversions of Falcon-H1 hold weights that are already multiplied by the config's factors. So do GGUF
// files, but these state no factors.
Result<nn::Mixer> take_side_by_side(const ModelBuilder& builder, const std::string& p,
                                    const LayerSpec& layer) {
  const auto& spec = std::get<SideBySideSpec>(layer.mixer);
  const std::string own = p + layer.form.recurrence;
  const auto conv = builder.checkpoint.find(own + "conv1d.weight");
  if (conv && conv->norms == NormConvention::plain && has_factors(builder.spec, layer))
    return make_error(ErrorKind::unsupported,
                      "{}: Falcon-H1 in MLX's layout is not supported; use the original safetensors files",
                      builder.checkpoint.path());
  TRY(auto attention, take_attention(builder, p + layer.form.attention, layer));
  TRY(auto recurrence, take_mamba2(builder, own, spec.recurrence, layer.norms.eps, spec.scales));
  return nn::Mixer(nn::SideBySide{std::move(attention), std::move(recurrence)});
}

Result<nn::Mixer> take_mixer(const ModelBuilder& builder, const std::string& p, const LayerSpec& layer) {
  if (std::holds_alternative<AttentionSpec>(layer.mixer)) {
    TRY(auto attention, take_attention(builder, p + layer.form.attention, layer));
    return nn::Mixer(std::move(attention));
  }
  if (std::holds_alternative<LatentAttentionSpec>(layer.mixer)) {
    TRY(auto attention, take_latent_attention(builder, p + layer.form.attention, layer));
    return nn::Mixer(std::move(attention));
  }
  if (std::holds_alternative<SideBySideSpec>(layer.mixer)) return take_side_by_side(builder, p, layer);
  const auto* shape = std::get_if<ops::RecurrenceShape>(&layer.mixer);
  if (!shape) return nn::Mixer(nn::Absent());
  const std::string own = p + layer.form.recurrence;
  if (shape->channels > 0) return take_short_conv(builder, own, *shape);
  TRY(auto recurrence, take_recurrence(builder, own, *shape, layer));
  return nn::Mixer(std::move(recurrence));
}

// mlx-lm writes LFM2's dense layers beside mixtures, and Granites without experts, with the usual names.
LayerForm form_of_mlp(const Checkpoint& checkpoint, const std::string& p, LayerForm form) {
  const LayerForm usual;
  const auto has = [&](const char* mlp) { return checkpoint.has(p + mlp + usual.gate + ".weight"); };
  if (!has(form.mlp) && has(usual.mlp)) form.mlp = usual.mlp;
  if (has(form.mlp)) form.gate = usual.gate, form.up = usual.up, form.down = usual.down;
  return form;
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  TRY(auto mixer, take_mixer(builder, p, layer));
  const LayerForm form = form_of_mlp(builder.checkpoint, p, layer.form);
  TRY(auto mlp, take_feed_forward(builder, p + form.mlp, layer.mlp, form));
  return join_layer(builder, p, layer, std::move(mixer), std::move(mlp));
}

}  // namespace

const Family* find_hybrid_family(const std::string& model_type) {
  static const Family family{read_hybrid_config, build_layer};
  return is_hybrid_member(model_type) ? &family : nullptr;
}

}  // namespace anabranch
