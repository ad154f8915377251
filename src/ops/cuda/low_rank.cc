#include "ops/cuda/low_rank.h"

#include <algorithm>

#include "ops/cuda/linear.h"
#include "ops/cuda/weight.h"

namespace anabranch::ops::cuda {
namespace {

constexpr unsigned kDownThreads = 256;
// Of a part with more rows, a block adds up all pieces: there are enough blocks.
constexpr int kMostSplitRows = 32;

// The parts of matrices of one format, launched together.
struct DownLaunch {
  RecordFormat format;
  LowRankDownArgs args;
};

void launch_down(CudaDevice& on, DownLaunch& launch, int most_rows) {
  LowRankDownArgs& args = launch.args;
  const int row_tiles = most_rows <= 8 ? 1 : most_rows <= 16 ? 2 : 4;
  int blocks = 0;
  for (LowRankDownPart& part : std::span(args.part, static_cast<size_t>(args.parts))) {
    part.first = blocks;
    blocks += (part.columns + 15) / 16 * args.pieces * ((part.count + 8 * row_tiles - 1) / (8 * row_tiles));
  }
  on.launch(LowRankDownVariant{launch.format, row_tiles}, "low_rank_down", {static_cast<unsigned>(blocks)},
            kDownThreads, 0, &args);
  args.parts = 0;
}

// The additions to some outputs, launch by launch.
class Additions {
 public:
  Additions(CudaDevice& on, std::span<LowRankOutput> outputs) : on_(on), outputs_(outputs) {
    args_.outputs = static_cast<int>(outputs.size());
    for (size_t m = 0; m < outputs.size(); m++) {
      const Tensor& y = outputs[m].y;
      args_.output[m] = {on.data(y, kOp), y.shape(1), panels_, 0, 0};
      panels_ += (y.shape(1) + kLowRankThreads - 1) / kLowRankThreads;
    }
  }

  // Takes each output's next parts, as many as a launch has room for. -> whether that were all of them.
  bool take() {
    int waiting = 0;  // outputs with parts that were not taken
    for (size_t m = 0; m < outputs_.size(); m++) waiting += next_[m] < outputs_[m].parts.size();
    const int most = kLowRankParts / std::max(waiting, 1);
    int parts = 0;
    bool all = true;
    args_.first_row = outputs_.front().y.shape(0);
    args_.end_row = 0;
    for (size_t m = 0; m < outputs_.size(); m++) {
      const auto& of = outputs_[m].parts;
      args_.output[m].first_part = parts;
      size_t& next = next_[m];
      for (int taken = 0; next < of.size() && taken < most; next++)
        if (of[next].count > 0) add(of[next], args_.part[parts++]), taken++;
      args_.output[m].end_part = parts;
      all &= next == of.size();
    }
    return all;
  }
  bool empty() const { return args_.end_row == 0; }

  void launch() { launch(panels_); }
  // Also computes the activation of two outputs of one shape, for all rows.
  MatmulInput launch_swiglu(Activation activation) {
    const Tensor& y = outputs_.front().y;
    MatmulInput out = make_packed_cleared(on_, y.shape(0), y.shape(1));
    if (y.empty()) return out;
    args_.tiles = on_.data<unsigned short>(out.values, kOp);
    args_.tiles_rows = layout_rows(y.shape(0));
    args_.gelu = activation != Activation::silu;
    args_.first_row = 0;
    args_.end_row = y.shape(0);
    args_.outputs = 1;  // a block computes both
    launch(panels_ / 2);
    return out;
  }

 private:
  static constexpr const char* kOp = "add_low_rank";

  void add(const LowRankRows& part, LowRankPart& to) {
    to = {on_.data(part.z, kOp) + part.first,
          on_.data(part.up, kOp),
          part.scale,
          part.up.shape(1),
          part.z.shape(2),
          part.z.shape(0),
          part.begin,
          part.count};
    args_.first_row = std::min(args_.first_row, part.begin);
    args_.end_row = std::max(args_.end_row, part.begin + part.count);
  }
  void launch(int panels) {
    constexpr int kFewRows = 64;
    const int rows = args_.end_row - args_.first_row;
    args_.block_rows = rows <= kFewRows ? 1 : kLowRankRows;
    const auto blocks = static_cast<unsigned>((rows + args_.block_rows - 1) / args_.block_rows);
    on_.launch(Source::low_rank, "add_low_rank", {blocks, static_cast<unsigned>(panels)}, kLowRankThreads, 0,
               &args_);
  }

  CudaDevice& on_;
  std::span<LowRankOutput> outputs_;
  size_t next_[kLowRankOutputs] = {};  // part of each output
  int panels_ = 0;
  LowRankArgs args_{};
};
static_assert(kLowRankOutputs == kMaxLinearWeights);

}  // namespace

std::vector<Tensor> low_rank_down(const MatmulInput& rows, std::span<const LowRankDown> parts) {
  const char* op = "low_rank_down";
  CudaDevice& on = cuda_device(rows.values);
  const MatmulInput x = cuda::pack(rows, nullptr);
  const int input_tiles = (x.inputs + kTileInputs - 1) / kTileInputs;
  int most_rows = 0;
  for (const LowRankDown& part : parts) most_rows = std::max(most_rows, part.count);
  const int all_pieces = (input_tiles + kDownTiles - 1) / kDownTiles;
  const int joined = most_rows <= kMostSplitRows ? 1 : all_pieces, pieces = all_pieces / joined;
  std::vector<DownLaunch> launches;
  std::vector<Tensor> all;
  for (const auto& [down, begin, count] : parts) {
    const int columns = static_cast<int>(down->out_features());
    all.push_back(on.empty({pieces, count, columns}, Dtype::f32));
    if (all.back().empty()) continue;
    const DeviceWeight& w = stored(*down);
    auto at = std::ranges::find(launches, w.format, &DownLaunch::format);
    if (at == launches.end())
      at = launches.insert(
          at,
          {w.format, {on.data<unsigned>(x.values, op), layout_rows(x.rows), input_tiles, joined, pieces}});
    LowRankDownArgs& args = at->args;
    args.part[args.parts++] = {w.memory.get(), on.data(all.back(), op), columns, begin, count, 0};
    if (args.parts == kDownParts) launch_down(on, *at, most_rows);
  }
  for (DownLaunch& launch : launches)
    if (launch.args.parts > 0) launch_down(on, launch, most_rows);
  return all;
}

void add_low_rank(std::span<LowRankOutput> outputs) {
  Additions additions(cuda_device(outputs.front().y), outputs);
  for (bool all = false; !all;) {
    all = additions.take();
    if (!additions.empty()) additions.launch();
  }
}

MatmulInput low_rank_swiglu(std::span<LowRankOutput> outputs, Activation activation) {
  Additions additions(cuda_device(outputs.front().y), outputs);
  while (!additions.take()) additions.launch();
  return additions.launch_swiglu(activation);
}

}  // namespace anabranch::ops::cuda
