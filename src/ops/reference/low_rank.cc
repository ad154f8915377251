#include "ops/reference/low_rank.h"

#include <cmath>

#include "tensor/device.h"

namespace anabranch::ops::reference {
namespace {

// The down-projection of a part's rows: [count, rank].
std::vector<float> sum_of_pieces(const LowRankRows& part) {
  const Tensor z = to_host(part.z);
  const int columns = z.shape(2), rank = part.up.shape(1);
  std::vector<float> sums;
  for (int row = 0; row < part.count; row++)
    for (int r = 0; r < rank; r++) {
      const float* at = z.data<float>() + int64_t{row} * columns + part.first + r;
      float sum = *at;
      for (int p = 1; p < z.shape(0); p++) sum += at[int64_t{p} * part.count * columns];
      sums.push_back(sum);
    }
  return sums;
}

}  // namespace

// Plain loops, because MLX's products sum in an order of their own. Waits for the operands.
void add_low_rank(std::span<LowRankOutput> outputs) {
  for (auto& [y, parts] : outputs) {
    Tensor sums = to_host(y);
    const int out = y.shape(1);
    for (const LowRankRows& part : parts) {
      const std::vector<float> z = sum_of_pieces(part);
      const Tensor up = to_host(part.up);
      const int rank = up.shape(1);
      for (int row = 0; row < part.count; row++) {
        const float* from = z.data() + int64_t{row} * rank;
        float* to = sums.data<float>() + int64_t{part.begin + row} * out;
        for (int o = 0; o < out; o++) {
          const float* weights = up.data<float>() + int64_t{o} * rank;
          float acc = 0;
          for (int r = 0; r < rank; r++) acc = std::fma(weights[r], from[r], acc);
          to[o] = std::fma(part.scale, acc, to[o]);
        }
      }
    }
    y = y.device().to_device(sums);
  }
}

}  // namespace anabranch::ops::reference
