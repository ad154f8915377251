#include "ops/cuda/low_rank.h"

#include <algorithm>

#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"

namespace anabranch::ops::cuda {
namespace {

// Launches the parts in `args`, of which there is at least one, and empties it.
void launch_parts(CudaDevice& on, LowRankArgs& args) {
  constexpr unsigned kThreads = 64;  // few, so that one row of 4096 outputs occupies 64 multiprocessors
  int end = 0;
  args.first_row = args.part[0].begin;
  for (const LowRankPart& part : std::span(args.part, static_cast<size_t>(args.parts))) {
    args.first_row = std::min(args.first_row, part.begin);
    end = std::max(end, part.begin + part.count);
  }
  constexpr unsigned kFewRows = 64;
  const auto rows = static_cast<unsigned>(end - args.first_row), out = static_cast<unsigned>(args.out);
  const unsigned each = rows <= kFewRows ? 1 : kLowRankRows;
  args.block_rows = static_cast<int>(each);
  on.launch(Source::rows, "add_low_rank", {(rows + each - 1) / each, (out + kThreads - 1) / kThreads},
            kThreads, 0, &args);
  args.parts = 0;
}

}  // namespace

void add_low_rank(Tensor& y, std::span<const LowRankRows> parts) {
  const char* op = "add_low_rank";
  CudaDevice& on = cuda_device(y);
  LowRankArgs args{};
  args.y = on.data(y, op);
  args.out = y.shape(1);
  for (const LowRankRows& part : parts) {
    if (part.count == 0) continue;
    args.part[args.parts++] = {on.data(part.z, op), on.data(part.up, op), part.scale,
                               part.z.shape(1),     part.begin,           part.count};
    if (args.parts == kLowRankParts) launch_parts(on, args);
  }
  if (args.parts > 0) launch_parts(on, args);
}

}  // namespace anabranch::ops::cuda
