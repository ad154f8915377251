// config.json as plain values: everything a forward pass needs to know besides the weights.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ops/gated_delta.h"
#include "state/sequence_state.h"

namespace anabranch {

struct RopeSpec {
  std::vector<float> inv_freq;  // [rotated dims / 2], scaling applied
  float attention_factor = 1.0f;
};

struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_dim = 0;
  int window = 0;  // sliding window, 0 = none
  bool qkv_bias = false, out_bias = false;
  bool qk_norm = false;
  bool output_gate = false;
};

using LayerSpec = std::variant<AttentionSpec, ops::GatedDeltaShape>;

struct ModelSpec {
  std::string family;  // config.json's model_type
  int hidden = 0, intermediate = 0, vocab = 0;
  int context_length = 0;
  float norm_eps = 1e-6f;
  bool tied_embeddings = false;
  RopeSpec rope;
  std::vector<LayerSpec> layers;
  std::vector<int> eos;      // token ids that end a turn
  int mtp_layers = 0;        // that the config promises; the files may lack them
  std::string mtp_obstacle;  // why this build cannot run its MTP head, or empty

  StateLayout state_layout() const;
};

}  // namespace anabranch
