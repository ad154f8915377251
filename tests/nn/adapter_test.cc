// Adapters of linear layers: what they add, and to which rows.
#include "nn/adapter_cases.h"

#include <gtest/gtest.h>

namespace anabranch::nn {
namespace {

TEST(AdaptedLayers, RowsStandAlone) {
  for (Device* device : ops::cpu_and_reference()) expect_adapted_rows_stand_alone(*device);
}

// Near W x + scale up (down x), for layers of unequal ranks that share a down-projection.
TEST(AdaptedLayers, AddTheirProducts) {
  for (Device* device : ops::cpu_and_reference()) {
    AdaptedLayers layers(*device);
    const Adapter* adapter = layers.make({4, 9, 2});
    const Tensor x = layers.tensor({5, AdaptedLayers::kIn});
    const AdapterRows rows[] = {{adapter, 0.5f, 1, 3}};
    const auto got = layers.run(x, rows), base = layers.run(x, {});
    // The same with each layer's own columns of z.
    for (size_t i = 0; i < got.size(); i++) {
      const LowRank& low_rank = adapter->linears.at(layers.layer(i).origin.get());
      const Linear down{low_rank.down, {}};
      const auto z = ops::to_vector(project({x, &layers.norm(), {}}, std::vector{&down}).front());
      const auto up = ops::to_vector(low_rank.up), before = ops::to_vector(base[i]);
      const auto after = ops::to_vector(got[i]);
      const auto rank = static_cast<size_t>(low_rank.up.shape(1)), out = up.size() / rank;
      for (size_t at = 0; at < after.size(); at++) {
        const size_t row = at / out, first = row * 15 + static_cast<size_t>(low_rank.first);
        double want = before[at];
        for (size_t r = 0; r < rank && row >= 1 && row < 4; r++)
          want += 0.5 * up[at % out * rank + r] * z[first + r];
        EXPECT_NEAR(after[at], want, 1e-4) << i << ", " << at;
      }
    }
  }
}

// Of a gate and the matrix beside it, one alone may be adapted.
TEST(AdaptedLayers, HalfOfAGateMayBeAdapted) {
  for (Device* device : ops::cpu_and_reference()) {
    AdaptedLayers layers(*device);
    const Linear up{layers.weight(40, AdaptedLayers::kIn), {}, 1, {}, {}, std::make_shared<Origin>()};
    const ops::Weight last = layers.weight(3, 40);
    const Tensor x = layers.tensor({3, AdaptedLayers::kIn});
    // Packed results have no values to compare: their product with a matrix has.
    const auto product = [&](const Adapter& adapter) {
      const AdapterRows rows[] = {{&adapter, 1, 0, 3}};
      return ops::to_vector(ops::linear(layers.run_glu(x, up, rows), last));
    };
    const auto base = product({});
    for (const Origin* origin : {layers.layer(0).origin.get(), up.origin.get()}) {
      Adapter adapter;
      adapter.linears.emplace(origin,
                              LowRank{layers.weight(4, AdaptedLayers::kIn), 0, layers.tensor({40, 4})});
      EXPECT_FALSE(ops::same_bits(product(adapter), base)) << (origin == up.origin.get());
    }
    EXPECT_TRUE(ops::same_bits(product(*layers.make({0, 3, 0})), base)) << "another layer's adapter";
  }
}

TEST(AdaptedLayers, ShareTheirDownProjection) {
  AdaptedLayers layers(ops::cpu_device());
  Adapter adapter = *layers.make({4, 9, 2});
  adapter.linears.at(layers.layer(1).origin.get()).down = layers.weight(15, AdaptedLayers::kIn);
  const AdapterRows rows[] = {{&adapter, 1, 0, 1}};
  EXPECT_DEATH(layers.run(layers.tensor({1, AdaptedLayers::kIn}), rows), "down-projections of their own");
}

}  // namespace
}  // namespace anabranch::nn
