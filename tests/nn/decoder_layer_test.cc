// A decoder layer against its definition, x + post1(mixer(norm1(x))) and h + post2(mlp(norm2(h))), written
// with plain ops: fused launches must not change a bit on the CPU.
#include "nn/decoder_layer.h"
#include "nn/random_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "nn/mtp.h"
#include "ops/attention.h"
#include "ops/testing.h"

namespace anabranch::nn {
namespace {

using ops::Rng;

constexpr int kHidden = 64, kHeads = 4, kKvHeads = 2, kDim = 32, kIntermediate = 96, kRows = 5, kExperts = 4,
              kInput = 16;
const ops::RecurrenceShape kShape{
    .key_heads = 2, .value_heads = 4, .key_dim = 16, .value_dim = 32, .conv_kernel = 4};

// Makes what layers are made of, of random numbers.
class Maker {
 public:
  explicit Maker(Device& device) : device_(device) {}
  Tensor tensor(const Shape& shape, float scale = 1) {
    return device_.to_device(ops::random_tensor(shape, rng_, scale));
  }
  ops::Weight weight(int out, int in) { return random_weight(device_, out, in, rng_); }
  Linear linear(int out, int in, bool bias = false) {
    Linear made{weight(out, in), {}};
    if (bias) made.bias = tensor({out});
    return made;
  }
  Norm norm(int size) { return {{tensor({size}), 1e-6f}}; }
  Norm layer_norm(int size) {
    Norm out = norm(size);
    out.bias = tensor({size});
    return out;
  }
  Mlp mlp() {
    Linear gate = linear(kIntermediate, kHidden), up = linear(kIntermediate, kHidden);
    return {std::move(gate), std::move(up), linear(kHidden, kIntermediate)};
  }
  ops::ExpertMatrices experts(int rows, int cols) {
    const Tensor values = ops::random_tensor({kExperts * rows, cols}, rng_, 0.2f);
    WeightSource source;
    source.rows = kExperts * rows;
    source.cols = cols;
    source.read_dense = [values, cols](int64_t first, int64_t count, float* to) {
      std::copy_n(values.data<float>() + first * cols, count * cols, to);
    };
    return ops::ExpertMatrices::make(device_, source, kExperts);
  }
  Moe moe(bool shared) {
    Moe moe{{.top_k = 2},
            weight(kExperts, kHidden),
            experts(24, kHidden),
            experts(24, kHidden),
            experts(kHidden, 24)};
    if (shared)
      moe.shared = Moe::Shared{weight(kIntermediate, kHidden), weight(kIntermediate, kHidden),
                               weight(kHidden, kIntermediate), weight(1, kHidden)};
    return moe;
  }
  Attention attention(bool biases) {
    Attention a;
    a.heads = kHeads;
    a.kv_heads = kKvHeads;
    a.head_dim = kDim;
    a.scores.scale = 0.2f;
    for (int i = 0; i < kDim / 2; i++) a.rope.inv_freq.push_back(1.0f / static_cast<float>(1 + i));
    a.q = linear(kHeads * kDim, kHidden, biases);
    a.k = linear(kKvHeads * kDim, kHidden, biases);
    a.v = linear(kKvHeads * kDim, kHidden, biases);
    a.o = linear(kHidden, kHeads * kDim, biases);
    if (biases) return a;
    a.gate = linear(kHeads * kDim, kHidden);
    a.q_norm = norm(kDim);
    a.k_norm = norm(kDim);
    return a;
  }
  Recurrence recurrence() {
    const int hv = kShape.value_heads, values = hv * kShape.value_dim;
    Recurrence g{kShape,
                 {tensor({kShape.conv_kernel, kShape.conv_channels()}, 0.5f), tensor({hv}), tensor({hv}),
                  tensor({kShape.value_dim})},
                 linear(kShape.conv_channels(), kHidden),
                 linear(values, kHidden),
                 linear(hv, kHidden),
                 linear(hv, kHidden),
                 linear(kHidden, values)};
    return g;
  }

  // What Gemma 4's layers have: values that are the keys, normalised; soft-capped scores (Gemma 2); a
  // mixture beside the MLP, a per-layer input, a scale.
  DecoderLayer gemma4() {
    Attention a = attention(false);
    a.gate.reset();
    a.v.reset();
    a.v_norm = norm(kDim);
    a.scores.soft_cap = 2;
    Mlp dense = mlp();
    dense.activation = ops::Activation::gelu_tanh;
    Moe mixture = moe(false);
    mixture.activation = ops::Activation::gelu_tanh;
    mixture.router_norm = norm(kHidden);
    mixture.expert_scale = tensor({kExperts});
    MlpAndMoe both{std::move(dense), norm(kHidden), norm(kHidden), std::move(mixture), norm(kHidden)};
    DecoderLayer layer{norm(kHidden),   std::move(a),  norm(kHidden),
                       std::move(both), norm(kHidden), norm(kHidden)};
    layer.per_layer = PerLayerGate{weight(kInput, kHidden), weight(kHidden, kInput), norm(kHidden)};
    layer.scale = 0.3f;
    return layer;
  }

  // Norms after both parts only, and over all heads together (OLMo 2).
  DecoderLayer olmo2() {
    Attention a = attention(true);
    a.norms_all_heads = true;
    a.q_norm = norm(kHeads * kDim);
    a.k_norm = norm(kKvHeads * kDim);
    return {{}, std::move(a), {}, mlp(), norm(kHidden), norm(kHidden)};
  }
  // Both parts read a LayerNorm of the input (Cohere 2); an MLP without a gate and with biases (StarCoder 2).
  DecoderLayer parallel() {
    Mlp wide{{}, linear(kIntermediate, kHidden, true), linear(kHidden, kIntermediate, true)};
    wide.gelu = ops::Gelu::erf;
    DecoderLayer layer{layer_norm(kHidden), attention(true), layer_norm(kHidden), std::move(wide)};
    layer.parallel = true;
    return layer;
  }
  // Heads are normalised after the rotation (Hunyuan); scaled outputs (Granite).
  DecoderLayer scaled() {
    Attention a = attention(false);
    a.norms_after_rope = true;
    DecoderLayer layer{norm(kHidden), std::move(a), norm(kHidden), mlp()};
    layer.residual_scale = 0.4f;
    return layer;
  }

 private:
  Device& device_;
  Rng rng_{11};
};

Tensor plain_linear(const Tensor& x, const Linear& linear) {
  const Tensor y = ops::linear(x, linear.weight);
  return linear.bias ? ops::add_bias(y, *linear.bias) : y;
}

// x + post(linear(y)). Without a norm the bias is added last: (x + W y) + b.
Tensor added(const Tensor& x, const std::optional<Norm>& post, const Linear& linear, const Tensor& y,
             float scale = 1) {
  if (post) return ops::add(x, (*post)(plain_linear(y, linear)));
  if (scale != 1) return ops::add(x, ops::scale(plain_linear(y, linear), scale));
  const Tensor sum = ops::add(x, ops::linear(y, linear.weight));
  return linear.bias ? ops::add_bias(sum, *linear.bias) : sum;
}

// What goes into the last product of each part.
struct Last {
  Tensor y;
  const Linear& linear;
};

Last plain(const Mlp& mlp, const Tensor& x) {
  if (!mlp.gate) return {ops::gelu(plain_linear(x, mlp.up), mlp.gelu), mlp.down};
  return {ops::swiglu(ops::linear(x, mlp.gate->weight), ops::linear(x, mlp.up.weight), mlp.activation),
          mlp.down};
}

// Of a new sequence.
Last plain(const Attention& a, const Tensor& x) {
  const int rows = x.shape(0);
  std::vector<int> positions(static_cast<size_t>(rows));
  std::iota(positions.begin(), positions.end(), 0);
  const auto rotated = [&](const Linear& linear, const std::optional<Norm>& norm, int heads) {
    Tensor y = plain_linear(x, linear);
    if (a.norms_all_heads) y = (*norm)(y);
    if (norm && !a.norms_all_heads && !a.norms_after_rope) y = (*norm)(y.reshape({rows * heads, kDim}));
    const Tensor turned = ops::rope(y.reshape({rows, heads, kDim}), positions, a.rope);
    if (!a.norms_after_rope) return turned;
    return (*norm)(turned.reshape({rows * heads, kDim})).reshape({rows, heads, kDim});
  };
  ops::PagedKv kv;
  kv.kv_heads = kKvHeads;
  kv.head_dim = kDim;
  const Tensor q = rotated(a.q, a.q_norm, kHeads), k = rotated(*a.k, a.k_norm, kKvHeads);
  Tensor v = plain_linear(x, a.v ? *a.v : *a.k);
  if (a.v_norm) v = (*a.v_norm)(v.reshape({rows * kKvHeads, kDim}));
  ops::kv_append(kv, k, v.reshape({rows, kKvHeads, kDim}));
  const Tensor y = ops::attention(q, kv, a.scores).reshape({rows, kHeads * kDim});
  return {a.gate ? ops::sigmoid_gate(y, plain_linear(x, *a.gate)) : y, a.o};
}

Last plain(const Recurrence& g, const Tensor& x) {
  auto state = ops::make_recurrence_state(x.device(), g.shape);
  const Tensor qkv = plain_linear(x, g.qkv), z = plain_linear(x, g.z), b = plain_linear(x, *g.b),
               a = plain_linear(x, *g.a);
  const ops::RecurrenceSpan span{&state, 0, x.shape(0)};
  return {ops::recurrence_plain({qkv, z, b, a}, g.shape, g.weights, {&span, 1}), g.out};
}

// There are no such layers here: tests/models has golden logits of models with them.
Last plain(const ShortConv&, const Tensor&) {
  throw std::logic_error("a short convolution");
}
Last plain(const LatentAttention&, const Tensor&) {
  throw std::logic_error("latent attention");
}
Last plain(const IndexedAttention&, const Tensor&) {
  throw std::logic_error("attention with an index");
}
Last plain(const SideBySide&, const Tensor&) {
  throw std::logic_error("two mixers");
}
Last plain(const Absent&, const Tensor&) {
  throw std::logic_error("a layer without a mixer");
}

Tensor normed_by(const std::optional<Norm>& norm, const Tensor& x) {
  return norm ? (*norm)(x) : x;
}

// h + scale * post(mlp(norm(h))); in a parallel layer norm(x).
Tensor fed(const DecoderLayer& layer, const Mlp& mlp, const Tensor& h, const Tensor& x) {
  const Last last = plain(mlp, normed_by(layer.norm2, layer.parallel ? x : h));
  return added(h, layer.post2, last.linear, last.y, layer.residual_scale);
}

Tensor fed(const DecoderLayer& layer, const Moe& moe, const Tensor& h, const Tensor&) {
  const Tensor normed = (*layer.norm2)(h);
  const ops::Routing routing = ops::route(ops::linear(normed, moe.router), moe.routing);
  Tensor y = ops::mix_experts(h, &*layer.norm2, routing, {&*moe.gate, &moe.up, &moe.down});
  if (moe.shared) {  // the last of the sum: y + sigmoid(gate) * output
    const Tensor out =
        ops::linear(ops::swiglu(ops::linear(normed, moe.shared->gate), ops::linear(normed, moe.shared->up)),
                    moe.shared->down);
    const auto gates = ops::to_vector(ops::linear(normed, *moe.shared->output_gate));
    auto sum = ops::to_vector(y);
    const auto values = ops::to_vector(out);
    for (size_t i = 0; i < sum.size(); i++) {
      const double gate = gates[i / kHidden];
      sum[i] = std::fma(static_cast<float>(1 / (1 + std::exp(-gate))), values[i], sum[i]);
    }
    y = h.device().to_device(ops::to_tensor(sum, h.shape()));
  }
  return ops::add(h, layer.post2 ? (*layer.post2)(y) : y);
}

// h + post(post_mlp(mlp(norm(h))) + post_moe(moe(pre_moe(h)))).
Tensor fed(const DecoderLayer& layer, const MlpAndMoe& both, const Tensor& h, const Tensor&) {
  const Last last = plain(both.mlp, (*layer.norm2)(h));
  const Moe& moe = both.moe;
  const Tensor logits = ops::linear((*moe.router_norm)(h), moe.router);
  const Tensor mixed = ops::mix_experts(h, &both.pre_moe, ops::route(logits, moe.routing, &*moe.expert_scale),
                                        {&*moe.gate, &moe.up, &moe.down, moe.activation});
  return ops::add(
      h, (*layer.post2)(ops::add(both.post_mlp(plain_linear(last.y, last.linear)), both.post_moe(mixed))));
}

Tensor fed(const DecoderLayer&, const Absent&, const Tensor&, const Tensor&) {
  throw std::logic_error("a layer without a feed-forward part");
}

Tensor by_definition(const DecoderLayer& layer, const Tensor& x, const Tensor& input) {
  const auto mixed =
      std::visit([&](const auto& mixer) { return plain(mixer, normed_by(layer.norm1, x)); }, layer.mixer);
  const Tensor h = added(x, layer.post1, mixed.linear, mixed.y, layer.residual_scale);
  Tensor y = std::visit([&](const auto& mlp) { return fed(layer, mlp, h, x); }, layer.mlp);
  if (layer.per_layer) {
    const auto& own = *layer.per_layer;
    const Tensor gated = ops::swiglu(ops::linear(y, own.gate), input, own.activation);
    y = ops::add(y, own.norm(ops::linear(gated, own.projection)));
  }
  return layer.scale == 1 ? y : ops::scale(y, layer.scale);
}

Tensor run(const DecoderLayer& layer, const Tensor& x, const Tensor& input) {
  const bool delta = std::holds_alternative<Recurrence>(layer.mixer);
  SequenceState state(x.device(), {delta ? LayerLayout(kShape) : LayerLayout(KvLayout{kKvHeads, kDim})});
  Batch batch;
  batch.add(state, std::vector<int>(static_cast<size_t>(x.shape(0)), 1), Batch::Logits::none);
  return layer(x, batch, 0, &input);
}

// Attention without and with extras, gated delta, each with and without post-norms; mixtures of experts.
std::vector<DecoderLayer> layers(Maker& maker) {
  std::vector<DecoderLayer> out;
  for (const bool post : {false, true})
    for (int kind = 0; kind < 3; kind++) {
      Mixer mixer = kind == 2 ? Mixer(maker.recurrence()) : Mixer(maker.attention(kind == 1));
      DecoderLayer layer{maker.norm(kHidden), std::move(mixer), maker.norm(kHidden), maker.mlp()};
      if (post) layer.post1 = maker.norm(kHidden), layer.post2 = maker.norm(kHidden);
      out.push_back(std::move(layer));
    }
  for (const bool shared : {false, true}) {
    Mixer mixer = maker.attention(false);
    DecoderLayer layer{maker.norm(kHidden), std::move(mixer), maker.norm(kHidden), maker.moe(shared)};
    if (shared) layer.post2 = maker.norm(kHidden);
    out.push_back(std::move(layer));
  }
  out.push_back(maker.gemma4());
  out.push_back(maker.olmo2());
  out.push_back(maker.parallel());
  out.push_back(maker.scaled());
  return out;
}

TEST(DecoderLayer, EqualsItsDefinition) {
  for (const bool precise : {false, true}) {
    Device& device = ops::cpu_device(2, precise);
    Maker maker(device);
    const Tensor x = maker.tensor({kRows, kHidden}), input = maker.tensor({kRows, kInput});
    int number = 0;
    for (const DecoderLayer& layer : layers(maker)) {
      const auto what = fmt::format("layer {}, precise {}", number++, precise);
      ops::expect_same_bits(run(layer, x, input), by_definition(layer, x, input), what);
    }
  }
}

TEST(DecoderLayer, IsCloseToTheReference) {
  Maker ours(ops::cpu_device(0, true)), theirs(ops::reference_device());
  const Tensor x = ours.tensor({kRows, kHidden}), same = theirs.tensor({kRows, kHidden});
  const Tensor input = ours.tensor({kRows, kInput}), same_input = theirs.tensor({kRows, kInput});
  const auto a = layers(ours), b = layers(theirs);  // of the same random numbers
  for (size_t i = 0; i < a.size(); i++)
    // Values of up to 30 through a dozen products of 64 to 128 fp32 roundings each.
    ops::expect_close(run(a[i], x, input), run(b[i], same, same_input), 2e-3, fmt::format("layer {}", i));
}

// A norm that is there changes the result: what is optional is not just ignored.
TEST(DecoderLayer, PostNormsCount) {
  Maker maker(ops::cpu_device());
  const Tensor x = maker.tensor({kRows, kHidden});
  DecoderLayer layer{maker.norm(kHidden), maker.recurrence(), maker.norm(kHidden), maker.mlp()};
  const auto without = ops::to_vector(run(layer, x, {}));
  layer.post1 = maker.norm(kHidden);
  const auto first = ops::to_vector(run(layer, x, {}));
  layer.post2 = maker.norm(kHidden);
  const auto both = ops::to_vector(run(layer, x, {}));
  EXPECT_FALSE(ops::same_bits(without, first));
  EXPECT_FALSE(ops::same_bits(first, both));
}

TEST(DecoderLayer, TheVisitorSeesEveryMatrixOnce) {
  Maker maker(ops::cpu_device());
  const auto count = [](const auto& layer) {
    std::pair<int, int64_t> seen;
    layer.visit_weights([&](const ops::Weight& w) {
      seen.first++;
      seen.second += w.out_features() * w.in_features();
    });
    return seen;
  };
  const auto all = layers(maker);
  const int64_t mlp = 3 * kIntermediate * kHidden, q = kHeads * kDim * kHidden,
                kv = kKvHeads * kDim * kHidden;
  EXPECT_EQ(count(all[0]), std::pair(8, mlp + 3 * q + 2 * kv));  // q, gate, o; k, v
  EXPECT_EQ(count(all[1]), std::pair(7, mlp + 2 * q + 2 * kv));
  const int64_t values = kShape.value_heads * kShape.value_dim;
  EXPECT_EQ(count(all[2]), std::pair(8, mlp + kHidden * (kShape.conv_channels() + 2 * values +
                                                         2 * int64_t{kShape.value_heads})));
  Mtp mtp{maker.norm(kHidden),
          maker.norm(kHidden),
          maker.linear(kHidden, 2 * kHidden),
          {all[1]},
          maker.norm(kHidden)};
  EXPECT_EQ(count(mtp), std::pair(8, mlp + 2 * q + 2 * kv + 2 * int64_t{kHidden} * kHidden));
}

// Rows of several sequences in one batch get the bits that each gets alone.
TEST(DecoderLayer, NeighboursDoNotMatter) {
  Device& device = ops::cpu_device(2);
  Maker maker(device);
  for (const DecoderLayer& layer : layers(maker)) {
    const Tensor x = maker.tensor({3, kHidden}), y = maker.tensor({kRows, kHidden}),
                 first_input = maker.tensor({3, kInput}), second_input = maker.tensor({kRows, kInput});
    const bool delta = std::holds_alternative<Recurrence>(layer.mixer);
    const StateLayout layout{delta ? LayerLayout(kShape) : LayerLayout(KvLayout{kKvHeads, kDim})};
    SequenceState first(device, layout), second(device, layout);
    Batch batch;
    batch.add(first, std::vector<int>(3, 1), Batch::Logits::none);
    batch.add(second, std::vector<int>(kRows, 1), Batch::Logits::none);
    const Tensor input = ops::concat_rows({first_input, second_input});
    const Tensor both = layer(ops::concat_rows({x, y}), batch, 0, &input);
    ops::expect_same_bits(both.slice_rows(0, 3), run(layer, x, first_input), "the first");
    ops::expect_same_bits(both.slice_rows(3, 3 + kRows), run(layer, y, second_input), "the second");
  }
}

}  // namespace
}  // namespace anabranch::nn
