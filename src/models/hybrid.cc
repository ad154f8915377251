// The weights of hybrids with Mamba2, short convolutions or Gated DeltaNet (hybrid_config.cc).
#include <algorithm>

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
Result<nn::Mixer> take_mamba2(const ModelBuilder& builder, const std::string& p,
                              const ops::RecurrenceShape& shape, float eps) {
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
  TRY(const auto taps, take_conv(builder.checkpoint, p + "conv1d.weight", channels, shape.conv_kernel));
  out.weights.conv_weight = builder.device.to_device(take_channels(taps, order));
  if (shape.rule.conv_bias) {
    TRY(const auto bias, builder.checkpoint.take(p + "conv1d.bias", {channels}));
    out.weights.conv_bias = take_elements(builder, bias, order);
  }
  TRY(out.weights.a_log, take_vector(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", heads));
  TRY(out.weights.skip, take_vector(builder, p + "D", heads));
  TRY(out.weights.norm_weight, take_vector(builder, p + "norm.weight", width));
  out.weights.eps = eps;
  TRY(out.out, take_out(builder, p + "out_proj", width));
  return nn::Mixer(std::move(out));
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

// The convolution of queries, keys and values, in one tensor or in three.
Result<Tensor> take_three_convs(Checkpoint& checkpoint, const std::string& p,
                                const ops::RecurrenceShape& shape) {
  const int keys = shape.key_heads * shape.key_dim, channels = shape.conv_channels(),
            kernel = shape.conv_kernel;
  if (checkpoint.has(p + "conv1d.weight"))
    return take_conv(checkpoint, p + "conv1d.weight", channels, kernel);
  Tensor all = host_device().empty({kernel, channels}, Dtype::f32);
  int begin = 0;
  for (const auto& [name, count] : {std::pair{"q_conv1d.weight", keys},
                                    {"k_conv1d.weight", keys},
                                    {"v_conv1d.weight", channels - 2 * keys}}) {
    TRY(const auto taps, take_conv(checkpoint, p + name, count, kernel));
    for (int t = 0; t < kernel; t++)
      std::copy_n(taps.data<float>() + t * count, count, all.data<float>() + t * channels + begin);
    begin += count;
  }
  return all;
}

// OLMo's Gated DeltaNet, with a projection for each of its inputs.
Result<nn::Mixer> take_delta_of_projections(const ModelBuilder& builder, const std::string& p,
                                            const ops::RecurrenceShape& shape) {
  const int keys = shape.key_heads * shape.key_dim, values = shape.value_heads * shape.value_dim;
  const int heads = shape.value_heads, hidden = builder.spec.hidden;
  nn::Recurrence out;
  out.shape = shape;
  TRY(out.qkv, take_joined(builder, {{p + "q_proj", keys}, {p + "k_proj", keys}, {p + "v_proj", values}}));
  TRY(out.z, take_linear(builder, p + "g_proj", values, hidden));
  TRY(out.b, take_linear(builder, p + "b_proj", heads, hidden));
  TRY(out.a, take_linear(builder, p + "a_proj", heads, hidden));
  TRY(const auto taps, take_three_convs(builder.checkpoint, p, shape));
  out.weights.conv_weight = builder.device.to_device(taps);
  TRY(out.weights.a_log, take_vector(builder, p + "A_log", heads));
  TRY(out.weights.dt_bias, take_vector(builder, p + "dt_bias", heads));
  TRY(out.weights.norm_weight, take_vector(builder, p + "o_norm.weight", shape.value_dim));
  out.weights.eps = 1e-5f;  // whatever rms_norm_eps says
  TRY(out.out, take_linear(builder, p + "o_proj", hidden, values));
  return nn::Mixer(std::move(out));
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

Result<nn::Mixer> take_mixer(const ModelBuilder& builder, const std::string& p, const LayerSpec& layer) {
  if (std::holds_alternative<AttentionSpec>(layer.mixer)) {
    TRY(auto attention, take_attention(builder, p + layer.form.attention, layer));
    return nn::Mixer(std::move(attention));
  }
  const auto* shape = std::get_if<ops::RecurrenceShape>(&layer.mixer);
  if (!shape) return nn::Mixer(nn::Absent());
  const std::string own = p + layer.form.recurrence;
  if (shape->channels > 0) return take_short_conv(builder, own, *shape);
  return shape->rule.delta ? take_delta_of_projections(builder, own, *shape)
                           : take_mamba2(builder, own, *shape, layer.norms.eps);
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  TRY(auto mixer, take_mixer(builder, p, layer));
  TRY(auto mlp, take_feed_forward(builder, p + layer.form.mlp, layer.mlp, layer.form));
  return join_layer(builder, p, layer, std::move(mixer), std::move(mlp));
}

}  // namespace

const Family* find_hybrid_family(const std::string& model_type) {
  static const Family family{read_hybrid_config, build_layer};
  return is_hybrid_member(model_type) ? &family : nullptr;
}

}  // namespace anabranch
