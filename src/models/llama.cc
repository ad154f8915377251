// The weights of the Llama family: a decoder of attention and an MLP or a mixture (llama_config.cc).
#include "models/family.h"

namespace anabranch {
namespace {

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  TRY(auto attention, take_attention(builder, p + "self_attn.", layer));
  TRY(auto mlp, take_feed_forward(builder, p + "mlp.", layer.mlp, layer.form));
  return join_layer(builder, p, layer, std::move(attention), std::move(mlp));
}

}  // namespace

const Family* find_llama_family(const std::string& model_type) {
  static const Family family{read_llama_config, build_layer};
  return is_llama_member(model_type) ? &family : nullptr;
}

}  // namespace anabranch
