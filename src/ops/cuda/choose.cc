#include "ops/cuda/choose.h"

#include <algorithm>

#include "base/log.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"

namespace anabranch::ops::cuda {
namespace {

static_assert(kChosen == kMostTopK);
static_assert(static_cast<int>(RowSampling::Kind::none) == kNotHere &&
              static_cast<int>(RowSampling::Kind::greedy) == kGreedy &&
              static_cast<int>(RowSampling::Kind::noise) == kNoise &&
              static_cast<int>(RowSampling::Kind::top_k) == kTopK);

const Variant kChoose = Source::choose;

// The copy to the host runs while later work is submitted.
class TokensOnTheWay final : public ChosenTokens {
 public:
  TokensOnTheWay(CudaDevice& on, Tensor ids)
      : ChosenTokens(std::move(ids)),
        host_(on.empty_host(this->ids().shape(), Dtype::i32)),
        done_(on.context()) {
    if (host_.nbytes() > 0)
      on.context().copy_to_host_later(host_.data<char>(), on.data<void>(this->ids(), "choose_tokens"),
                                      host_.nbytes());
    done_.record();
  }
  // The copy writes to memory that will be reused after this.
  ~TokensOnTheWay() override {
    if (waited_) return;
    try {
      done_.wait();
    } catch (const std::exception& e) {
      log_debug("{}", e.what());
    }
  }
  std::vector<int> wait() override {
    done_.wait();
    waited_ = true;
    return {host_.data<int>(), host_.data<int>() + host_.size()};
  }

 private:
  Tensor host_;
  Event done_;
  bool waited_ = false;
};

}  // namespace

std::unique_ptr<ChosenTokens> choose_tokens(const Tensor& logits, std::span<const RowSampling> rows) {
  const int vocab = logits.shape(1), parts = (vocab + kChoosePart - 1) / kChoosePart;
  CudaDevice& on = cuda_device(logits);
  Tensor ids = on.empty({logits.shape(0)}, Dtype::i32);
  if (rows.empty()) return std::make_unique<TokensOnTheWay>(on, std::move(ids));
  std::vector<ChooseRow> all;
  bool draws = false;
  for (const RowSampling& row : rows) {
    const int kind = static_cast<int>(row.kind);
    draws |= kind == kNoise;
    all.push_back({row.temperature, row.behind_top, row.top_p, kind, row.top_k, row.seed, row.position});
  }
  const auto count = static_cast<unsigned>(rows.size());
  const Block choices = on.upload(all.data(), all.size() * sizeof(ChooseRow)),
              ranks = on.scratch(size_t{count} * parts * kChosen * sizeof(unsigned long long)),
              best = on.scratch(count * sizeof(unsigned long long));
  const ChooseArgs args{on.data(logits, "choose_tokens"),
                        choices.address<ChooseRow>(),
                        ranks.address<unsigned long long>(),
                        best.address<unsigned long long>(),
                        on.data<int>(ids, "choose_tokens"),
                        vocab,
                        parts};
  const Grid by_part{static_cast<unsigned>(parts), count}, by_row{count};
  on.launch(kChoose, "choose_parts", by_part, kChooseThreads, 0, &args);
  on.launch(kChoose, "choose_rows", by_row, kChooseThreads, 0, &args);
  if (draws) {
    on.launch(kChoose, "choose_noise", by_part, kChooseThreads, 0, &args);
    on.launch(kChoose, "choose_drawn", by_row, kChooseThreads, 0, &args);
  }
  return std::make_unique<TokensOnTheWay>(on, std::move(ids));
}

}  // namespace anabranch::ops::cuda
