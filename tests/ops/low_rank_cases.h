// What every device is tried with for ops/low_rank.h.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/float16.h"
#include "ops/elementwise.h"
#include "ops/low_rank.h"
#include "ops/matrices.h"
#include "ops/testing.h"

namespace anabranch::ops {

// A tensor of the device with the host's elements.
inline Tensor copy_to(Device& device, const Tensor& x) {
  return device.to_device(to_tensor(to_vector(x), x.shape()));
}

// An output with its parts on this device; all operands are the host's, and stay as they are.
inline LowRankOutput low_rank_output(Device& device, const Tensor& y, std::span<const LowRankRows> parts) {
  LowRankOutput output{copy_to(device, y), {}};
  for (const LowRankRows& part : parts) {
    output.parts.push_back(part);
    output.parts.back().z = device.to_device(part.z), output.parts.back().up = device.to_device(part.up);
  }
  return output;
}

// y after the parts.
inline Tensor add_low_rank_on(Device& device, const Tensor& y, std::span<const LowRankRows> parts) {
  LowRankOutput output = low_rank_output(device, y, parts);
  add_low_rank({&output, 1});
  return to_host(output.y);
}

// A random part of y. pieces: of z; columns: that z has in front of the part's, and behind them.
inline LowRankRows low_rank_part(const Tensor& y, int rank, int begin, int count, float scale, Rng& rng,
                                 int pieces = 1, int columns = 0) {
  return {random_tensor({pieces, count, rank + 2 * columns}, rng),
          random_tensor({y.shape(1), rank}, rng),
          scale,
          begin,
          count,
          columns};
}

// The address of the first piece of a number of z. row: of y.
inline const float* low_rank_z(const LowRankRows& part, int row, int r) {
  return part.z.data<float>() + (row - part.begin) * part.z.shape(2) + part.first + r;
}
inline bool has_row(const LowRankRows& part, int row) {
  return row >= part.begin && row < part.begin + part.count;
}

// The sum in double, and what f32 may change. A product's sum is rounded `rank` times, and no partial sum is
// larger than the sum of the products' sizes, up to rounding; so are the sums of pieces. y is rounded once
// for each part, and never larger than all sizes together.
struct LowRankSums {
  std::vector<double> y, tolerance;
};
inline LowRankSums exact_low_rank(const Tensor& y, std::span<const LowRankRows> parts) {
  const int out = y.shape(1);
  LowRankSums sums;
  for (int i = 0; i < y.size(); i++) {
    double sum = y.data<float>()[i], size = std::abs(sum), roundings = 0, tolerance = 0;
    for (const LowRankRows& part : parts) {
      const int row = i / out, rank = part.up.shape(1), pieces = part.z.shape(0);
      if (!has_row(part, row)) continue;
      double products = 0;
      for (int r = 0; r < rank; r++)
        for (int p = 0; p < pieces; p++) {
          const double product = double{part.scale} * part.up.data<float>()[i % out * rank + r] *
                                 low_rank_z(part, row, r)[p * part.count * part.z.shape(2)];
          sum += product;
          products += std::abs(product);
        }
      size += products;
      tolerance += (rank + pieces - 1) * products;
      roundings++;
    }
    sums.y.push_back(sum);
    sums.tolerance.push_back((tolerance + roundings * size) * kUlp * 1.01);
  }
  return sums;
}

// The bits that the header promises.
inline std::vector<float> promised_low_rank(const Tensor& y, std::span<const LowRankRows> parts) {
  const int out = y.shape(1);
  std::vector<float> sums = to_vector(y);
  for (const LowRankRows& part : parts)
    for (int i = part.begin * out; i < (part.begin + part.count) * out; i++) {
      const int rank = part.up.shape(1);
      float acc = 0;
      for (int r = 0; r < rank; r++) {
        const float* pieces = low_rank_z(part, i / out, r);
        float z = *pieces;
        for (int p = 1; p < part.z.shape(0); p++) z += pieces[p * part.count * part.z.shape(2)];
        acc = std::fma(part.up.data<float>()[i % out * rank + r], z, acc);
      }
      float& sum = sums[static_cast<size_t>(i)];
      sum = std::fma(part.scale, acc, sum);
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
    for (const LowRankRows& part : parts) untouched &= !has_row(part, row);
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

// Parts that have columns of z of others beside them, and whose z is in pieces.
inline void expect_low_rank_of_columns_and_pieces(Device& device) {
  Rng rng(24);
  for (const int rank : {1, 5, 16, 130})
    for (const auto& [pieces, columns] : {std::pair{1, 3}, {2, 0}, {12, 4}}) {
      const Tensor y = random_tensor({11, 70}, rng);
      const std::vector parts = {low_rank_part(y, rank, 2, 7, 0.7f, rng, pieces, columns),
                                 low_rank_part(y, 3, 4, 7, 1.5f, rng, 5 - pieces % 5, 1)};
      expect_low_rank(device, y, parts, fmt::format("rank {}, {} pieces", rank, pieces));
    }
}

// Outputs of unequal widths with parts of their own, some without: each is as it is alone.
inline void expect_low_rank_of_outputs(Device& device) {
  Rng rng(25);
  for (const int rows : {1, 9, 70}) {
    SCOPED_TRACE(rows);
    std::vector<Tensor> y;
    std::vector<std::vector<LowRankRows>> parts;
    for (const int out : {130, 64, 1, 200, 77}) {
      const size_t m = y.size();
      y.push_back(random_tensor({rows, out}, rng));
      parts.emplace_back();
      for (int i = 0; i < rows && m != 1; i += 3)
        parts[m].push_back(low_rank_part(y[m], 2 + (i + static_cast<int>(m)) % 7, i, std::min(2, rows - i),
                                         0.5f, rng, 1 + i % 2, 1));
    }
    std::vector<LowRankOutput> together;
    for (size_t m = 0; m < y.size(); m++) together.push_back(low_rank_output(device, y[m], parts[m]));
    add_low_rank(together);
    for (size_t m = 0; m < y.size(); m++)
      EXPECT_TRUE(bits_agree(to_vector(together[m].y), promised_low_rank(y[m], parts[m]))) << m;
  }
}

// Products with one input, and what is added to them.
struct ProductsWithParts {
  ProductsWithParts(Device& device, int rows, Rng& rng)
      : device(device), x(device.to_device(random_tensor({rows, kInputs}, rng))) {}

  // kind: of the matrix. A card multiplies those of one format together.
  void add(int out, WeightKind kind, const std::vector<LowRankRows>& own) {
    weights.push_back(std::make_unique<Weight>(
        Weight::make(device, dense_matrix(out, kInputs, kind, static_cast<unsigned>(out)).source())));
    parts.push_back(own);
  }
  LowRankProduct product(size_t i) const {
    LowRankProduct of{weights[i].get(), {}};
    for (LowRankRows part : parts[i]) {
      part.z = device.to_device(part.z), part.up = device.to_device(part.up);
      of.parts.push_back(part);
    }
    return of;
  }
  // The bits that are promised for the product's number i.
  std::vector<float> promised(size_t i, const Tensor* residual = nullptr) const {
    const MatmulInput packed = pack(x);
    const Tensor y = residual ? linear_add(packed, *weights[i], *residual) : linear(packed, *weights[i]);
    return promised_low_rank(to_host(y), parts[i]);
  }

  static constexpr int kInputs = 200;
  Device& device;
  Tensor x;
  std::vector<std::unique_ptr<Weight>> weights;
  std::vector<std::vector<LowRankRows>> parts;
};

// Products of few rows and of many, with few parts and with more than a block holds, some without; alone with
// a residual; gate and up with their activation.
inline void expect_low_rank_of_products(Device& device) {
  Rng rng(26);
  for (const auto& [rows, most, rank] : {std::tuple{1, 1, 16},
                                         {2, 9, 3},
                                         {8, 5, 8},
                                         {9, 40, 5},
                                         {16, 3, 21},
                                         {16, 3, 22},
                                         {16, 8, 9},
                                         {17, 2, 4}}) {
    SCOPED_TRACE(fmt::format("{} rows, {} parts of rank {}", rows, most, rank));
    ProductsWithParts products(device, rows, rng);
    const auto parts_of = [&](int out, int count) {
      std::vector<LowRankRows> parts;
      const Tensor y = random_tensor({rows, out}, rng);
      for (int i = 0; i < count; i++) {
        const int begin = count < 4 ? 0 : i % rows, end = count < 4 ? rows : std::min(rows, begin + i % 4);
        parts.push_back(
            low_rank_part(y, rank, begin, end - begin, i % 2 ? 1.0f : -0.3f, rng, 1 + i % 4, i % 3));
      }
      return parts;
    };
    products.add(70, WeightKind::f32, parts_of(70, most));
    products.add(33, WeightKind::bf16, parts_of(33, 1));
    products.add(70, WeightKind::f32, {});
    products.add(5, WeightKind::f32, parts_of(5, most));
    std::vector<LowRankProduct> all;
    for (size_t i = 0; i < 4; i++) all.push_back(products.product(i));
    for (const MatmulInput& x : {MatmulInput(products.x), pack(products.x)}) {
      const auto y = linear_low_rank(x, all);
      ASSERT_EQ(y.size(), 4u);
      for (size_t i = 0; i < 4; i++) EXPECT_TRUE(bits_agree(to_vector(y[i]), products.promised(i))) << i;
    }
    const MatmulInput x = pack(products.x);
    const Tensor residual = device.to_device(random_tensor({rows, 70}, rng));
    EXPECT_TRUE(bits_agree(to_vector(linear_low_rank(x, {&all[0], 1}, &residual).front()),
                           products.promised(0, &residual)));
    const Weight last = Weight::make(device, dense_matrix(64, 70, WeightKind::f32, 9).source());
    for (const auto& [gate, up] : {std::pair<size_t, size_t>{0, 0}, {0, 2}, {2, 0}, {2, 2}})
      for (const auto activation : {Activation::silu, Activation::gelu_tanh}) {
        const auto sums = [&](size_t i) {
          return device.to_device(to_tensor(products.promised(i), {rows, 70}));
        };
        const MatmulInput got = linear_low_rank_swiglu(x, all[gate], all[up], activation),
                          want = pack(swiglu(sums(gate), sums(up), activation));
        ASSERT_EQ(got.packed, want.packed);
        ASSERT_EQ(got.values.shape(), want.values.shape());
        // By a product, because only the rows themselves are defined.
        expect_same_bits(linear(got, last), linear(want, last), fmt::format("{}, {}", gate, up));
      }
  }
}

// Parts of several ranks that overlap, that have no rows, and more than one launch of a card takes.
inline void expect_low_rank_of_many_parts(Device& device) {
  Rng rng(22);
  const Tensor y = random_tensor({40, 70}, rng);
  std::vector<LowRankRows> parts;
  for (int i = 0; i < 150; i++)
    parts.push_back(
        low_rank_part(y, 1 + i % 7, (7 * i + 9) % 31, i % 5 == 4 ? 0 : 1 + i % 9, i % 2 ? 1.0f : 0.3f, rng));
  for (const size_t count : {0, 1, 2, 5, 64, 65, 150})
    expect_low_rank(device, y, {parts.data(), count}, fmt::format("{} parts", count));
  for (LowRankRows& part : parts) part = low_rank_part(y, 3, 7, 0, 1.0f, rng);
  expect_low_rank(device, y, parts, "no rows");
}

// A sum that depends on the order: -1e8 + 1e8 + 1 is 1, but -1e8 + 1 + 1e8 is 0.
inline void expect_low_rank_in_order(Device& device) {
  const LowRankRows large{to_tensor({1}, {1, 1, 1}), to_tensor({1e8f}, {1, 1}), 1, 0, 1},
      small{to_tensor({1}, {1, 1, 1}), to_tensor({1}, {1, 1}), 1, 0, 1};
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
      if (has_row(part, row)) {
        const Tensor z = part.z.reshape({part.count, part.z.shape(2)});
        own.push_back({z.slice_rows(row - part.begin, row - part.begin + 1).reshape({1, 1, z.shape(1)}),
                       part.up, part.scale, 0, 1});
      }
    expect_same_bits(add_low_rank_on(device, y.slice_rows(row, row + 1), own), whole.slice_rows(row, row + 1),
                     fmt::format("row {}", row));
  }
}

// Down-projections of some rows by several matrices: near the sums in double, and each row's bits the same
// alone, among others, and beside other parts.
inline void expect_low_rank_downs(Device& device) {
  Rng rng(26);
  struct Case {
    int rows, inputs;
    std::vector<std::tuple<int, int, int>> parts;  // columns, begin, count
  };
  for (const Case& c :
       {Case{1, 64, {{16, 0, 1}}}, Case{3, 96, {{7, 0, 1}, {40, 2, 1}}},
        Case{9, 1100, {{17, 1, 3}, {3, 1, 8}, {64, 5, 2}}}, Case{40, 2100, {{5, 3, 13}, {9, 0, 40}}},
        Case{70, 1030, {{20, 1, 69}, {1, 30, 2}}}}) {
    SCOPED_TRACE(::testing::Message() << c.rows << " rows of " << c.inputs);
    // Numbers that bf16 has, so that products are exact.
    const auto numbers = [&](const Shape& shape) {
      Tensor x = random_tensor(shape, rng);
      for (int i = 0; i < x.size(); i++)
        x.data<float>()[i] = bf16_to_float(float_to_bf16(x.data<float>()[i]));
      return x;
    };
    const Tensor x = numbers({c.rows, c.inputs});
    std::vector<Matrix> matrices;
    std::vector<Weight> weights;
    std::vector<LowRankDown> parts;
    for (const auto& [columns, begin, count] : c.parts) {
      matrices.push_back(dense_matrix(columns, c.inputs, WeightKind::f32, static_cast<unsigned>(columns)));
      weights.push_back(Weight::make(device, matrices.back().source()));
    }
    for (size_t i = 0; i < c.parts.size(); i++)
      parts.push_back({&weights[i], std::get<1>(c.parts[i]), std::get<2>(c.parts[i])});
    const auto downs = low_rank_down(device.to_device(x), parts);
    for (size_t i = 0; i < parts.size(); i++) {
      const auto& [columns, begin, count] = c.parts[i];
      const auto sum_of = [&, columns = columns](const Tensor& z, int row) {
        std::vector<float> sums;
        for (int o = 0; o < columns; o++) {
          const int rows = z.shape(1);
          float sum = 0;
          for (int p = 0; p < z.shape(0); p++) {
            const float piece = z.data<float>()[(p * rows + row) * columns + o];
            sum = p == 0 ? piece : sum + piece;
          }
          sums.push_back(sum);
        }
        return sums;
      };
      const Tensor z = to_host(downs[i]);
      ASSERT_EQ(z.shape(), Shape({z.shape(0), count, columns}));
      for (int row = 0; row < count; row++) {
        std::vector<double> want, tolerance;
        for (int o = 0; o < columns; o++) {
          double sum = 0, size = 0;
          for (int k = 0; k < c.inputs; k++) {
            const double product = double{x.data<float>()[(begin + row) * c.inputs + k]} *
                                   matrices[i].values[static_cast<size_t>(o * c.inputs + k)];
            sum += product, size += std::abs(product);
          }
          want.push_back(sum);
          tolerance.push_back(size * (c.inputs * kUlp + 1.0 / (1 << 15)));  // a card's weights have 16 bits
        }
        const auto sums = sum_of(z, row);
        EXPECT_TRUE(within(sums, want, tolerance)) << "part " << i << ", row " << row;
      }
      for (const int row : {0, count / 2, count - 1}) {
        const LowRankDown alone{&weights[i], 0, 1};
        const auto one =
            low_rank_down(device.to_device(x.slice_rows(begin + row, begin + row + 1)), {&alone, 1});
        EXPECT_TRUE(bits_agree(sum_of(to_host(one[0]), 0), sum_of(z, row)))
            << "part " << i << ", row " << row;
      }
    }
  }
}

}  // namespace anabranch::ops
