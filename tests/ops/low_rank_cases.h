// What every device is tried with for ops/low_rank.h.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "ops/low_rank.h"
#include "ops/testing.h"

namespace anabranch::ops {

// y after the parts on this device; all operands are the host's, and stay as they are.
inline Tensor add_low_rank_on(Device& device, const Tensor& y, std::span<const LowRankRows> parts) {
  std::vector<LowRankRows> there;
  for (const LowRankRows& part : parts)
    there.push_back(
        {device.to_device(part.z), device.to_device(part.up), part.scale, part.begin, part.count});
  Tensor sums = device.to_device(to_tensor(to_vector(y), y.shape()));
  add_low_rank(sums, there);
  return to_host(sums);
}

// A random part of y.
inline LowRankRows low_rank_part(const Tensor& y, int rank, int begin, int count, float scale, Rng& rng) {
  return {random_tensor({y.shape(0), rank}, rng), random_tensor({y.shape(1), rank}, rng), scale, begin,
          count};
}

// The sum in double, and what f32 may change. A product's sum is rounded `rank` times, and no partial sum is
// larger than the sum of the products' sizes, up to rounding; y is rounded once for each part, and never
// larger than all sizes together.
struct LowRankSums {
  std::vector<double> y, tolerance;
};
inline LowRankSums exact_low_rank(const Tensor& y, std::span<const LowRankRows> parts) {
  const int out = y.shape(1);
  LowRankSums sums;
  for (int i = 0; i < y.size(); i++) {
    double sum = y.data<float>()[i], size = std::abs(sum), roundings = 0, tolerance = 0;
    for (const LowRankRows& part : parts) {
      const int row = i / out, rank = part.z.shape(1);
      if (row < part.begin || row >= part.begin + part.count) continue;
      double products = 0;
      for (int r = 0; r < rank; r++) {
        const double product = double{part.scale} * part.up.data<float>()[i % out * rank + r] *
                               part.z.data<float>()[row * rank + r];
        sum += product;
        products += std::abs(product);
      }
      size += products;
      tolerance += rank * products;
      roundings++;
    }
    sums.y.push_back(sum);
    sums.tolerance.push_back((tolerance + roundings * size) * kUlp * 1.01);
  }
  return sums;
}

// The bits that the header promises.
inline std::vector<float> promised_low_rank(const Tensor& y, std::span<const LowRankRows> parts) {
  const auto out = static_cast<size_t>(y.shape(1));
  std::vector<float> sums = to_vector(y);
  for (const LowRankRows& part : parts)
    for (size_t i = static_cast<size_t>(part.begin) * out;
         i < static_cast<size_t>(part.begin + part.count) * out; i++) {
      const auto rank = static_cast<size_t>(part.z.shape(1));
      float acc = 0;
      for (size_t r = 0; r < rank; r++)
        acc = std::fma(part.up.data<float>()[i % out * rank + r], part.z.data<float>()[i / out * rank + r],
                       acc);
      sums[i] = std::fma(part.scale, acc, sums[i]);
    }
  return sums;
}

// Near the sum in double, and the promised bits, which are y's outside the parts.
inline void expect_low_rank(Device& device, const Tensor& y, std::span<const LowRankRows> parts,
                            const std::string& what) {
  const auto got = to_vector(add_low_rank_on(device, y, parts));
  const LowRankSums exact = exact_low_rank(y, parts);
  EXPECT_TRUE(within(got, exact.y, exact.tolerance)) << what;
  EXPECT_TRUE(bits_agree(got, promised_low_rank(y, parts))) << what;
  const auto before = to_vector(y);
  const auto out = static_cast<size_t>(y.shape(1));
  for (int row = 0; row < y.shape(0); row++) {
    bool untouched = true;
    for (const LowRankRows& part : parts) untouched &= row < part.begin || row >= part.begin + part.count;
    if (!untouched) continue;
    const size_t first = static_cast<size_t>(row) * out;
    EXPECT_TRUE(bits_agree(&got[first], &before[first], out)) << what << ", row " << row;
  }
}

// Ranks and widths with and without rests, one row and many, and parts with rows before and behind them.
inline void expect_low_rank_of_shapes(Device& device, std::span<const int> ranks) {
  Rng rng(21);
  for (const int rank : ranks)
    for (const auto& [rows, out] : {std::pair{1, 16}, {1, 1}, {3, 33}, {14, 50}, {23, 128}, {2, 1000}}) {
      const Tensor y = random_tensor({rows, out}, rng);
      const auto what = fmt::format("rank {}, [{}, {}]", rank, rows, out);
      const LowRankRows all = low_rank_part(y, rank, 0, rows, 0.7f, rng),
                        inner = low_rank_part(y, rank, rows / 3, rows / 2, -2.0f, rng);
      expect_low_rank(device, y, {&all, 1}, what);
      expect_low_rank(device, y, {&inner, 1}, what + ", some rows");
    }
}

// Parts of several ranks that overlap, that have no rows, and more than one launch of a card takes.
inline void expect_low_rank_of_many_parts(Device& device) {
  Rng rng(22);
  const Tensor y = random_tensor({40, 70}, rng);
  std::vector<LowRankRows> parts;
  for (int i = 0; i < 19; i++)
    parts.push_back(
        low_rank_part(y, 1 + i % 7, (7 * i + 9) % 31, i % 5 == 4 ? 0 : 1 + i % 9, i % 2 ? 1.0f : 0.3f, rng));
  for (const size_t count : {0, 1, 2, 5, 8, 9, 16, 19})
    expect_low_rank(device, y, {parts.data(), count}, fmt::format("{} parts", count));
  for (LowRankRows& part : parts) part.count = 0;
  expect_low_rank(device, y, parts, "no rows");
}

// A sum that depends on the order: -1e8 + 1e8 + 1 is 1, but -1e8 + 1 + 1e8 is 0.
inline void expect_low_rank_in_order(Device& device) {
  const LowRankRows large{to_tensor({1}, {1, 1}), to_tensor({1e8f}, {1, 1}), 1, 0, 1},
      small{to_tensor({1}, {1, 1}), to_tensor({1}, {1, 1}), 1, 0, 1};
  const Tensor y = to_tensor({-1e8f}, {1, 1});
  EXPECT_EQ(to_vector(add_low_rank_on(device, y, std::vector{large, small})), std::vector{1.0f});
  EXPECT_EQ(to_vector(add_low_rank_on(device, y, std::vector{small, large})), std::vector{0.0f});
}

// A row's bits are the same alone, among others, and beside other parts.
inline void expect_low_rank_rows_stand_alone(Device& device) {
  Rng rng(23);
  const int rows = 37, out = 200;
  const Tensor y = random_tensor({rows, out}, rng);
  const std::vector parts = {low_rank_part(y, 16, 0, 20, 0.5f, rng), low_rank_part(y, 5, 10, 27, 1.5f, rng)};
  const Tensor whole = add_low_rank_on(device, y, parts);
  for (int row = 0; row < rows; row++) {
    std::vector<LowRankRows> own;
    for (const LowRankRows& part : parts)
      if (row >= part.begin && row < part.begin + part.count)
        own.push_back({part.z.slice_rows(row, row + 1), part.up, part.scale, 0, 1});
    expect_same_bits(add_low_rank_on(device, y.slice_rows(row, row + 1), own), whole.slice_rows(row, row + 1),
                     fmt::format("row {}", row));
  }
}

}  // namespace anabranch::ops
