// The weights of the Llama family: one decoder of attention and SwiGLU or a mixture, with pre-norms.
#include "models/family.h"

namespace anabranch {
namespace {

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  const int hidden = builder.spec.hidden;
  TRY(auto norm1, take_norm(builder, p + "input_layernorm", hidden, layer.norms));
  TRY(auto attention, take_attention(builder, p + "self_attn.", layer));
  TRY(auto norm2, take_norm(builder, p + "post_attention_layernorm", hidden, layer.norms));
  TRY(auto mlp, take_feed_forward(builder, p + "mlp.", layer.mlp));
  return nn::DecoderLayer{norm1, std::move(attention), norm2, std::move(mlp)};
}

}  // namespace

const Family* find_llama_family(const std::string& model_type) {
  static const Family family{read_llama_config, build_layer};
  return is_llama_member(model_type) ? &family : nullptr;
}

}  // namespace anabranch
