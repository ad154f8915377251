// What the readers of hybrids' configs share (hybrid_config.cc). Hybrids are models of attention with other
// mixers: Mamba2, short convolutions, Gated DeltaNet, lightning attention, Kimi Delta Attention.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "models/family_config.h"

namespace anabranch::hybrid {

using Rule = ops::RecurrenceRule;

// The kinds of layers.
enum class Kind { attention, recurrence, convolution, mlp, moe };
// The layers' kinds from a list of names, of which only those in `known` are run.
std::vector<Kind> kinds_of(ConfigReader& c, const char* key, const std::vector<std::string>& names,
                           std::initializer_list<Kind> known);
// The names under "layer_types" or "layers_block_type", whichever is there.
std::vector<std::string> listed_layers(ConfigReader& c);

// The keys of a Mamba2 mixer's sizes, and what they are where absent. No head_dim: the width of the mixer,
// divided by the heads.
struct Mamba2Keys {
  const char *heads, *head_dim, *groups, *state, *taps, *conv_bias, *activation;
  int default_heads, default_head_dim, default_groups, default_state;
};
constexpr Mamba2Keys kMambaKeys{"mamba_n_heads",
                                "mamba_d_head",
                                "mamba_n_groups",
                                "mamba_d_state",
                                "mamba_d_conv",
                                "mamba_conv_bias",
                                "hidden_act",
                                128,
                                0,
                                1,
                                256};

// Mamba2 as the recurrence: q = C, k = B, v = x. width: of all heads together, where the config does not say
// the width of a head.
ops::RecurrenceShape read_mamba2(ConfigReader& c, const Mamba2Keys& keys, int width);
// "mamba_expand" times the hidden size.
int expanded_width(ConfigReader& c, int hidden);
// "time_step_limit": [least, most].
void read_step_limit(ConfigReader& c, const Json& config, ops::RecurrenceShape& shape);

// Gated DeltaNet by the keys of Qwen's configs: what its heads are where the keys are absent, and the fewest
// taps of its convolution.
ops::RecurrenceShape read_delta_net(ConfigReader& c, int key_heads, int value_heads, int least_taps);

struct AttentionDefaults {
  int heads, kv_heads;  // kv_heads 0: as many as heads
  int head_dim = 0;     // 0: the hidden size divided by the heads
};

AttentionSpec read_attention(ConfigReader& c, const AttentionDefaults& defaults, int hidden);

struct Sizes {
  int hidden, vocab, context;
  const char* eps_key;
  double eps;
  bool tied;
};

void read_sizes(ConfigReader& c, const Sizes& absent, ModelSpec& spec);

// The rope of all attention layers, which turns so many dimensions of each head.
void read_one_rope(ConfigReader& c, const Json& parameters, int turned, double theta, ModelSpec& spec);
void read_rope_of_whole_heads(ConfigReader& c, int head_dim, double theta, ModelSpec& spec);
// Turns one pair of dimensions by nothing, for layers without positions.
ops::Rope no_rope();

MlpSpec read_mlp(ConfigReader& c, const char* key, int absent, bool bias);

// Families in files of their own.
void read_falcon_h1(ConfigReader& c, const Json& config, ModelSpec& spec);
void read_minimax(ConfigReader& c, const Json& config, ModelSpec& spec);
void read_lara(ConfigReader& c, const Json& config, ModelSpec& spec);
void read_lfm3(ConfigReader& c, const Json& config, ModelSpec& spec);
void read_ling(ConfigReader& c, const Json& config, ModelSpec& spec);
void read_kimi_linear(ConfigReader& c, const Json& config, ModelSpec& spec);

}  // namespace anabranch::hybrid
