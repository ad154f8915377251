// The weights of Qwen3.5 / 3.6 and Qwen3-Next (qwen3_5_config.cc).
#include <algorithm>

#include "models/family.h"

namespace anabranch {
namespace {

// The projections of a Gated DeltaNet layer's input.
struct InputProjections {
  nn::Linear qkv, z, b, a;
};

// Selects rows of a matrix that is ordered by key head: `count` rows from `begin` on, of each head's
// `head_rows` rows.
struct RowsByHead {
  int first_head, last_head, head_rows;
  std::vector<int64_t> rows = {};
  void append(int begin, int count) {
    for (int head = first_head; head < last_head; head++)
      for (int i = 0; i < count; i++) rows.push_back(int64_t{head} * head_rows + begin + i);
  }
};

// A device's share of a layer's heads (all of them without a group). A key head's value heads stay with it.
struct HeadShare {
  int first, last, values;  // key heads [first, last), value heads of each
  ops::Split outputs;       // how the layer's output is split

  HeadShare(const ModelBuilder& builder, const ops::RecurrenceShape& shape)
      : values(shape.value_heads / shape.key_heads),
        outputs(builder.split(shape.key_heads, values * shape.value_dim)) {
    const auto heads = builder.split(shape.key_heads, 1);
    first = heads.first(builder.rank()), last = heads.last(builder.rank());
  }
  // Appends the rows of this share, where each key head has `each` rows and `offset` other rows come first.
  void append(std::vector<int64_t>& rows, int64_t each, int64_t offset = 0) const {
    append_rows(rows, offset + first * each, offset + last * each);
  }
  // The channels of the convolution: queries, keys, values.
  std::vector<int64_t> channels(const ops::RecurrenceShape& shape) const {
    std::vector<int64_t> rows;
    const int64_t keys = int64_t{shape.key_heads} * shape.key_dim;
    append(rows, shape.key_dim), append(rows, shape.key_dim, keys);
    append(rows, int64_t{values} * shape.value_dim, 2 * keys);
    return rows;
  }
  std::vector<int64_t> value_rows(int64_t of_each_head) const {
    std::vector<int64_t> rows;
    append(rows, values * of_each_head);
    return rows;
  }
};

// Qwen3-Next's in_proj_qkvz has [q, k, v of its value heads, z of them] for each key head. The result has the
// q rows of all heads first, then k, then v. Reference: Transformers' fix_query_key_value_ordering. GGUF
// files have the two separate matrices of Qwen3.5.
Result<void> take_qkv_and_z(const ModelBuilder& builder, const std::string& p,
                            const ops::RecurrenceShape& shape, const HeadShare& share,
                            InputProjections& out) {
  const int hidden = builder.spec.hidden, values = shape.value_heads * shape.value_dim;
  if (!builder.checkpoint.has(p + "in_proj_qkvz.weight")) {
    TRY(out.qkv, take_rows_of_linear(builder, p + "in_proj_qkv", shape.conv_channels(), hidden,
                                     share.channels(shape)));
    TRY(out.z,
        take_rows_of_linear(builder, p + "in_proj_z", values, hidden, share.value_rows(shape.value_dim)));
    return {};
  }
  const int heads = shape.key_heads, key = shape.key_dim, value = values / heads, block = 2 * key + 2 * value;
  TRY(const auto both,
      builder.checkpoint.take_matrix(p + "in_proj_qkvz.weight", int64_t{heads} * block, hidden));
  RowsByHead qkv{share.first, share.last, block}, z{share.first, share.last, block};
  qkv.append(0, key), qkv.append(key, key), qkv.append(2 * key, value);
  z.append(2 * key + value, value);
  out.qkv = linear_of(builder, p + "in_proj_qkvz", both, std::move(qkv.rows));
  out.z = linear_of(builder, p + "in_proj_qkvz", both, std::move(z.rows));
  return {};
}

// Qwen3-Next's in_proj_ba has [b of its value heads, a of them] for each key head.
Result<void> take_b_and_a(const ModelBuilder& builder, const std::string& p,
                          const ops::RecurrenceShape& shape, const HeadShare& share, InputProjections& out) {
  const int hidden = builder.spec.hidden, hv = shape.value_heads, each = share.values;
  if (!builder.checkpoint.has(p + "in_proj_ba.weight")) {
    TRY(out.b, take_rows_of_linear(builder, p + "in_proj_b", hv, hidden, share.value_rows(1)));
    TRY(out.a, take_rows_of_linear(builder, p + "in_proj_a", hv, hidden, share.value_rows(1)));
    return {};
  }
  TRY(const auto both, builder.checkpoint.take_matrix(p + "in_proj_ba.weight", 2ll * hv, hidden));
  RowsByHead b{share.first, share.last, 2 * each}, a{share.first, share.last, 2 * each};
  b.append(0, each), a.append(each, each);
  out.b = linear_of(builder, p + "in_proj_ba", both, std::move(b.rows));
  out.a = linear_of(builder, p + "in_proj_ba", both, std::move(a.rows));
  return {};
}

}  // namespace

Result<nn::Recurrence> take_gated_delta(const ModelBuilder& builder, const std::string& p,
                                        const LayerSpec& layer) {
  const auto& shape = std::get<ops::RecurrenceShape>(layer.mixer);
  const HeadShare share(builder, shape);
  Checkpoint& checkpoint = builder.checkpoint;
  Device& device = builder.device;
  const int hv = shape.value_heads;
  TRY(auto conv, take_conv(checkpoint, p + "conv1d.weight", shape.conv_channels(), shape.conv_kernel));
  TRY(auto a_log, checkpoint.take(p + "A_log", {hv}));
  TRY(auto dt_bias, checkpoint.take(p + "dt_bias", {hv}));
  NormsSpec gated = layer.norms;
  gated.offset = false;
  TRY(auto norm, take_norm(builder, p + "norm", shape.value_dim, gated));
  InputProjections in;
  TRY_VOID(take_qkv_and_z(builder, p, shape, share, in));
  TRY_VOID(take_b_and_a(builder, p, shape, share, in));
  TRY(auto out, take_last_linear(builder, p + "out_proj", share.outputs));
  ops::RecurrenceShape own = shape;
  own.key_heads = share.last - share.first;
  own.value_heads = own.key_heads * share.values;
  return nn::Recurrence{own,
                        {device.to_device(take_channels(conv, share.channels(shape))),
                         take_elements(builder, a_log, share.value_rows(1)),
                         take_elements(builder, dt_bias, share.value_rows(1)), norm.weight, norm.eps},
                        std::move(in.qkv),
                        std::move(in.z),
                        std::move(in.b),
                        std::move(in.a),
                        std::move(out)};
}

namespace {

Result<nn::Mixer> take_mixer(const ModelBuilder& builder, const std::string& p, const LayerSpec& layer) {
  if (std::holds_alternative<ops::RecurrenceShape>(layer.mixer)) {
    TRY(nn::Mixer mixer, take_gated_delta(builder, p + "linear_attn.", layer));
    return mixer;
  }
  TRY(nn::Mixer mixer, take_attention(builder, p + "self_attn.", layer));
  return mixer;
}

Result<nn::DecoderLayer> build_layer(const ModelBuilder& builder, const std::string& p,
                                     const LayerSpec& layer) {
  const int hidden = builder.spec.hidden;
  TRY(auto norm1, take_norm(builder, p + "input_layernorm", hidden, layer.norms));
  TRY(auto norm2, take_norm(builder, p + "post_attention_layernorm", hidden, layer.norms));
  TRY(auto mlp, take_feed_forward(builder, p + "mlp.", layer.mlp));
  TRY(auto mixer, take_mixer(builder, p, layer));
  return nn::DecoderLayer{norm1, std::move(mixer), norm2, std::move(mlp)};
}

// The MTP head has fc and one layer of full attention; it uses the embedding and the head of the main model.
Result<nn::Mtp> build_mtp(const ModelBuilder& builder) {
  const ModelSpec& spec = builder.spec;
  Checkpoint& checkpoint = builder.checkpoint;
  const auto full = std::find_if(spec.layers.begin(), spec.layers.end(), [](const LayerSpec& layer) {
    return std::holds_alternative<AttentionSpec>(layer.mixer);
  });
  if (full == spec.layers.end())
    return make_error(ErrorKind::unsupported, "{}: an MTP head beside a trunk without full attention",
                      checkpoint.path());
  TRY(auto fc, take_linear(builder, "mtp.fc", spec.hidden, 2 * spec.hidden));
  TRY(auto embedding, take_norm(builder, "mtp.pre_fc_norm_embedding", spec.hidden, spec.norms));
  TRY(auto hidden, take_norm(builder, "mtp.pre_fc_norm_hidden", spec.hidden, spec.norms));
  TRY(auto norm, take_norm(builder, "mtp.norm", spec.hidden, spec.norms));
  TRY(auto layer, build_layer(builder, "mtp.layers.0.", *full));
  int layers = 1;
  while (checkpoint.has(fmt::format("mtp.layers.{}.input_layernorm.weight", layers))) layers++;
  if (layers > 1)
    return make_error(ErrorKind::invalid,
                      "{}: the files hold an MTP head of {} layers, but mtp_num_hidden_layers is {}: is it "
                      "another model's?",
                      checkpoint.path(), layers, spec.mtp_layers);
  nn::Mtp mtp{embedding, hidden, std::move(fc), {}, norm};
  mtp.layers.push_back(std::move(layer));
  return mtp;
}

}  // namespace

const Family& qwen3_5_family() {
  static const Family family{read_qwen3_5_config, build_layer, build_mtp};
  return family;
}

}  // namespace anabranch
