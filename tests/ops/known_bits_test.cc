// The bits of each op's result for fixed inputs, by hash: the same on every processor. Other tests compare
// the targets of one machine with each other; these hashes compare machines (script/test-neon runs them on
// 64-bit Arm).
#include <gtest/gtest.h>

#include "base/hash.h"
#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/expert_mixtures.h"
#include "ops/linear.h"
#include "ops/low_rank.h"
#include "ops/matrices.h"
#include "ops/recurrence.h"
#include "ops/rope.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

// Inputs without the standard library's distributions, and what became of them.
class KnownRun {
 public:
  KnownRun(Device& device, uint64_t seed) : device_(device), random_(seed) {}

  Tensor input(const Shape& shape, float scale = 1) {
    int64_t count = 1;
    for (size_t i = 0; i < shape.size(); ++i) count *= shape[i];
    return device_.to_device(to_tensor(random_.vector(count, scale), shape));
  }
  Weight weight(const Matrix& m) { return Weight::make(device_, m.source()); }

  void see(const Tensor& x) {
    const Tensor host = to_host(x);
    uint32_t bits;
    for (int64_t i = 0; i < host.size(); i++) {
      std::memcpy(&bits, host.data<float>() + i, sizeof(bits));
      hash_.add(bits);
    }
  }
  void see(const std::vector<Tensor>& all) {
    for (const Tensor& x : all) see(x);
  }
  uint64_t hash() const { return hash_.value(); }
  Device& device() { return device_; }

 private:
  Device& device_;
  Random random_;
  Fnv1a hash_;
};

const std::vector<Matrix>& matrices() {
  static const std::vector<Matrix> all = [] {
    std::vector<Matrix> out;
    for (const int bits : {2, 3, 4, 5, 6, 8})
      for (const int group : {16, 32, 64, 128})
        out.push_back(affine_matrix(40, 384, bits, group, bits % 2 ? ScaleType::f16 : ScaleType::bf16,
                                    group == 32, static_cast<uint64_t>(bits * group)));
    for (const int bits : {2, 3, 4, 5, 6})
      out.push_back(block_matrix(24, 512, bits, bits == 4 || bits == 5 ? 32 : 16, bits == 3 || bits == 6,
                                 static_cast<uint64_t>(bits)));
    for (const WeightKind kind : {WeightKind::f32, WeightKind::f16, WeightKind::bf16})
      out.push_back(dense_matrix(40, 200, kind, 9));
    return out;
  }();
  return all;
}

void see_products(KnownRun& t, const Matrix& m) {
  const Weight w = t.weight(m);
  for (const int rows : {1, 2, 5, 40}) {
    const Tensor x = t.input({rows, m.cols}, 3);
    t.see(linear(x, w));
    t.see(linear_add(x, w, t.input({rows, m.rows})));
  }
  const int ids[] = {0, 7, m.rows - 1};
  t.see(embed(ids, w));
}

void products(KnownRun& t) {
  for (const Matrix& m : matrices()) see_products(t, m);
}

void table_and_fp8_products(KnownRun& t) {
  std::vector<Matrix> all;
  for (const int group : {16, 32}) {
    all.push_back(coded_matrix(40, 384, WeightKind::table, group, ScaleType::f16, 1));
    all.push_back(coded_matrix(40, 384, WeightKind::table, group, ScaleType::e8m0, 2, kFp4Table));
    all.push_back(coded_matrix(40, 384, WeightKind::table, group, ScaleType::e4m3, 3, kFp4Table));
    all.push_back(block_table_matrix(24, 512, group, 0.25f, 4, kIq3Table));
  }
  for (const int group : {32, 64, 128})
    for (const ScaleType type : {ScaleType::bf16, ScaleType::e8m0})
      all.push_back(coded_matrix(40, 384, WeightKind::fp8, group, type, 5));
  for (const Matrix& m : all) see_products(t, m);
}

void feed_forward(KnownRun& t) {
  const Weight gate = t.weight(affine_matrix(96, 256, 4, 64, ScaleType::bf16, false, 1)),
               up = t.weight(affine_matrix(96, 256, 4, 64, ScaleType::bf16, false, 2)),
               down = t.weight(affine_matrix(256, 96, 6, 32, ScaleType::f16, true, 3));
  const RowNorm norm{t.input({256}), 1e-5f};
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh})
    for (const int rows : {1, 3, 40})
      t.see(linear(linear_swiglu(t.input({rows, 256}, 2), gate, up, norm, activation), down));
  const Weight* both[] = {&gate, &up};
  t.see(linear(t.input({3, 256}), both, &norm));
}

void elementwise(KnownRun& t) {
  for (const int width : {1, 16, 50, 256}) {
    const Tensor a = t.input({5, width}, 8), b = t.input({5, width}, 8);
    t.see(rms_norm(a, t.input({width}), 1e-6f));
    t.see(add(a, b));
    t.see(add_bias(a, t.input({width})));
    t.see(swiglu(a, b, Activation::silu));
    t.see(swiglu(a, b, Activation::gelu_tanh));
    t.see(scale(a, 0.3f));
    t.see(soft_cap(a, 2.5f));
    t.see(sigmoid_gate(a, b));
  }
  const int positions[] = {0, 1, 77, 4095, 100000};
  Rope rope_of;
  for (int i = 0; i < 24; i++) rope_of.inv_freq.push_back(1.0f / static_cast<float>(1 + i * i));
  t.see(rope(t.input({5, 3, 64}), positions, rope_of, true));
}

void attention_of_layers(KnownRun& t) {
  struct Layout {
    int heads, kv_heads, dim, window;
    float soft_cap;
  };
  for (const Layout& l : {Layout{6, 2, 64, 0, 0}, {8, 1, 128, 100, 0}, {2, 1, 33, 0, 0}, {4, 2, 256, 0, 3}}) {
    PagedKv kv;
    kv.kv_heads = l.kv_heads;
    kv.head_dim = l.dim;
    for (const int rows : {270, 1, 5}) {
      const Tensor k = t.input({rows, l.kv_heads, l.dim}), v = t.input({rows, l.kv_heads, l.dim});
      kv_append(kv, k, v);
      t.see(attention(t.input({rows, l.heads, l.dim}, 2), kv, {0.3f, l.window, l.soft_cap}));
    }
  }
}

void gated_delta_of_layers(KnownRun& t) {
  for (const RecurrenceShape& s :
       {RecurrenceShape{2, 4, 32, 32, 4}, {3, 3, 128, 128, 4}, {2, 6, 24, 40, 3}, {1, 2, 7, 5, 2}}) {
    const int c = s.conv_channels(), hv = s.value_heads;
    const RecurrenceWeights w{t.input({s.conv_kernel, c}, 0.5f), t.input({hv}), t.input({hv}),
                              t.input({s.value_dim})};
    auto state = make_recurrence_state(t.device(), s);
    for (const auto& [rows, draft] : {std::pair{70, false}, {1, false}, {4, true}, {3, false}}) {
      const RecurrenceSpan span{&state, 0, rows, draft};
      const Tensor qkv = t.input({rows, c}), z = t.input({rows, hv * s.value_dim}), b = t.input({rows, hv}),
                   a = t.input({rows, hv});
      t.see(recurrence_plain({qkv, z, b, a}, s, w, {&span, 1}));
      if (draft) recurrence_commit(state, 2);
    }
    recurrence_fold(s, state);
    t.see(state.s);
    t.see(state.conv);
  }
}

void experts(KnownRun& t) {
  const Loaded mixture(t.device(), {128, 64, 8, 3, affine(4, 64), affine(4, 64), affine(5, 32)});
  for (const int rows : {1, 40})
    for (const auto scores : {RouterSpec::Scores::softmax, RouterSpec::Scores::sigmoid}) {
      const Routing routing = route(t.input({rows, 8}, 3), {.top_k = 3, .scores = scores});
      t.see(routing.weights);
      const Tensor gates = t.input({rows, 1});
      const SharedExpert shared = mixture.shared(&gates);
      t.see(mixture.mix(t.input({rows, 128}), routing, &shared));
    }
}

void low_rank(KnownRun& t) {
  for (const auto& [rows, out, rank] : {std::tuple{1, 512, 16}, {6, 50, 7}, {9, 33, 64}}) {
    const int begin = rows / 2, count = rows / 3;
    LowRankOutput output{t.input({rows, out}), {}};
    output.parts.push_back(
        {t.input({rows, rank}).reshape({1, rows, rank}), t.input({out, rank}), 0.3f, 0, rows});
    const Tensor z = t.input({rows, 3}).slice_rows(begin, begin + count);
    output.parts.push_back({z.reshape({1, count, 3}), t.input({out, 3}), 2.0f, begin, count});
    add_low_rank({&output, 1});
    t.see(output.y);
  }
}

struct Known {
  const char* name;
  void (*run)(KnownRun&);
  uint64_t usual, precise;
};
constexpr Known kKnown[] = {
    {"products", products, 0x77d96bfadfff6a83, 0xf770d315407e8fcd},
    {"table and fp8 products", table_and_fp8_products, 0x51b3154a8529b679, 0x0ab78333ea8cab99},
    {"feed-forward", feed_forward, 0xafa9d492f2123071, 0x407b3a6b55e5ef65},
    {"elementwise", elementwise, 0x1f5f9f1abfb0ea47, 0x1f5f9f1abfb0ea47},
    {"attention", attention_of_layers, 0xd4c05c2878a5d968, 0x4b0277d3097997ab},
    {"gated delta", gated_delta_of_layers, 0xe06fd1fa637088de, 0xe06fd1fa637088de},
    {"experts", experts, 0x83bc41904dda1e9c, 0x3c0b02c722e6dea1},
    {"low rank", low_rank, 0x6a201f5c0fa76590, 0x6a201f5c0fa76590},
};

TEST(KnownBits, OfEveryOpOnEveryTarget) {
  for (const Known& known : kKnown)
    for (const std::string& target : all_targets())
      for (const bool precise : {false, true}) {
        KnownRun run(cpu_device(2, precise, target), 5);
        known.run(run);
        EXPECT_EQ(run.hash(), precise ? known.precise : known.usual)
            << known.name << " on " << target << (precise ? ", precise" : "")
            << fmt::format(": {:#018x}", run.hash());
      }
}

}  // namespace
}  // namespace anabranch::ops
