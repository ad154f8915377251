// The residual stream as several streams: against the reference, the same bits for every instruction set and
// number of threads, and each row alone.
#include "ops/streams.h"

#include "ops/elementwise.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

struct Streams {
  int count, width;
};
// Widths that fill the lanes and widths that do not.
constexpr Streams kStreams[] = {{2, 64}, {4, 48}, {3, 33}, {5, 7}, {4, 300}};

struct Inputs {
  Tensor x, gates, y, weights, factors;
};

Inputs make_inputs(const Streams& s, int rows, Rng& rng) {
  const int all = s.count * s.width;
  return {random_tensor({rows, all}, rng), random_tensor({rows, all}, rng, 3),
          random_tensor({rows, s.width}, rng), random_tensor({rows, s.count}, rng, 3),
          random_tensor({all}, rng)};
}

// The results of all four ops for rows [begin, end).
std::vector<Tensor> run(Device& device, const Streams& s, const Inputs& in, int begin, int end) {
  const auto rows = [&](const Tensor& x) { return device.to_device(x.slice_rows(begin, end)); };
  return {norm_streams(rows(in.x), device.to_device(in.factors), 1e-6f, s.count),
          mix_streams(rows(in.x), rows(in.gates), s.count),
          add_to_streams(rows(in.x), rows(in.y), rows(in.weights)),
          gate_streams(rows(in.x), rows(in.gates), rows(in.y), s.count)};
}

TEST(Streams, EqualReference) {
  Rng rng(1);
  for (const Streams& s : kStreams) {
    const Inputs in = make_inputs(s, 9, rng);
    const auto got = run(cpu_device(), s, in, 0, 9), want = run(reference_device(), s, in, 0, 9);
    for (size_t op = 0; op < got.size(); op++)
      expect_close(got[op], want[op], 1e-5, fmt::format("op {}, {} streams of {}", op, s.count, s.width));
  }
}

TEST(Streams, SameBitsForEveryTargetThreadsAndRowsAlone) {
  Rng rng(2);
  for (const Streams& s : kStreams) {
    const int rows = 70;
    const Inputs in = make_inputs(s, rows, rng);
    const auto want = run(cpu_device(1), s, in, 0, rows);
    for (const auto& target : cpu::runnable_targets())
      for (const int threads : {1, 2}) {
        const auto got = run(cpu_device(threads, false, target), s, in, 0, rows);
        for (size_t op = 0; op < got.size(); op++)
          expect_same_bits(got[op], want[op], fmt::format("{}: op {}", target, op));
      }
    for (const int row : {0, 31, 69}) {
      const auto alone = run(cpu_device(), s, in, row, row + 1);
      for (size_t op = 0; op < alone.size(); op++)
        expect_same_bits(alone[op], want[op].slice_rows(row, row + 1), fmt::format("row {}, op {}", row, op));
    }
  }
}

// By hand: two streams of two values.
TEST(Streams, AddsAndMixesEachStream) {
  for (Device* device : cpu_and_reference()) {
    const auto on = [&](std::vector<float> v, const Shape& shape) {
      return device->to_device(to_tensor(v, shape));
    };
    const Tensor x = on({1, 2, 10, 20}, {1, 4});
    // sigmoid(0) is a half, and of a large number 1.
    EXPECT_EQ(to_vector(mix_streams(x, on({0, 0, 80, 80}, {1, 4}), 2)), (std::vector<float>{5.25f, 10.5f}));
    EXPECT_EQ(to_vector(add_to_streams(x, on({3, 5}, {1, 2}), on({0, 160}, {1, 2}))),
              (std::vector<float>{4, 7, 16, 30}));
    // Keys and queries that are orthogonal gate by a half, opposite ones close the gate.
    const Tensor gated =
        gate_streams(on({1, 0, 90000, 0}, {1, 4}), on({0, 1, -90000, 0}, {1, 4}), on({3, 5}, {1, 2}), 2);
    const auto values = to_vector(gated);
    EXPECT_NEAR(values[0], 1.5f, 1e-6);
    EXPECT_NEAR(values[1], 2.5f, 1e-6);
    EXPECT_NEAR(values[2], 0, 1e-6);
  }
}

TEST(Streams, RefuseWrongShapes) {
  Device& cpu = cpu_device();
  const auto zeros = [&](const Shape& shape) { return cpu.zeros(shape, Dtype::f32); };
  EXPECT_THROW(norm_streams(zeros({1, 7}), zeros({7}), 1e-6f, 2), std::invalid_argument);
  EXPECT_THROW(norm_streams(zeros({1, 8}), zeros({4}), 1e-6f, 2), std::invalid_argument);
  EXPECT_THROW(mix_streams(zeros({1, 8}), zeros({1, 4}), 2), std::invalid_argument);
  EXPECT_THROW(add_to_streams(zeros({2, 8}), zeros({2, 4}), zeros({1, 2})), std::invalid_argument);
  EXPECT_THROW(gate_streams(zeros({1, 8}), zeros({1, 8}), zeros({1, 8}), 2), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
