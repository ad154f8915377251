#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/log.h"

namespace anabranch {
namespace {

struct RopeReader {
  ConfigReader& config;
  ConfigReader rope;  // reads the object with the rope's own keys
  double theta;
  int dims, context_length;
  RopeConfig out = {};

  double frequency(int i) const { return std::pow(theta, -2.0 * i / dims); }
  int pairs() const { return (dims + 1) / 2; }
  // Found beside the rope's keys or in the config itself, which Transformers prefers.
  double original_context() {
    if (config.has("original_max_position_embeddings"))
      return config.number("original_max_position_embeddings", 1, 1e9);
    return rope.number_or("original_max_position_embeddings", 1, 1e9, context_length);
  }
  double factor() { return rope.number("factor", 1e-3, 1e6); }
};

// Llama 3.1's frequency scaling (_compute_llama3_parameters).
void read_llama3(RopeReader& r) {
  const double factor = r.factor(), low = r.rope.number("low_freq_factor", 1e-3, 1e6),
               high = r.rope.number("high_freq_factor", 1e-3, 1e6), original = r.original_context();
  if (high <= low) r.rope.invalid("high_freq_factor must be above low_freq_factor");
  for (int i = 0; i < r.pairs(); i++) {
    const double freq = r.frequency(i), wavelength = 2 * std::numbers::pi / freq;
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    r.out.rope.inv_freq.push_back(static_cast<float>((1 - smooth) * freq / factor + smooth * freq));
  }
}

double yarn_scale(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

// YaRN (Peng et al. 2023; _compute_yarn_parameters).
void read_yarn(RopeReader& r) {
  if (r.theta <= 1) return r.rope.invalid("a yarn rope needs a rope_theta above 1");
  const double original = r.original_context();
  const double factor = r.rope.number_or("factor", 1e-3, 1e6, r.context_length / original);
  const double fast = r.rope.number_or("beta_fast", 1e-3, 1e6, 32),
               slow = r.rope.number_or("beta_slow", 1e-3, 1e6, 1);
  const double scale = r.rope.number_or("mscale", 0, 1e6, 0),
               all = r.rope.number_or("mscale_all_dim", 0, 1e6, 0);
  const double attention =
      scale != 0 && all != 0 ? yarn_scale(factor, scale) / yarn_scale(factor, all) : yarn_scale(factor, 1);
  r.out.rope.attention_factor =
      static_cast<float>(r.rope.number_or("attention_factor", 1e-3, 1e6, attention));
  const auto dim_of = [&](double rotations) {
    return r.dims * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(r.theta));
  };
  double low = dim_of(fast), high = dim_of(slow);
  if (r.rope.boolean_or("truncate", true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, r.dims - 1.0);
  if (low == high) high += 0.001;
  for (int i = 0; i < r.pairs(); i++) {
    const double stretched = std::clamp((i - low) / (high - low), 0.0, 1.0), freq = r.frequency(i);
    r.out.rope.inv_freq.push_back(static_cast<float>(freq / factor * stretched + freq * (1 - stretched)));
  }
  r.out.context_length = static_cast<int>(std::min(original * factor, 1e8));
}

// LongRoPE (Ding et al. 2024; _compute_longrope_parameters).
void read_longrope(RopeReader& r) {
  const double original = r.original_context();
  if (original <= 1)
    return r.rope.invalid("a longrope rope needs an original_max_position_embeddings above 1");
  const double factor = r.rope.number_or("factor", 1e-3, 1e6, r.context_length / original);
  const double attention = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  r.out.rope.attention_factor =
      static_cast<float>(r.rope.number_or("attention_factor", 1e-3, 1e6, attention));
  r.out.rope.far_from = static_cast<int>(original);
  for (const auto& [key, to] : {std::pair{"short_factor", &r.out.rope.inv_freq},
                                std::pair{"long_factor", &r.out.rope.far_inv_freq}}) {
    const auto factors = r.rope.numbers(key, 1e-6, 1e6);
    if (static_cast<int>(factors.size()) != r.pairs())
      return r.rope.invalid(
          fmt::format("{} has {} entries, but {} dimensions turn in pairs", key, factors.size(), r.dims));
    for (int i = 0; i < r.pairs(); i++)
      to->push_back(static_cast<float>(r.frequency(i) / factors[static_cast<size_t>(i)]));
  }
}

// Dynamic NTK scaling (_compute_dynamic_ntk_parameters).
void read_dynamic(RopeReader& r) {
  const double factor = r.factor();
  for (int i = 0; i < r.pairs(); i++) r.out.rope.inv_freq.push_back(static_cast<float>(r.frequency(i)));
  if (r.dims < 4) return r.rope.invalid("a dynamic rope needs 4 dimensions that turn");
  r.out.rope.far_from = r.context_length;
  r.out.rope.far_theta = r.theta;
  r.out.rope.far_factor = std::max(factor, 1.0);
  r.out.context_length = static_cast<int>(std::min(r.context_length * std::max(factor, 1.0), 1e8));
}

void read_plain(RopeReader& r, double factor) {
  for (int i = 0; i < r.pairs(); i++)
    r.out.rope.inv_freq.push_back(static_cast<float>(r.frequency(i) / factor));
}

}  // namespace

Json without_truncation(Json entry) {
  entry.erase("truncate");
  return entry;
}

namespace {

constexpr const char* kKinds[] = {"full_attention", "sliding_attention", "linear_attention",
                                  "chunked_attention"};

bool is_kind(const std::string& key) {
  return std::ranges::find(kKinds, key) != std::end(kKinds);
}

// The entry for one kind of layers, if there is one for each kind.
Json entry_of_kind(ConfigReader& config, const Json& all, const char* kind) {
  for (const auto& [key, value] : all.items())
    if (!is_kind(key))
      config.unsupported("rope_parameters", "\"" + key + "\" beside kinds of layers", "either is");
  const auto own = all.find(kind);
  if (own != all.end() && own->is_object()) return without_truncation(*own);
  config.unsupported("rope_parameters", fmt::format("without an entry for {}", kind), "one for each kind is");
  return Json::object();
}

}  // namespace

Json rope_parameters_of(ConfigReader& config, const char* kind) {
  const Json &all = config.object("rope_parameters"), &older = config.object("rope_scaling");
  const bool by_kind = std::ranges::any_of(kKinds, [&](const char* each) { return all.contains(each); });
  Json out = by_kind ? entry_of_kind(config, all, kind) : all;
  for (const auto& [key, value] : older.items()) {
    if (out.contains(key) && out[key] != value)
      config.unsupported(
          "rope_scaling",
          fmt::format("{} {}, and {} in \"rope_parameters\"", key, value.dump(), out[key].dump()),
          "one of the two is");
    out[key] = value;
  }
  return out;
}

ops::Rope proportional_rope(ConfigReader& config, const Json& parameters, int head_dim,
                            double default_theta) {
  ConfigReader rope(parameters, "rope parameters");
  if (head_dim % 2 != 0) rope.invalid(fmt::format("heads of {} dimensions cannot turn in pairs", head_dim));
  const double theta =
      rope.number_or("rope_theta", 1, 1e12, config.number_or("rope_theta", 1, 1e12, default_theta));
  const double factor = rope.number_or("factor", 1e-3, 1e6, 1);
  const double part =
      rope.number_or("partial_rotary_factor", 0, 1, config.number_or("partial_rotary_factor", 0, 1, 1));
  if (auto checked = rope.check(); !checked) config.invalid(checked.error().message);
  const int turned = static_cast<int>(part * head_dim / 2);
  ops::Rope out;
  for (int i = 0; i < head_dim / 2; i++)
    out.inv_freq.push_back(i < turned ? static_cast<float>(std::pow(theta, -2.0 * i / head_dim) / factor)
                                      : 0.0f);
  return out;
}

int turned_dims(ConfigReader& config, const Json& parameters, int head_dim, double usual) {
  ConfigReader rope(parameters, "rope parameters");
  const double part =
      rope.number_or("partial_rotary_factor", 0, 1, config.number_or("partial_rotary_factor", 0, 1, usual));
  if (auto checked = rope.check(); !checked) config.invalid(checked.error().message);
  return static_cast<int>(head_dim * part);
}

void add_interleaved_axes(ConfigReader& parameters, std::array<int, 3> usual, ops::Rope& rope) {
  std::vector<int> sections = parameters.integers("mrope_section");
  if (sections.empty()) sections.assign(usual.begin(), usual.end());
  if (sections.size() != 3) return parameters.invalid("mrope_section must have three entries");
  if (rope.far_from != 0 || rope.query_beta != 0) return;
  rope.axis.assign(rope.inv_freq.size(), 0);
  for (size_t i = 0; i < rope.axis.size(); i++)
    if (static_cast<int>(i / 3) < sections[i % 3]) rope.axis[i] = static_cast<uint8_t>(i % 3);
}

void require_whole_heads(ConfigReader& config, const Json& parameters) {
  ConfigReader rope(parameters, "rope parameters");
  for (ConfigReader* each : {&config, &rope})
    if (const double part = each->number_or("partial_rotary_factor", 0, 1, 1); part != 1)
      config.unsupported("partial_rotary_factor", fmt::format("{}", part), "1 is, in this family");
}

RopeConfig read_rope(ConfigReader& config, const Json& parameters, int rotated_dims, double default_theta) {
  const double outer_theta = config.number_or("rope_theta", 1, 1e12, default_theta);
  RopeReader r{config, ConfigReader(parameters, "rope parameters"), outer_theta, rotated_dims,
               config.integer_or("max_position_embeddings", 1, 1 << 27, 2048)};
  r.theta = r.rope.number_or("rope_theta", 1, 1e12, outer_theta);
  if (!config.has("rope_theta") && !r.rope.has("rope_theta"))
    log_info("the config states no rope_theta: {} is taken, as in Transformers", default_theta);
  const std::string type = r.rope.string_or("rope_type", r.rope.string_or("type", "default"));
  const bool odd = rotated_dims % 2 != 0, plain = type == "default" || type == "linear" || type == "llama3";
  if (rotated_dims < 2 || (odd && !plain))
    config.invalid(fmt::format("{} dimensions of each head turn, but {} from 2 is needed", rotated_dims,
                               plain ? "a number" : "an even number"));
  else if (type == "default")
    read_plain(r, 1);
  else if (type == "linear")
    read_plain(r, r.factor());
  else if (type == "llama3")
    read_llama3(r);
  else if (type == "yarn")
    read_yarn(r);
  else if (type == "longrope" || type == "su")
    read_longrope(r);
  else if (type == "dynamic")
    read_dynamic(r);
  else
    config.unsupported("rope_type", type, "default, linear, llama3, yarn, longrope and dynamic are");
  if (const double beta = r.rope.number_or("llama_4_scaling_beta", 0, 1e6, 0); beta != 0) {
    r.out.rope.query_beta = static_cast<float>(beta);
    r.out.rope.query_period = static_cast<int>(r.original_context());
  }
  if (auto checked = r.rope.check(); !checked) config.invalid(checked.error().message);
  return std::move(r.out);
}

}  // namespace anabranch
