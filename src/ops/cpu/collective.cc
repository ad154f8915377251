#include "ops/cpu/collective.h"

#include <algorithm>

#include "base/check.h"
#include "ops/meeting.h"

namespace anabranch::ops::cpu {
namespace {

class CpuCollective final : public Collective {
 public:
  CpuCollective(Device& device, std::shared_ptr<Meeting> meeting, int rank, int ranks)
      : Collective(rank, ranks), device_(device), meeting_(std::move(meeting)) {}

  MatmulInput gather_inputs(const MatmulInput& own, const Split& columns) override {
    CHECK(!own.packed, "the CPU's rows are not packed");
    return gather_columns(own.values, columns, nullptr);
  }

  Tensor gather_columns(const Tensor& own, const Split& columns, const Tensor* residual) override {
    const int rows = own.shape(0), all = columns.all();
    CHECK(own.shape(1) == columns.size(rank()), "rank {} has {} of {} columns", rank(), own.shape(1), all);
    // May throw, so it comes before the others look at this rank.
    Tensor out = device_.empty({rows, all}, Dtype::f32);
    meeting_->show(rank(), &own);
    for (int r = 0; r < ranks(); r++) copy_columns(meeting_->of<Tensor>(r), columns, r, out);
    meeting_->wait();
    if (residual)
      for (int64_t i = 0; i < out.size(); i++) out.data<float>()[i] += residual->data<float>()[i];
    return out;
  }

  Tensor broadcast(const Tensor* x, int root, const Shape& shape) override {
    Tensor out = device_.empty(shape, Dtype::f32);
    meeting_->show(rank(), x);
    const Tensor& from = meeting_->of<Tensor>(root);
    CHECK(from.shape() == shape, "{} was expected of rank {}, not {}", shape, root, from.shape());
    std::copy_n(from.data<float>(), from.size(), out.data<float>());
    meeting_->wait();
    return out;
  }

  void abort() override { meeting_->abort(); }

 private:
  static void copy_columns(const Tensor& from, const Split& columns, int rank, Tensor& to) {
    const int count = columns.size(rank);
    CHECK(from.shape(0) == to.shape(0) && from.shape(1) == count, "rank {} shows {}", rank, from.shape());
    for (int64_t row = 0; row < to.shape(0); row++)
      std::copy_n(from.data<float>() + row * count, count,
                  to.data<float>() + row * columns.all() + columns.first(rank));
  }

  Device& device_;
  std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::shared_ptr<Collective>> make_collectives(std::span<Device* const> devices) {
  const int ranks = static_cast<int>(devices.size());
  const auto meeting = std::make_shared<Meeting>(ranks);
  std::vector<std::shared_ptr<Collective>> out;
  for (int r = 0; r < ranks; r++)
    out.push_back(std::make_shared<CpuCollective>(*devices[static_cast<size_t>(r)], meeting, r, ranks));
  return out;
}

}  // namespace anabranch::ops::cpu
