// Gemma 3's vision tower: SigLIP with a learned position for each patch, and a projector that takes the mean
// of a block of patches as a token. Reference: Transformers' modeling_siglip.py and modeling_gemma3.py.
#include <cmath>
#include <numeric>

#include "models/vision_parts.h"

namespace anabranch {
namespace {

VisionSpec read_config(ConfigReader& c, const Json& whole, const std::string& file) {
  VisionSpec spec;
  spec.family = VisionSpec::Family::gemma3;
  spec.depth = c.integer("num_hidden_layers", 1, 256);
  spec.hidden = c.integer("hidden_size", 1, 1 << 15);
  spec.intermediate = c.integer("intermediate_size", 1, 1 << 17);
  spec.heads = c.integer("num_attention_heads", 1, 1024);
  spec.patch = c.integer("patch_size", 1, 64);
  spec.eps = static_cast<float>(c.number_or("layer_norm_eps", 0, 1, 1e-6));
  spec.table_side = spec.patch > 0 ? c.integer("image_size", 1, 1 << 14) / spec.patch : 0;
  if (spec.heads > 0 && spec.hidden % spec.heads != 0)
    c.invalid("\"num_attention_heads\" does not divide \"hidden_size\"");
  if (c.integer_or("num_channels", 0, 1 << 16, 3) != 3) c.unsupported("num_channels", "not 3", "3");
  const std::string act = c.string_or("hidden_act", "gelu_pytorch_tanh");
  if (act != "gelu_pytorch_tanh") c.unsupported("hidden_act", act, "gelu_pytorch_tanh");
  ConfigReader outer(whole, file);
  const int tokens = outer.integer_or("mm_tokens_per_image", 1, 1 << 20, 256);
  const int across = static_cast<int>(std::lround(std::sqrt(tokens)));
  if (!outer.check().ok() || across * across != tokens || spec.table_side < across ||
      spec.table_side % across != 0)
    c.invalid("\"mm_tokens_per_image\" does not fit \"image_size\" and \"patch_size\"");
  else
    spec.merge = spec.table_side / across;
  return spec;
}

ops::Rope no_rope(const VisionSpec&) {
  return {};
}

Result<void> load_end(Checkpoint& checkpoint, VisionWeights& weights) {
  const VisionSpec& s = weights.spec;
  const std::string norm = "multi_modal_projector.mm_soft_emb_norm.weight",
                    matrix = "multi_modal_projector.mm_input_projection_weight";
  const auto info = checkpoint.find(norm);
  TRY(Tensor weight, checkpoint.take(norm, {s.hidden}));
  if (info->norms == NormConvention::offset)
    for (int i = 0; i < s.hidden; i++) weight.data<float>()[i] += 1.0f;
  weights.pooled_norm = nn::Norm{{weights.device->to_device(weight), s.eps}};
  // Stored as [in, out].
  TRY(const Tensor stored, checkpoint.take(matrix, {s.hidden, s.out_hidden}));
  WeightSource source;
  source.rows = s.out_hidden, source.cols = s.hidden;
  source.read_dense = [stored](int64_t first, int64_t count, float* to) {
    const int64_t in = stored.shape(0), out = stored.shape(1);
    for (int64_t row = first; row < first + count; row++)
      for (int64_t i = 0; i < in; i++) *to++ = stored.data<float>()[i * out + row];
  };
  weights.projection = {ops::Weight::make(*weights.device, source), {}};
  return {};
}

void position(const VisionWeights& weights, const PatchGrid&, PatchPosition place, float* out) {
  const int64_t hidden = weights.spec.hidden;
  const float* from =
      weights.table.data() + (int64_t{place.row} * weights.spec.table_side + place.column) * hidden;
  std::copy_n(from, hidden, out);
}

// The mean of each block's rows, normalised and projected.
Tensor finish(const VisionWeights& weights, const Tensor& x) {
  const int each = weights.spec.merge * weights.spec.merge, blocks = x.shape(0) / each;
  const Tensor normed = weights.last_norm(x);
  std::vector<int> rows(static_cast<size_t>(blocks));
  Tensor sum;
  for (int i = 0; i < each; i++) {
    for (int b = 0; b < blocks; b++) rows[static_cast<size_t>(b)] = b * each + i;
    const Tensor part = ops::take_rows(normed, rows);
    sum = i == 0 ? part : ops::add(sum, part);
  }
  return project(weights.projection,
                 (*weights.pooled_norm)(ops::scale(sum, 1.0f / static_cast<float>(each))));
}

}  // namespace

const VisionFamily& siglip_vision() {
  static const VisionFamily family{{.layers = "encoder.layers.",
                                    .norm1 = "layer_norm1",
                                    .norm2 = "layer_norm2",
                                    .out = "self_attn.out_proj",
                                    .up = "mlp.fc1",
                                    .down = "mlp.fc2",
                                    .qkv = "",
                                    .q = "self_attn.q_proj",
                                    .k = "self_attn.k_proj",
                                    .v = "self_attn.v_proj",
                                    .patches = "embeddings.patch_embedding",
                                    .table = "embeddings.position_embedding",
                                    .last_norm = "post_layernorm"},
                                   read_config,
                                   no_rope,
                                   load_end,
                                   position,
                                   finish,
                                   nullptr};
  return family;
}

}  // namespace anabranch
