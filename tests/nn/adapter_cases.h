// What every device is tried with for adapters of linear layers (nn/linear.h).
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/linear.h"
#include "nn/random_weight.h"
#include "ops/testing.h"

namespace anabranch::nn {

// Layers with one input, q of 40 outputs, k of 7 and v of 100, and adapters with down-projections of unequal
// ranks, which leave out some of the layers.
class AdaptedLayers {
 public:
  static constexpr int kIn = 96;

  explicit AdaptedLayers(Device& device) : device_(device) {
    for (const int out : {40, 7, 100}) {
      layers_.push_back({weight(out, kIn)});
      layers_.back().origin = std::make_shared<Origin>();
    }
    norm_ = {{tensor({kIn}), 1e-6f}};
  }

  // ranks: of q, k and v; 0: the adapter does not change the layer.
  const Adapter* make(const std::vector<int>& ranks) {
    int columns = 0;
    for (const int rank : ranks) columns += rank;
    auto& adapter = *adapters_.emplace_back(std::make_unique<Adapter>());
    if (columns == 0) return &adapter;
    const ops::Weight down = weight(columns, kIn);
    int first = 0;
    for (size_t i = 0; i < ranks.size(); first += ranks[i++])
      if (ranks[i] > 0)
        adapter.linears.emplace(layers_[i].origin.get(),
                                LowRank{down, first, tensor({outputs(i), ranks[i]})});
    return &adapter;
  }

  std::vector<Tensor> run(const Tensor& x, std::span<const AdapterRows> adapters) const {
    return project({x, &norm_, adapters}, std::vector{&layers_[0], &layers_[1], &layers_[2]});
  }
  // q as the gate.
  ops::MatmulInput run_glu(const Tensor& x, const Linear& up, std::span<const AdapterRows> adapters) const {
    return project_glu({x, &norm_, adapters}, layers_[0], up, ops::Activation::silu);
  }
  // q alone, with a residual.
  Tensor run_alone(const Tensor& x, const Tensor& residual, std::span<const AdapterRows> adapters) const {
    return add({&residual, static_cast<const Norm*>(nullptr)}, layers_[0], x, adapters);
  }
  Linear& layer(size_t i) { return layers_[i]; }
  const Norm& norm() const { return norm_; }
  int outputs(size_t i) const { return static_cast<int>(layers_[i].weight.out_features()); }
  Tensor tensor(const Shape& shape) { return device_.to_device(ops::random_tensor(shape, rng_)); }
  ops::Weight weight(int out, int in) { return random_weight(device_, out, in, rng_); }

 private:
  Device& device_;
  ops::Rng rng_{31};
  std::vector<Linear> layers_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  Norm norm_;
};

// Some rows of a batch, in order, and the adapters that they go through.
struct RowsOfAdapters {
  int count;
  std::vector<std::pair<const Adapter*, float>> adapters;
};
inline std::vector<AdapterRows> adapter_rows(const std::vector<RowsOfAdapters>& batch) {
  std::vector<AdapterRows> rows;
  int begin = 0;
  for (const auto& [count, adapters] : batch) {
    for (const auto& [adapter, scale] : adapters) rows.push_back({adapter, scale, begin, count});
    begin += count;
  }
  return rows;
}

// Every row of a batch with several adapters has the bits that it has alone, with its own; those without have
// the bits of a batch without adapters, and the others do not.
inline void expect_adapted_rows_stand_alone(Device& device) {
  AdaptedLayers layers(device);
  const Adapter *a = layers.make({4, 9, 2}), *b = layers.make({0, 3, 0}), *c = layers.make({16, 0, 20}),
                *none = layers.make({0, 0, 0});
  const std::vector<RowsOfAdapters> batches[] = {
      {{1, {{a, 1.0f}}}},
      {{2, {}}, {3, {{a, 0.5f}}}, {1, {}}, {1, {{b, 1.0f}}}, {2, {{c, -1.0f}}}},
      {{1, {{b, 2.0f}, {a, 1.0f}}},
       {1, {{a, 1.0f}, {b, 2.0f}}},
       {2, {{none, 1.0f}}},
       {1, {{a, 1.0f}, {a, 1.0f}}}},
      {{20, {{c, 1.0f}}}, {3, {}}, {19, {{a, 1.0f}, {c, 0.3f}}}}};
  for (const auto& batch : batches) {
    const std::vector<AdapterRows> rows = adapter_rows(batch);
    int count = 0;
    for (const RowsOfAdapters& part : batch) count += part.count;
    SCOPED_TRACE(::testing::Message() << count << " rows");
    const Tensor x = layers.tensor({count, AdaptedLayers::kIn}), residual = layers.tensor({count, 40});
    const Linear up{layers.weight(40, AdaptedLayers::kIn), {}, 1, {}, {}, layers.layer(0).origin};
    const auto got = layers.run(x, rows), base = layers.run(x, {});
    const Tensor one = layers.run_alone(x, residual, rows), one_base = layers.run_alone(x, residual, {});
    const auto row_of = [](const Tensor& y, int row) { return ops::to_vector(y.slice_rows(row, row + 1)); };
    int row = 0;
    for (const auto& [own_count, adapters] : batch)
      for (int end = row + own_count; row < end; row++) {
        SCOPED_TRACE(::testing::Message() << "row " << row);
        const std::vector<AdapterRows> own = adapter_rows({{1, adapters}});
        const Tensor own_x = x.slice_rows(row, row + 1), own_residual = residual.slice_rows(row, row + 1);
        const auto alone = layers.run(own_x, own);
        for (size_t i = 0; i < got.size(); i++) {
          bool changed = false;
          for (const auto& [adapter, scale] : adapters)
            changed |= adapter->linears.contains(layers.layer(i).origin.get());
          EXPECT_TRUE(ops::bits_agree(row_of(got[i], row), ops::to_vector(alone[i]))) << i;
          EXPECT_EQ(ops::same_bits(row_of(got[i], row), row_of(base[i], row)), !changed) << i;
        }
        EXPECT_TRUE(
            ops::bits_agree(row_of(one, row), ops::to_vector(layers.run_alone(own_x, own_residual, own))));
        if (adapters.empty()) {
          EXPECT_TRUE(ops::bits_agree(row_of(one, row), row_of(one_base, row)));
        }
        // Packed results have no rows to compare: their product with a matrix has.
        const ops::Weight last = layers.weight(3, 40);
        EXPECT_TRUE(ops::bits_agree(row_of(ops::linear(layers.run_glu(x, up, rows), last), row),
                                    ops::to_vector(ops::linear(layers.run_glu(own_x, up, own), last))));
        if (adapters.empty()) {
          EXPECT_TRUE(ops::bits_agree(row_of(ops::linear(layers.run_glu(x, up, rows), last), row),
                                      row_of(ops::linear(layers.run_glu(x, up, {}), last), row)));
        }
      }
  }
}

}  // namespace anabranch::nn
