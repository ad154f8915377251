#include "models/family.h"

#include <cmath>
#include <numbers>

namespace anabranch {

Result<nn::Linear> take_linear(Checkpoint& checkpoint, const std::string& name, int out, int in, bool bias) {
  TRY(auto source, checkpoint.take_matrix(name + ".weight", out, in));
  nn::Linear linear{ops::Weight::make(source), {}};
  if (bias) {
    TRY(auto values, checkpoint.take(name + ".bias", {out}));
    linear.bias = ops::to_device(values);
  }
  return linear;
}

namespace {

mx::array plus_one(const mx::array& w) {
  auto out = ops::empty(w.shape(), mx::float32);
  for (size_t i = 0; i < w.size(); i++) out.data<float>()[i] = w.data<float>()[i] + 1.0f;
  return out;
}

}  // namespace

Result<nn::RmsNorm> take_norm(Checkpoint& checkpoint, const std::string& name, int size, float eps,
                              bool offset_family) {
  const auto info = checkpoint.find(name + ".weight");
  TRY(auto weight, checkpoint.take(name + ".weight", {size}));
  if (offset_family && info->norms == NormConvention::offset) weight = plus_one(weight);
  return nn::RmsNorm{ops::to_device(weight), eps};
}

Result<nn::Attention> take_attention(Checkpoint& checkpoint, const std::string& prefix, const ModelSpec& spec,
                                     const AttentionSpec& a, bool offset_family) {
  const int width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
  nn::Attention out;
  out.heads = a.heads;
  out.kv_heads = a.kv_heads;
  out.head_dim = a.head_dim;
  out.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
  out.window = a.window;
  out.rope = {spec.rope.inv_freq, spec.rope.attention_factor};
  if (a.output_gate) {
    TRY(auto both, checkpoint.take_matrix(prefix + "q_proj.weight", 2 * width, spec.hidden));
    std::vector<int64_t> query_rows, gate_rows;
    for (int head = 0; head < a.heads; head++) {
      for (int i = 0; i < a.head_dim; i++) {
        query_rows.push_back(2ll * head * a.head_dim + i);
        gate_rows.push_back((2ll * head + 1) * a.head_dim + i);
      }
    }
    out.q.weight = ops::Weight::make(select_rows(both, query_rows));
    out.gate = nn::Linear{ops::Weight::make(select_rows(both, gate_rows)), {}};
  } else {
    TRY(out.q, take_linear(checkpoint, prefix + "q_proj", width, spec.hidden, a.qkv_bias));
  }
  TRY(out.k, take_linear(checkpoint, prefix + "k_proj", kv_width, spec.hidden, a.qkv_bias));
  TRY(out.v, take_linear(checkpoint, prefix + "v_proj", kv_width, spec.hidden, a.qkv_bias));
  TRY(out.o, take_linear(checkpoint, prefix + "o_proj", spec.hidden, width, a.out_bias));
  if (a.qk_norm) {
    TRY(out.q_norm, take_norm(checkpoint, prefix + "q_norm", a.head_dim, spec.norm_eps, offset_family));
    TRY(out.k_norm, take_norm(checkpoint, prefix + "k_norm", a.head_dim, spec.norm_eps, offset_family));
  }
  return out;
}

Result<nn::Mlp> take_mlp(Checkpoint& checkpoint, const std::string& prefix, const ModelSpec& spec) {
  TRY(auto gate, take_linear(checkpoint, prefix + "gate_proj", spec.intermediate, spec.hidden));
  TRY(auto up, take_linear(checkpoint, prefix + "up_proj", spec.intermediate, spec.hidden));
  TRY(auto down, take_linear(checkpoint, prefix + "down_proj", spec.hidden, spec.intermediate));
  return nn::Mlp{std::move(gate), std::move(up), std::move(down)};
}

namespace {

// Llama 3.1's frequency scaling (Transformers' _compute_llama3_parameters).
double llama3_scaled(double freq, double factor, double low, double high, double original_context) {
  const double wavelength = 2 * std::numbers::pi / freq;
  if (wavelength < original_context / high) return freq;
  if (wavelength > original_context / low) return freq / factor;
  const double smooth = (original_context / wavelength - low) / (high - low);
  return (1 - smooth) * freq / factor + smooth * freq;
}

}  // namespace

RopeSpec read_rope(ConfigReader& config, int rotated_dims, double default_theta) {
  const bool merged = config.has("rope_parameters");
  ConfigReader rope(config.object(merged ? "rope_parameters" : "rope_scaling"), "rope parameters");
  const double theta = merged ? rope.number_or("rope_theta", 1, 1e12, default_theta)
                              : config.number_or("rope_theta", 1, 1e12, default_theta);
  const std::string type = rope.string_or("rope_type", rope.string_or("type", "default"));
  const double factor = type == "default" ? 1.0 : rope.number("factor", 1e-3, 1e6);
  double low = 1, high = 4, original = 8192;
  if (type == "llama3") {
    low = rope.number("low_freq_factor", 1e-3, 1e6);
    high = rope.number("high_freq_factor", 1e-3, 1e6);
    original = rope.number("original_max_position_embeddings", 1, 1e9);
    if (high <= low) rope.invalid("high_freq_factor must be above low_freq_factor");
  } else if (type != "default" && type != "linear") {
    config.unsupported("rope_type", type, "default, linear and llama3 are");
  }
  if (auto checked = rope.check(); !checked) config.invalid(checked.error().message);

  RopeSpec out;
  for (int i = 0; i < rotated_dims / 2; i++) {
    double freq = std::pow(theta, -2.0 * i / rotated_dims);
    if (type == "linear") freq /= factor;
    if (type == "llama3") freq = llama3_scaled(freq, factor, low, high, original);
    out.inv_freq.push_back(static_cast<float>(freq));
  }
  return out;
}

}  // namespace anabranch
