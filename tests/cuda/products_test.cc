// Products of few rows, by kernels that the emulator runs on the CPU: rows that blocks normalise for
// themselves give the bits of rows that a kernel has normalised before.
#include "cuda/emulated_card.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/linear.h"
#include "ops/matrices.h"

namespace anabranch::ops {
namespace {

class EmulatedProducts : public EmulatedDevice {
 protected:
  MatmulInput packed(const Tensor& x, const RowNorm* norm) {
    MatmulInput out = cuda::make_packed(card(), x.shape(0), x.shape(1));
    cuda::norm_rows(card(), x, norm, nullptr, &out);
    return out;
  }
  void expect_same_bits(int inputs, int rows, Rng& rng);
  static std::vector<uint8_t> bytes(const Tensor& x) {
    const Tensor host = to_host(x);
    return {host.data<uint8_t>(), host.data<uint8_t>() + host.size()};
  }
};

TEST_F(EmulatedProducts, OfFewRowsAloneAreNormalisedByBlocks) {
  EXPECT_TRUE(cuda::normed_by_blocks(1, 4096));
  EXPECT_FALSE(cuda::normed_by_blocks(2, 4096));
  EXPECT_FALSE(cuda::normed_by_blocks(1, 4097));
  EXPECT_TRUE(cuda::normed_by_blocks(4, 1024));
  EXPECT_FALSE(cuda::normed_by_blocks(5, 1024));
}

void EmulatedProducts::expect_same_bits(int inputs, int rows, Rng& rng) {
  SCOPED_TRACE(::testing::Message() << rows << " rows of " << inputs);
  ASSERT_TRUE(cuda::normed_by_blocks(rows, inputs));
  const int outputs = 100;
  const Matrix four = inputs % 64 ? dense_matrix(outputs, inputs, WeightKind::bf16, 1)
                                  : affine_matrix(outputs, inputs, 4, 64, ScaleType::bf16, false, 1),
               other = dense_matrix(outputs, inputs, WeightKind::f16, 2);
  const Weight a = Weight::make(card(), four.source()), b = Weight::make(card(), other.source());
  const Weight* both[] = {&a, &b};
  const RowNorm norm{card().to_device(random_tensor({inputs}, rng)), 1e-6f};
  const Tensor x = card().to_device(random_tensor({rows, inputs}, rng)),
               residual = card().to_device(random_tensor({rows, outputs}, rng));
  const MatmulInput before = packed(x, &norm), lanes = cuda::make_lanes(card(), rows, inputs, false);
  const auto got = cuda::linear_of_few(x, both, norm, lanes), expected = cuda::linear(before, both, nullptr);
  for (const size_t i : {0, 1}) EXPECT_TRUE(bits_agree(to_vector(got[i]), to_vector(expected[i])));
  EXPECT_EQ(bytes(lanes.values), bytes(before.values));
  EXPECT_EQ(bytes(cuda::linear_swiglu(x, a, a, norm, Activation::silu).values),
            bytes(cuda::linear_swiglu(before, a, a, Activation::silu).values));
  EXPECT_TRUE(bits_agree(to_vector(cuda::linear_add(x, a, residual)),
                         to_vector(cuda::linear_add(packed(x, nullptr), a, residual))));
}

TEST_F(EmulatedProducts, BlocksNormaliseAsKernelsDo) {
  Rng rng(1);
  for (const auto& [inputs, rows] :
       {std::pair{40, 1}, {130, 4}, {640, 2}, {1024, 4}, {1200, 3}, {2048, 2}, {2050, 1}, {4096, 1}})
    expect_same_bits(inputs, rows, rng);
}

TEST_F(EmulatedProducts, ABlockWithManyUnitsDoesToo) {
  fake_cards[0].multiprocessors = 1;
  device_ = ops::cuda::open_cuda(0, 1).value();
  Rng rng(2);
  for (const auto& [inputs, rows] : {std::pair{640, 2}, {1200, 3}}) expect_same_bits(inputs, rows, rng);
}

// Each rank has the inputs of some segments, and sends their sums to all.
TEST_F(EmulatedProducts, SplitByTheirInputsHaveTheSameBits) {
  Rng rng(3);
  const int outputs = 100, inputs = 1024;
  for (const Matrix& matrix : {affine_matrix(outputs, inputs, 4, 64, ScaleType::bf16, false, 1),
                               affine_matrix(outputs, inputs, 8, 32, ScaleType::bf16, false, 2),
                               dense_matrix(outputs, inputs, WeightKind::bf16, 3)}) {
    const Weight whole = Weight::make(card(), matrix.source());
    const Weight* one = &whole;
    for (const int rows : {1, 3, 16}) {
      const Tensor host = random_tensor({rows, inputs}, rng), x = card().to_device(host),
                   residual = card().to_device(random_tensor({rows, outputs}, rng));
      const auto sum = to_vector(cuda::linear(packed(x, nullptr), {&one, 1}, nullptr)[0]),
                 added = to_vector(cuda::linear_add(packed(x, nullptr), whole, residual));
      for (const int ranks : {2, 4, 8}) {
        SCOPED_TRACE(::testing::Message() << rows << " rows, " << ranks << " ranks");
        const int own = inputs / ranks, lines_of = std::max(ranks, cuda::kSegments / 2);
        std::vector<Tensor> lines;  // of each rank
        for (int r = 0; r < ranks; r++)
          lines.push_back(card().zeros({lines_of * rows * outputs, 4}, Dtype::f32));
        float scale = 0;
        for (int rank = 0; rank < ranks; rank++) {
          const Weight columns =
              Weight::make(card(), select_columns(matrix.source(), rank * own, (rank + 1) * own));
          Tensor mine = host_device().empty({rows, own}, Dtype::f32);
          for (int row = 0; row < rows; row++)
            std::copy_n(host.data<float>() + row * inputs + rank * own, own, mine.data<float>() + row * own);
          cuda::SegmentArgs to{{}, ranks, 7};
          for (int r = 0; r < ranks; r++)
            to.lines[r] = card().data<float>(lines[static_cast<size_t>(r)], "test") +
                          4 * lines_of / ranks * rank * rows * outputs;
          scale = cuda::multiply_own_inputs(packed(card().to_device(mine), nullptr), columns, to);
        }
        for (int rank = 0; rank < ranks; rank++)
          for (const bool add : {false, true}) {
            const Tensor out = card().empty({rows, outputs}, Dtype::f32);
            const unsigned well = 0;
            const cuda::AddSegmentsArgs args{card().data<void>(lines[static_cast<size_t>(rank)], "test"),
                                             add ? card().data<float>(residual, "test") : nullptr,
                                             card().data<float>(out, "test"),
                                             &well,
                                             rows * outputs,
                                             lines_of,
                                             scale,
                                             7};
            card().launch({cuda::Source::add_segments, {}}, "add_segments_of_ranks", {3}, 128, 0, &args);
            EXPECT_TRUE(bits_agree(to_vector(out), add ? added : sum));
          }
      }
    }
  }
}

}  // namespace
}  // namespace anabranch::ops
