// Rotary embeddings in GGUF metadata.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_config.h"

namespace anabranch {

namespace {

Result<void> add_yarn(const GgufMetadata& m, Json& scaling) {
  if (m.find("rope.scaling.original_context_length")) {
    TRY(scaling["original_max_position_embeddings"], m.integer("rope.scaling.original_context_length", 1));
  }
  struct Number {
    const char *gguf, *config;
  };
  for (const auto& [gguf, config] : {Number{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                     Number{"rope.scaling.yarn_beta_slow", "beta_slow"},
                                     Number{"rope.scaling.yarn_attn_factor", "attention_factor"},
                                     Number{"rope.scaling.yarn_log_multiplier", "mscale_all_dim"},
                                     Number{"rope.scaling.mscale", "mscale"}})
    if (const Json* value = m.find(gguf); value && *value != 0) {
      TRY(scaling[config], m.real(gguf, 1));
    }
  if (scaling.contains("mscale_all_dim") && !scaling.contains("mscale"))
    scaling["mscale"] = 1.0;  // llama.cpp's default
  for (const char* key : {"rope.scaling.yarn_ext_factor", "rope.scaling.attn_factor"}) {
    TRY(const double value, m.real(key, 1));
    if (value != 1)
      return make_error(ErrorKind::unsupported, "{}: a yarn rope with {} {} cannot be read", m.path(), key,
                        value);
  }
  return {};
}

// Returns config.json's "rope_scaling"; empty when there is none. In Ollama's files, three things mean that
// there is none: a type that configs use for a plain rope, a factor of 0, and an empty type beside the
// divisors of Llama 3.1.
Result<Json> read_scaling(const GgufMetadata& m) {
  const Json* named = m.find("rope.scaling.type");
  const Json type = named ? *named : Json("linear");
  for (const char* plain : {"none", "default", "mrope"})
    if (type == plain) return Json::object();
  if (type == "" && m.tensor(kRopeFactors)) return Json::object();
  const Json* written = m.find("rope.scaling.factor");
  if (written && *written == 0) return Json::object();
  if (type != "linear" && type != "yarn")
    return make_error(ErrorKind::unsupported, "{}: rope scaling \"{}\" cannot be read", m.path(),
                      type.is_string() ? shown(type.get_ref<const std::string&>()) : "?");
  TRY(const double factor, m.real("rope.scaling.factor", 1));
  if (factor == 1) return Json::object();
  Json scaling{{"rope_type", type}, {"factor", factor}};
  if (type == "yarn") TRY_VOID(add_yarn(m, scaling));
  return scaling;
}

// Whether these are the divisors of Llama 3.1 and later. The last divisor is the factor of the scaling.
bool is_llama3(const std::vector<float>& divisors, double theta, double original) {
  const double factor = divisors.back(), pairs = static_cast<double>(divisors.size());
  for (size_t i = 0; i < divisors.size(); i++) {
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / pairs);
    const double smooth = std::clamp((original / wavelength - 1) / (4 - 1), 0.0, 1.0);
    const double expected = 1 / ((1 - smooth) / factor + smooth);
    if (std::abs(divisors[i] - expected) > 1e-4 * expected) return false;
  }
  return true;
}

// GGUF files of Llama 3.1 and later have divisors instead of the scaling's parameters. Divisors that do not
// come from such parameters become a longrope with the same table for every length.
Json scaling_of_divisors(const std::vector<float>& divisors, double theta, int64_t context) {
  constexpr int64_t kOriginal = 8192;  // in every published Llama
  if (std::ranges::all_of(divisors, [](float v) { return v == 1; })) return Json::object();
  if (is_llama3(divisors, theta, kOriginal))
    return {{"rope_type", "llama3"},
            {"factor", divisors.back()},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", kOriginal}};
  return {{"rope_type", "longrope"},
          {"short_factor", divisors},
          {"long_factor", divisors},
          {"attention_factor", 1.0},
          {"original_max_position_embeddings", context}};
}

}  // namespace

Result<void> add_gguf_rope(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  const auto head_dim = c["head_dim"].get<int64_t>(), context = c["max_position_embeddings"].get<int64_t>();
  TRY(const double theta, m.real("rope.freq_base", 10000));
  TRY(const int64_t rotary, m.integer("rope.dimension_count", 1, head_dim));
  if (rotary > head_dim)
    return make_error(ErrorKind::invalid, "{}: {} rotary dimensions in heads of {}", m.path(), rotary,
                      head_dim);
  TRY(Json scaling, read_scaling(m));
  if (m.tensor(kRopeFactors)) {
    TRY(const auto divisors, m.positive_vector(kRopeFactors, rotary / 2));
    Json divided = divisors.empty() ? Json::object() : scaling_of_divisors(divisors, theta, context);
    if (!divided.empty() && !scaling.empty())
      return make_error(ErrorKind::unsupported, "{}: rope scaling beside tensor \"{}\" cannot be read",
                        m.path(), kRopeFactors);
    if (!divided.empty()) scaling = std::move(divided);
  }
  c["rope_theta"] = theta;
  if (rotary != head_dim) c["partial_rotary_factor"] = double(rotary) / double(head_dim);
  // Ministral 3: queries grow with their position.
  if (const Json* growth = m.find("attention.temperature_scale"); growth && *growth != 0) {
    TRY(const double beta, m.real("attention.temperature_scale", 1));
    c["model_type"] = "ministral3";
    c["architectures"] = Json::array({"Ministral3ForCausalLM"});
    if (scaling.empty()) scaling["rope_type"] = "default";
    if (!scaling.contains("original_max_position_embeddings"))
      scaling["original_max_position_embeddings"] = context;
    const auto original = scaling["original_max_position_embeddings"].get<int64_t>();
    TRY(const int64_t length, m.integer("attention.temperature_length", 1, original));
    if (length != original)
      return make_error(ErrorKind::unsupported,
                        "{}: queries that grow from {} on in a context of {} cannot be run", m.path(), length,
                        original);
    scaling["llama_4_scaling_beta"] = beta;
    scaling["rope_theta"] = theta;
    c["rope_parameters"] = std::move(scaling);
  } else if (!scaling.empty()) {
    c["rope_scaling"] = std::move(scaling);
  }
  return {};
}

}  // namespace anabranch
