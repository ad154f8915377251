// The metadata of Gemma 2, 3 and 4.
#include <algorithm>

#include "checkpoint/gguf_config.h"

namespace anabranch {

namespace {

// layer_types from the list of windowed layers or from a pattern: every n-th layer is full.
Result<std::vector<bool>> add_layer_types(const GgufMetadata& m, GgufConfig& out, int64_t pattern) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  TRY(auto windowed, m.flags(kKey, out.layers));
  if (windowed.empty()) {
    TRY(pattern, m.integer(kKey, 1, pattern));
    for (int64_t i = 0; i < out.layers; i++) windowed.push_back((i + 1) % pattern != 0);
    out.config["sliding_window_pattern"] = pattern;
  }
  Json types = Json::array();
  for (const bool window : windowed) types.push_back(window ? "sliding_attention" : "full_attention");
  out.config["layer_types"] = std::move(types);
  return windowed;
}

// Whether the file is Ollama's file of a Gemma 3. Earlier ones lack values that Ollama corrects when it loads
// them.
bool is_gemma3_of_ollama(const GgufMetadata& m) {
  for (const char* key : {"mm.tokens_per_image", "rope.global.freq_base", "rope.local.freq_base"})
    if (m.find(key)) return true;
  for (const char* key : {"tokenizer.ggml.add_padding_token", "tokenizer.ggml.add_unknown_token"})
    if (m.find_whole(key)) return true;
  return m.has_tensor_of("v.") || m.has_tensor_of("mm.") || !m.find("attention.layer_norm_rms_epsilon");
}

// Adds the rope scaling of full layers by 8 that models from 4B on have, if the file does not state it.
// Removes the final soft cap from the 1B model, which has none although its file says so.
void correct_gemma3_of_ollama(const GgufMetadata& m, GgufConfig& out) {
  constexpr int64_t kLong = 131072, kLayersOf1b = 26;
  const bool scaled = m.find("rope.scaling.type") || m.find("rope.scaling.factor");
  const bool large = out.layers == 34 || out.layers == 48 || out.layers == 62;
  const bool marked = is_gemma3_of_ollama(m);
  if (!scaled && (large || (marked && out.config["max_position_embeddings"] >= kLong)))
    out.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  if (marked && out.layers == kLayersOf1b) out.config.erase("final_logit_softcapping");
}

// The config's query_pre_attn_scalar: 1 / scale^2 of the scores. Without a scale in the file, it depends on
// the model's size: hidden size / heads for 27B models, head_dim for others.
Result<double> read_query_scalar(const GgufMetadata& m, const GgufConfig& out) {
  const Json& c = out.config;
  const bool largest = out.layers == (out.arch == GgufArch::gemma2 ? 46 : 62);
  if (!m.find("attention.scale"))
    return largest ? c["hidden_size"].get<double>() / static_cast<double>(out.heads)
                   : c["head_dim"].get<double>();
  TRY(const double scale, m.real("attention.scale", 1));
  return 1 / (scale * scale);
}

// A soft cap; 0 is none.
Result<Json> read_cap(const GgufMetadata& m, const char* key, double fallback) {
  if (const Json* value = m.find(key); value && *value == 0) return Json();
  TRY(const double cap, m.real(key, fallback));
  return Json(cap);
}

Result<void> add_gemma2_or_3(const GgufMetadata& m, GgufConfig& out) {
  const bool gemma2 = out.arch == GgufArch::gemma2;
  Json& c = out.config;
  const bool windows = gemma2 || m.find("attention.sliding_window");
  TRY(const int64_t window, m.integer("attention.sliding_window", 1, 4096));
  TRY_VOID(add_layer_types(m, out, gemma2 ? 2 : windows ? 6 : 1));
  c["sliding_window"] = window;
  TRY(c["query_pre_attn_scalar"], read_query_scalar(m, out));
  if (gemma2) {
    TRY(c["attn_logit_softcapping"], read_cap(m, "attn_logit_softcapping", 50));
    TRY(c["final_logit_softcapping"], read_cap(m, "final_logit_softcapping", 30));
    return {};
  }
  if (m.find("final_logit_softcapping")) {
    TRY(c["final_logit_softcapping"], read_cap(m, "final_logit_softcapping", 1));
  }
  TRY(c["rope_local_base_freq"], m.real("rope.freq_base_swa", 10000));
  if (!m.find("rope.freq_base")) c["rope_theta"] = 1e6;
  correct_gemma3_of_ollama(m, out);
  return {};
}

// Gemma 4's full layers rotate only the pairs whose frequency is not divided by a huge number.
Result<void> add_gemma4_ropes(const GgufMetadata& m, Json& c) {
  TRY(const double full_theta, m.real("rope.freq_base", 1e6));
  TRY(const double theta, m.real("rope.freq_base_swa", 10000));
  const auto dim = c["head_dim"].get<int64_t>(), full_dim = c["global_head_dim"].get<int64_t>();
  TRY(const int64_t rotary, m.integer("rope.dimension_count_swa", 1, dim));
  TRY(const int64_t full_rotary, m.integer("rope.dimension_count", 1, full_dim));
  if (rotary != dim || full_rotary != full_dim)
    return make_error(ErrorKind::unsupported, "{}: Gemma 4 with {} rotary dimensions of {} cannot be read",
                      m.path(), rotary != dim ? rotary : full_rotary, rotary != dim ? dim : full_dim);
  TRY(const auto divisors, m.positive_vector(kRopeFactors, full_dim / 2));
  constexpr float kHuge = 1e20f;
  const auto still = std::ranges::find_if(divisors, [](float v) { return v > kHuge; });
  const auto turned = still - divisors.begin();
  if (std::any_of(divisors.begin(), still, [](float v) { return v != 1; }) ||
      std::any_of(still, divisors.end(), [](float v) { return v <= kHuge; }))
    return make_error(ErrorKind::unsupported, "{}: the values of tensor \"{}\" cannot be read", m.path(),
                      kRopeFactors);
  c["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"partial_rotary_factor", 2.0 * static_cast<double>(turned) / static_cast<double>(full_dim)},
        {"rope_theta", full_theta}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", theta}}}};
  return {};
}

// Heads of keys and values: full layers may have another number of heads and no separate values, and the last
// layers may use the keys and values of earlier ones.
Result<void> add_gemma4_heads(const GgufMetadata& m, GgufConfig& out, const std::vector<bool>& windowed) {
  Json& c = out.config;
  c["global_head_dim"] = c["head_dim"];
  TRY(c["head_dim"], m.integer("attention.key_length_swa", 1));
  TRY(const int64_t value_dim, m.integer("attention.value_length_swa", 1, c["head_dim"].get<int64_t>()));
  if (value_dim != c["head_dim"])
    return make_error(ErrorKind::unsupported, "{}: keys of {} but values of {} in layers with windows",
                      m.path(), c["head_dim"].get<int64_t>(), value_dim);
  TRY(const int64_t shared, m.integer("attention.shared_kv_layers", 0, 0));
  TRY(auto heads, m.integers("attention.head_count_kv", out.layers, 1, out.heads));
  if (m.find("attention.global_head_count_kv")) {  // Ollama's earlier files
    TRY(const int64_t full, m.integer("attention.global_head_count_kv", 1));
    for (int64_t i = 0; i < out.layers; i++)
      if (!windowed[i]) heads[i] = full;
  }
  if (shared >= out.layers)
    return make_error(ErrorKind::invalid, "{}: all {} layers read the keys of other layers", m.path(),
                      out.layers);
  c["num_kv_shared_layers"] = shared;
  c["attention_k_eq_v"] = false;
  for (int64_t i = 0; i < out.layers; i++) {
    c[windowed[i] ? "num_key_value_heads" : "num_global_key_value_heads"] = heads[i];
    if (!windowed[i] && i < out.layers - shared && !m.tensor(fmt::format("blk.{}.attn_v.weight", i)))
      c["attention_k_eq_v"] = true;
  }
  for (int64_t i = 0; i < out.layers; i++)
    if (c[windowed[i] ? "num_key_value_heads" : "num_global_key_value_heads"] != heads[i])
      return make_error(ErrorKind::unsupported, "{}: layer {} has {} key heads, others of its kind have not",
                        m.path(), i, heads[i]);
  return {};
}

Result<void> add_gemma4_feed_forward(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  TRY(const auto widths, m.integers("feed_forward_length", out.layers, 1));
  const auto first_shared = widths.end() - c["num_kv_shared_layers"].get<int64_t>();
  const bool wide = widths.back() == 2 * widths.front();
  if (std::any_of(widths.begin(), first_shared, [&](int64_t w) { return w != widths.front(); }) ||
      std::any_of(first_shared, widths.end(), [&](int64_t w) { return w != widths.back(); }) ||
      (!wide && widths.back() != widths.front()))
    return make_error(ErrorKind::unsupported, "{}: the widths of Gemma 4's layers cannot be read", m.path());
  c["intermediate_size"] = widths.front();
  c["use_double_wide_mlp"] = wide;
  TRY(c["hidden_size_per_layer_input"], m.integer("embedding_length_per_layer_input", 0, 0));
  c["vocab_size_per_layer_input"] = c["vocab_size"];
  c["enable_moe_block"] = out.experts > 0;
  if (out.experts > 0) {
    c["top_k_experts"] = c["num_experts_per_tok"];
    c.erase("num_experts_per_tok");
  }
  return {};
}

Result<void> add_gemma4(const GgufMetadata& m, GgufConfig& out) {
  TRY(out.config["sliding_window"], m.integer("attention.sliding_window", 1));
  if (const Json* list = m.find("attention.sliding_window_pattern"); !list || !list->is_array())
    return make_error(ErrorKind::invalid, "{}: the list of Gemma 4's layers with windows is missing",
                      m.path());
  TRY(const auto windowed, add_layer_types(m, out, 6));
  TRY_VOID(add_gemma4_heads(m, out, windowed));
  TRY_VOID(add_gemma4_feed_forward(m, out));
  if (m.find("final_logit_softcapping")) {
    TRY(out.config["final_logit_softcapping"], read_cap(m, "final_logit_softcapping", 1));
  }
  return add_gemma4_ropes(m, out.config);
}

}  // namespace

Result<void> add_gguf_gemma(const GgufMetadata& m, GgufConfig& out) {
  out.config["hidden_activation"] = "gelu_pytorch_tanh";
  return out.arch == GgufArch::gemma4 ? add_gemma4(m, out) : add_gemma2_or_3(m, out);
}

}  // namespace anabranch
