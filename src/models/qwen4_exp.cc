// The weights of Qwen3.8-Flash-Next (qwen4_exp_config.cc).
#include "checkpoint/experts.h"
#include "models/family.h"

namespace anabranch {
namespace {

// A norm of each stream.
Result<ops::RowNorm> take_streams_norm(const ModelBuilder& builder, const std::string& name,
                                       const NormsSpec& norms) {
  TRY(auto norm, take_norm(builder, name, builder.spec.streams.count * builder.spec.hidden, norms));
  return ops::RowNorm{norm.weight, norm.eps};
}

Result<ops::Weight> take_weight(const ModelBuilder& builder, const std::string& name, int rows, int cols) {
  TRY(auto source, builder.take_matrix(name + ".weight", rows, cols));
  return ops::Weight::make(builder.device, source);
}

Result<nn::HyperConnection> take_connection(const ModelBuilder& builder, const std::string& p,
                                            const NormsSpec& norms) {
  const int streams = builder.spec.streams.count;
  TRY(auto mixer, take_stream_mixer(builder, p, norms));
  TRY(auto weights, take_weight(builder, p + "block_inject_weight", streams, streams * builder.spec.hidden));
  return nn::HyperConnection{std::move(mixer), std::move(weights)};
}

// The tables' rows, which files have in several parts: "<name>.shard_0.weight", ..., or as one.
Result<ops::Weight> take_tables(const ModelBuilder& builder, const std::string& name, int rows, int width) {
  const auto part_name = [&](int part) { return fmt::format("{}.shard_{}.weight", name, part); };
  if (!builder.checkpoint.has(part_name(0))) return take_weight(builder, name, rows, width);
  std::vector<WeightSource> parts;
  int64_t sum = 0;
  for (int part = 0; builder.checkpoint.has(part_name(part)); part++) {
    const auto info = builder.checkpoint.find(part_name(part));
    const int64_t own = info->shape.empty() ? 0 : info->shape[0];
    TRY(auto source, builder.take_matrix(part_name(part), own, width));
    const WeightSource& first = parts.empty() ? source : parts.front();
    if (source.kind != first.kind || source.bits != first.bits || source.group != first.group)
      return make_error(ErrorKind::invalid, "{}: {} has another format than the parts before it",
                        builder.checkpoint.path(), part_name(part));
    sum += own;
    parts.push_back(std::move(source));
  }
  if (sum != rows)
    return make_error(ErrorKind::invalid, "{}: the parts of {} have {} rows, not {}",
                      builder.checkpoint.path(), name, sum, rows);
  return ops::Weight::make(builder.device, join_rows(std::move(parts)));
}

// Taps that are `dilation` rows apart, with zeros between them.
Tensor dilated(const Tensor& taps, int dilation) {
  const int kernel = taps.shape(0), channels = taps.shape(1);
  Tensor out = host_device().zeros({(kernel - 1) * dilation + 1, channels}, Dtype::f32);
  for (int t = 0; t < kernel; t++)
    std::copy_n(taps.data<float>() + int64_t{t} * channels, channels,
                out.data<float>() + int64_t{t} * dilation * channels);
  return out;
}

Result<nn::NGramInput> take_ngrams(const ModelBuilder& builder, const std::string& p,
                                   const LayerSpec& layer) {
  const NGramSpec& spec = *layer.ngrams;
  const int streams = builder.spec.streams.count, hidden = builder.spec.hidden, all = streams * hidden;
  const int longest = spec.tables.longest;
  nn::NGramInput out{spec.tables, streams};
  const std::string tables = p + "ple_embedding.";
  TRY(out.embedding, take_tables(builder, tables + "ngram_embedding", spec.rows,
                                 spec.width / static_cast<int>(spec.tables.sizes.size())));
  // Files also list what follows from the config.
  for (const char* name : {"layer_multipliers", "ngram_heads_vocab_sizes", "ngram_heads_offsets"})
    builder.checkpoint.ignore(tables + name);
  TRY(out.keys, take_weight(builder, p + "key_proj", all, spec.width));
  TRY(out.values, take_weight(builder, p + "value_proj", hidden, spec.width));
  TRY(out.key_norm, take_streams_norm(builder, p + "norm_key", layer.norms));
  TRY(out.query_norm, take_streams_norm(builder, p + "norm_query", layer.norms));
  TRY(out.conv_norm, take_streams_norm(builder, p + "norm_conv", layer.norms));
  out.token_shape = spec.tokens;
  out.token_taps = {builder.device.to_device(nn::token_taps(longest)), {}, false};
  out.conv_shape = spec.convolution;
  const int taps = (spec.convolution.conv_kernel - 1) / longest + 1;
  TRY(const auto conv, take_conv(builder.checkpoint, p + "conv1d.weight", all, taps));
  out.conv = {builder.device.to_device(dilated(conv, longest)), {}, false};
  return out;
}

Result<nn::IndexedAttention> take_indexed_attention(const ModelBuilder& builder, const std::string& p,
                                                    const LayerSpec& layer) {
  const auto& spec = std::get<IndexedAttentionSpec>(layer.mixer);
  const int queries = spec.heads * spec.dim;
  nn::IndexedAttention out;
  TRY(out.attention, take_attention(builder, p, layer));
  out.index_heads = spec.heads, out.index_dim = spec.dim;
  out.ratio = spec.ratio, out.blocks = spec.blocks;
  const std::string name = p + "indexer.index_qk_proj";
  TRY(const auto both, builder.take_matrix(name + ".weight", queries + spec.dim, builder.spec.hidden));
  std::vector<int64_t> of_queries, of_keys;
  append_rows(of_queries, 0, queries);
  append_rows(of_keys, queries, queries + spec.dim);
  out.index_q = linear_of(builder, name, both, std::move(of_queries));
  out.index_k = linear_of(builder, name, both, std::move(of_keys));
  TRY(out.index_q_norm, take_norm(builder, p + "indexer.q_layernorm", spec.dim, layer.norms));
  TRY(out.index_k_norm, take_norm(builder, p + "indexer.k_layernorm", spec.dim, layer.norms));
  return out;
}

Result<nn::Mixer> take_mixer(const ModelBuilder& builder, const std::string& p, const LayerSpec& layer) {
  if (std::holds_alternative<IndexedAttentionSpec>(layer.mixer)) {
    TRY(nn::Mixer mixer, take_indexed_attention(builder, p + "self_attn.", layer));
    return mixer;
  }
  TRY(nn::Mixer mixer, take_gated_delta(builder, p + "linear_attn.", layer));
  return mixer;
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  TRY(auto mixer, take_mixer(builder, p, layer));
  TRY(auto mlp, take_feed_forward(builder, p + "mlp.", layer.mlp));
  nn::DecoderLayer out{{}, std::move(mixer), {}, std::move(mlp)};
  TRY(auto of_mixer, take_connection(builder, p + "attn_hyper_connection.", layer.norms));
  TRY(auto of_mlp, take_connection(builder, p + "mlp_hyper_connection.", layer.norms));
  out.streams = {std::move(of_mixer), std::move(of_mlp)};
  if (layer.ngrams) {
    TRY(out.ngrams, take_ngrams(builder, p + "ple.", layer));
  }
  return out;
}

}  // namespace

Result<nn::StreamMixer> take_stream_mixer(const ModelBuilder& builder, const std::string& p,
                                          const NormsSpec& norms) {
  const StreamsSpec& spec = builder.spec.streams;
  const int all = spec.count * builder.spec.hidden;
  nn::StreamMixer out;
  out.streams = spec.count;
  TRY(out.norm, take_streams_norm(builder, p + "hc_norm", norms));
  TRY(out.down, take_weight(builder, p + "input_mix_weight_down", spec.rank, all));
  TRY(out.up, take_weight(builder, p + "input_mix_weight_up", all, spec.rank));
  return out;
}

const Family& qwen4_exp_family() {
  static const Family family{read_qwen4_exp_config, build_layer};
  return family;
}

}  // namespace anabranch
