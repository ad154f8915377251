#include "engine/recommendation.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "models/config.h"

namespace anabranch {
namespace {

// Defaults for models without a recommendation. These are mostly small ones, which repeat themselves for ever
// when decoded greedily.
Recommendation without_recommendation() {
  Recommendation out;
  out.sampling.temperature = 0.8f;
  out.sampling.top_p = 0.95f;
  out.sampling.min_p = 0.05f;
  out.from = "default";
  return out;
}

double number_at(const Json& object, const char* key, double fallback, double low, double high) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number() || !std::isfinite(it->get<double>())) return fallback;
  return std::clamp(it->get<double>(), low, high);
}

// The keys that llama.cpp reads. A file has some of them or none.
void read_gguf_sampling(const Json& metadata, Recommendation& out) {
  const auto has = [&](const char* key) { return metadata.is_object() && metadata.contains(key); };
  if (!has("general.sampling.temp") && !has("general.sampling.top_p") && !has("general.sampling.top_k"))
    return;
  SamplingParams& sampling = out.sampling;
  const auto at = [&](const char* key, double fallback, double low, double high) {
    return number_at(metadata, key, fallback, low, high);
  };
  sampling.temperature = static_cast<float>(at("general.sampling.temp", 0.8, 0, 100));
  sampling.top_k = static_cast<int>(at("general.sampling.top_k", 0, 0, 1 << 24));
  sampling.top_p = static_cast<float>(at("general.sampling.top_p", 1, 0, 1));
  sampling.min_p = static_cast<float>(at("general.sampling.min_p", 0, 0, 1));
  const double penalty = at("general.sampling.penalty_repeat", 1, 0, 100);
  if (penalty >= 0.01) sampling.repetition_penalty = static_cast<float>(penalty);
  out.from = "GGUF metadata";
}

// do_sample says whether the file recommends to sample or to decode greedily; without it, it recommends
// nothing.
void read_do_sample(const Json& config, Recommendation& out) {
  const auto it = config.find("do_sample");
  if (it == config.end() || !it->is_boolean()) return;
  out.sampling = {};
  out.from = "generation_config.json";
  if (!it->get<bool>()) return;
  out.sampling.temperature = static_cast<float>(number_at(config, "temperature", 1.0, 0, 100));
  out.sampling.top_k = static_cast<int>(number_at(config, "top_k", 50, 0, 1 << 24));
  out.sampling.top_p = static_cast<float>(number_at(config, "top_p", 1.0, 0, 1));
  out.sampling.min_p = static_cast<float>(number_at(config, "min_p", 0.0, 0, 1));
}

}  // namespace

Recommendation read_recommendation(const Checkpoint& checkpoint) {
  Recommendation out = without_recommendation();
  read_gguf_sampling(checkpoint.gguf_metadata(), out);
  const auto source = checkpoint.side_file("generation_config.json");
  if (!source) return out;
  auto parsed = parse_json(*source);
  if (!parsed || !parsed->is_object()) {
    log_warning("{}: generation_config.json is ignored: it is not a JSON object", checkpoint.path());
    return out;
  }
  read_do_sample(*parsed, out);
  // Transformers applies the penalty to greedy decoding as well.
  const double penalty = number_at(*parsed, "repetition_penalty", 1.0, 0, 100);
  if (penalty >= 0.01 && parsed->contains("repetition_penalty"))
    out.sampling.repetition_penalty = static_cast<float>(penalty);
  if (const auto eos = parsed->find("eos_token_id"); eos != parsed->end()) out.eos = read_token_ids(*eos);
  return out;
}

}  // namespace anabranch
