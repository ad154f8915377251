// GGUF metadata of Granite 4.0-H, Nemotron-H and Falcon-H1: the sizes of Mamba2 and which layers have it.
#include <algorithm>

#include "checkpoint/gguf_config.h"

namespace anabranch {

namespace {

bool has_part(const GgufMetadata& m, const GgufConfig& config, const char* part) {
  for (int64_t i = 0; i < config.layers; i++)
    if (m.tensor(fmt::format("blk.{}.{}", i, part))) return true;
  return false;
}

// config.json's keys for the sizes of Mamba2.
struct MambaKeys {
  const char *heads, *head_dim, *groups, *state, *taps, *conv_bias;
};
constexpr MambaKeys kMambaKeys{"mamba_n_heads", "mamba_d_head", "mamba_n_groups",
                               "mamba_d_state", "mamba_d_conv", "mamba_conv_bias"};
constexpr MambaKeys kNemotronKeys{"mamba_num_heads", "mamba_head_dim", "n_groups",
                                  "ssm_state_size",  "conv_kernel",    "use_conv_bias"};

Result<void> add_mamba_sizes(const GgufMetadata& m, const MambaKeys& keys, GgufConfig& out) {
  Json& c = out.config;
  TRY(c[keys.taps], m.integer("ssm.conv_kernel", 1));
  TRY(c[keys.state], m.integer("ssm.state_size", 1));
  TRY(c[keys.groups], m.integer("ssm.group_count", 1));
  TRY(out.linear_value_heads, m.integer("ssm.time_step_rank", 1));
  TRY(const int64_t inner, m.integer("ssm.inner_size", 1));
  if (inner % out.linear_value_heads != 0)
    return make_error(ErrorKind::invalid, "{}: {} values of Mamba2 in {} heads", m.path(), inner,
                      out.linear_value_heads);
  c[keys.heads] = out.linear_value_heads;
  c[keys.head_dim] = inner / out.linear_value_heads;
  c[keys.conv_bias] = has_part(m, out, "ssm_conv1d.bias");
  return {};
}

// A file of a model without experts has the width of its only MLP under the general key. Bamba's files have
// this architecture, too, and a rope.
Result<void> add_granite_layers(const GgufMetadata& m, const std::vector<bool>& recurrent, GgufConfig& out) {
  Json& c = out.config;
  TRY(const bool turns, m.flag("rope.scaling.finetuned", true));
  c["position_embedding_type"] = turns ? "rope" : "nope";
  if (out.experts == 0) {
    c["num_local_experts"] = 0;
    c["shared_intermediate_size"] = c["intermediate_size"];
  }
  Json types = Json::array();
  for (size_t i = 0; i < static_cast<size_t>(out.layers); i++)
    types.push_back(!recurrent.empty() && recurrent[i] ? "mamba" : "attention");
  c["layer_types"] = std::move(types);
  return {};
}

// A layer is attention if it has key heads, an MLP or a mixture if it has a width, and Mamba2 otherwise.
Result<void> add_nemotron_layers(const GgufMetadata& m, int64_t blocks, const std::vector<bool>& recurrent,
                                 GgufConfig& out) {
  Json& c = out.config;
  TRY(const auto widths, m.integers("feed_forward_length", blocks, 0));
  Json types = Json::array();
  for (size_t i = 0; i < static_cast<size_t>(out.layers); i++) {
    if (widths[i] != 0 && widths[i] != c["intermediate_size"])
      return make_error(ErrorKind::unsupported, "{}: MLPs of {} and {} values in one model", m.path(),
                        widths[i], c["intermediate_size"].dump());
    const bool attends = recurrent.empty() || !recurrent[i];
    types.push_back(attends ? "attention" : widths[i] == 0 ? "mamba" : out.experts > 0 ? "moe" : "mlp");
  }
  c["layers_block_type"] = std::move(types);
  if (out.experts == 0) return {};
  TRY(const int64_t latent, m.integer("moe_latent_size", 0, 0));
  if (latent > 0) c["moe_latent_size"] = latent;
  return {};
}

// The converter multiplies all factors into the weights, and runs the norm only behind the gate.
void add_falcon_mixer(const GgufMetadata& m, GgufConfig& out) {
  Json& c = out.config;
  c["mamba_d_ssm"] = c["mamba_n_heads"].get<int64_t>() * c["mamba_d_head"].get<int64_t>();
  c["mamba_rms_norm"] = has_part(m, out, "ssm_norm.weight");
  c["mamba_norm_before_gate"] = false;
}

}  // namespace

Result<void> add_gguf_mamba(const GgufMetadata& m, int64_t blocks, const std::vector<bool>& recurrent,
                            GgufConfig& out) {
  const bool nemotron = out.arch == GgufArch::nemotron_h;
  TRY_VOID(add_mamba_sizes(m, nemotron ? kNemotronKeys : kMambaKeys, out));
  if (nemotron) return add_nemotron_layers(m, blocks, recurrent, out);
  if (out.arch == GgufArch::granite_h) return add_granite_layers(m, recurrent, out);
  add_falcon_mixer(m, out);
  return {};
}

}  // namespace anabranch
