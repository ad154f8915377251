// Muse Glimmer (text): normalised embeddings, norms of queries and keys without weights, a gate for each
// value, and layers without positions. Reference: Transformers' modeling_muse_glimmer.py and
// configuration_muse_glimmer.py.
#include <algorithm>
#include <cmath>

#include "models/llama_own_keys.h"

namespace anabranch {

void read_muse(ConfigReader& c, const Json&, ModelSpec& spec) {
  const double factor = c.number_or("qk_scale_factor", 1e-6, 1e6, 3.87);
  spec.embedding_norm_eps = std::max(spec.norms.eps, 1e-30f);  // 0: there would be no norm
  spec.logits_scale = static_cast<float>(c.number_or("output_multiplier", 1e-9, 1e9, 0.19611613513818404));
  spec.logits_soft_cap = static_cast<float>(c.number_or("final_logit_softcapping", 1e-6, 1e6, 20));
  const auto post_eps = static_cast<float>(c.number_or("post_norm_eps", 1e-30, 1, 1e-8));
  for (LayerSpec& layer : spec.layers) {
    auto& attention = std::get<AttentionSpec>(layer.mixer);
    attention.norms_weigh = false;
    attention.gate = GateSpec{.of_heads = false};
    attention.scale = static_cast<float>(factor / std::sqrt(static_cast<double>(attention.head_dim)));
    layer.norms.offset = true;
    layer.norms.post_eps = post_eps;
  }
}

}  // namespace anabranch
