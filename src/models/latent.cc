// The weights of families with latent attention (latent_config.cc).
#include <algorithm>

#include "models/family.h"

namespace anabranch {
namespace {

// Of the norms between two projections, whatever the config says.
constexpr NormsSpec kInnerNorms{.eps = 1e-6f};

// For each of `count` blocks of `size` rows: rows [begin, end) of the block. turned: they turn as pairs of
// neighbours, and get an order in which the halves turn as pairs.
std::vector<int64_t> rows_of_blocks(int count, int size, int begin, int end, bool turned = false) {
  std::vector<int64_t> rows;
  const int half = (end - begin) / 2;
  for (int block = 0; block < count; block++)
    for (int i = 0; i < end - begin; i++) {
      const int at = !turned ? i : i < half ? 2 * i : 2 * (i - half) + 1;
      rows.push_back(int64_t{block} * size + begin + at);
    }
  return rows;
}

// The heads' matrices [plain, rank] that make keys, the first rows of each block of `size` rows, with rows
// and columns exchanged, for queries.
WeightSource exchanged(const WeightSource& source, int heads, int size, int plain) {
  const auto rank = source.cols;
  auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(heads * plain * rank));
  for (int64_t h = 0; h < heads; h++) read_values(source, h * size, plain, values->data() + h * plain * rank);
  WeightSource out;
  out.rows = heads * rank;
  out.cols = plain;
  out.kind = is_coded(source.kind) ? WeightKind::f32 : source.kind;
  out.read_dense = [values, rank, plain](int64_t first, int64_t count, float* to) {
    for (int64_t row = first; row < first + count; row++) {
      const float* from = values->data() + row / rank * plain * rank + row % rank;
      for (int64_t i = 0; i < plain; i++) *to++ = from[i * rank];
    }
  };
  return out;
}

// A matrix of one column.
WeightSource ones(int64_t rows) {
  WeightSource out;
  out.rows = rows;
  out.cols = 1;
  out.kind = WeightKind::f32;
  out.read_dense = [](int64_t, int64_t count, float* to) { std::fill_n(to, count, 1.0f); };
  return out;
}

Result<void> take_queries(const ModelBuilder& builder, const std::string& p, const LatentAttentionSpec& a,
                          nn::LatentAttention& out) {
  const int head = a.plain_dim + a.turned_dim;
  if (a.query_rank > 0) {
    TRY(out.q_in, take_linear(builder, p + "q_a_proj", a.query_rank, builder.spec.hidden, a.bias));
    TRY(out.q_norm, take_norm(builder, p + "q_a_layernorm", a.query_rank, kInnerNorms));
  }
  const std::string name = p + (a.query_rank > 0 ? "q_b_proj" : "q_proj");
  TRY(const auto source, builder.take_matrix(name + ".weight", int64_t{a.heads} * head,
                                             a.query_rank > 0 ? a.query_rank : builder.spec.hidden));
  out.q_plain = linear_of(builder, name, source, rows_of_blocks(a.heads, head, 0, a.plain_dim));
  out.q_turned =
      linear_of(builder, name, source, rows_of_blocks(a.heads, head, a.plain_dim, head, a.neighbours_turn));
  return {};
}

// What makes latents, and the part of the keys that all heads have in common.
Result<void> take_latents(const ModelBuilder& builder, const std::string& p, const LatentAttentionSpec& a,
                          nn::LatentAttention& out) {
  const std::string name = p + "kv_a_proj_with_mqa";
  const int all = a.rank + a.turned_dim;
  TRY(const auto source, builder.take_matrix(name + ".weight", all, builder.spec.hidden));
  const auto latent = rows_of_blocks(1, all, 0, a.rank),
             turned = rows_of_blocks(1, all, a.rank, all, a.neighbours_turn);
  out.latent = linear_of(builder, name, source, latent);
  out.k_turned = linear_of(builder, name, source, turned);
  if (a.bias) {
    TRY(const auto bias, builder.checkpoint.take(name + ".bias", {all}));
    out.latent.bias = take_elements(builder, bias, latent);
    out.k_turned.bias = take_elements(builder, bias, turned);
  }
  TRY(out.latent_norm, take_norm(builder, p + "kv_a_layernorm", a.rank, kInnerNorms));
  return {};
}

// The heads' matrices for queries and for values: in kv_b_proj, or apart as MLX and GGUF files have them.
Result<void> take_heads(const ModelBuilder& builder, const std::string& p, const LatentAttentionSpec& a,
                        nn::LatentAttention& out) {
  const int both = a.plain_dim + a.value_dim;
  WeightSource keys, values;
  if (builder.checkpoint.has(p + "embed_q.weight")) {
    TRY(keys, builder.take_matrices(p + "embed_q.weight", a.heads, a.rank, a.plain_dim));
    TRY(values, builder.take_matrices(p + "unembed_out.weight", a.heads, a.value_dim, a.rank));
  } else {
    TRY(const auto source, builder.take_matrix(p + "kv_b_proj.weight", int64_t{a.heads} * both, a.rank));
    keys = exchanged(source, a.heads, both, a.plain_dim);
    values = select_rows(source, rows_of_blocks(a.heads, both, a.plain_dim, both));
  }
  out.keys = ops::ExpertMatrices::of_heads(builder.device, keys, a.heads);
  out.values = ops::ExpertMatrices::of_heads(builder.device, values, a.heads);
  return {};
}

Result<nn::DecoderLayer> build_latent_layer(const ModelBuilder& builder, const std::string& p,
                                            const LayerSpec& layer) {
  TRY(auto attention, take_latent_attention(builder, p + layer.form.attention, layer));
  TRY(auto mlp, take_feed_forward(builder, p + layer.form.mlp, layer.mlp, layer.form));
  return join_layer(builder, p, layer, std::move(attention), std::move(mlp));
}

}  // namespace

Result<nn::LatentAttention> take_latent_attention(const ModelBuilder& builder, const std::string& prefix,
                                                  const LayerSpec& layer) {
  const auto& a = std::get<LatentAttentionSpec>(layer.mixer);
  nn::LatentAttention out;
  out.heads = a.heads;
  out.plain_dim = a.plain_dim;
  out.turned_dim = a.turned_dim;
  out.rank = a.rank;
  out.value_dim = a.value_dim;
  out.scores.scale = a.scale;
  out.rope = builder.spec.ropes.at(static_cast<size_t>(layer.rope));
  TRY_VOID(take_queries(builder, prefix, a, out));
  TRY_VOID(take_latents(builder, prefix, a, out));
  TRY_VOID(take_heads(builder, prefix, a, out));
  TRY(out.o, take_linear(builder, prefix + "o_proj", builder.spec.hidden, a.heads * a.value_dim, a.bias));
  if (a.head_gate) {
    TRY(out.gate, take_linear(builder, prefix + "g_proj", a.heads, builder.spec.hidden));
    out.ones = ops::ExpertMatrices::of_heads(builder.device, ones(int64_t{a.heads} * a.value_dim), a.heads);
  }
  return out;
}

const Family* find_latent_family(const std::string& model_type) {
  static const Family family{read_latent_config, build_latent_layer};
  return is_latent_member(model_type) ? &family : nullptr;
}

}  // namespace anabranch
