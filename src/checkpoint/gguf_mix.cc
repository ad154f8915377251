#include "checkpoint/gguf_mix.h"

#include "base/check.h"

namespace anabranch {

namespace {

// True for the first and the last eighth of the layers, and for every third layer between them.
bool gets_more_bits(const GgufMatrix& m) {
  const int64_t i = m.layer, n = m.layers;
  return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

bool makes_values(const GgufMatrix& m) {
  return m.name.ends_with(".attn_v.weight") || m.name.ends_with(".attn_qkv.weight");
}

bool goes_down(const GgufMatrix& m) {
  return m.name.ends_with(".ffn_down.weight");
}

// A prediction head gets 8 bits: it is small, and its drafts get worse with fewer.
std::string_view choose_q4_k_m(const GgufMix& mix, const GgufMatrix& m) {
  if (m.head) return m.cols % 256 == 0 ? "Q6_K" : "Q8_0";
  if (m.predicts) return "Q8_0";
  const bool more = (makes_values(m) || goes_down(m)) && gets_more_bits(m);
  return more ? "Q6_K" : mix.type;
}

std::string_view choose_iq4_xs(const GgufMix& mix, const GgufMatrix& m) {
  constexpr int64_t kManyShare = 4;
  if (m.head) return m.cols % 256 == 0 ? "Q6_K" : "Q8_0";
  if (m.predicts) return "Q8_0";
  if (makes_values(m) && m.sharing >= kManyShare) return "Q5_K";
  if (goes_down(m) && m.layer < m.layers / 8 && !m.calibrated) return "Q5_K";
  return mix.type;
}

std::string_view choose_always(const GgufMix& mix, const GgufMatrix&) {
  return mix.type;
}

constexpr GgufMix kMixes[] = {
    {"q4_k_m", 15, "Q4_K", choose_q4_k_m},
    {"iq4_xs", 30, "IQ4_XS", choose_iq4_xs},
    {"q8_0", 7, "Q8_0", choose_always},
    {"f16", 1, "F16", choose_always},
};

struct Fallback {
  std::string_view type, other;
};
constexpr Fallback kFallbacks[] = {
    {"Q4_K", "Q5_0"}, {"Q5_K", "Q5_1"}, {"Q6_K", "Q8_0"}, {"IQ4_XS", "IQ4_NL"}};

const GgufType& known_type(std::string_view name) {
  const GgufType* type = find_gguf_type(name);
  CHECK(type, "GGUF type {}", name);
  return *type;
}

}  // namespace

std::span<const GgufMix> gguf_mixes() {
  return kMixes;
}

const GgufType& choose_gguf_type(const GgufMix& mix, const GgufMatrix& matrix) {
  const GgufType* type = &known_type(mix.choose(mix, matrix));
  if (matrix.cols % type->block != 0)
    for (const Fallback& fallback : kFallbacks)
      if (fallback.type == type->name) {
        type = &known_type(fallback.other);
        break;
      }
  return matrix.cols % type->block == 0 ? *type : known_type("F16");
}

}  // namespace anabranch
