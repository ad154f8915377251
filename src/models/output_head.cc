#include "models/output_head.h"

#include "base/check.h"
#include "models/family.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch {

Tensor OutputHead::logits(const Tensor& hidden, const Ranks& ranks) const {
  const bool shared = !shares_.empty() && hidden.shape(0) <= ops::kFewRows;
  return scaled_and_capped(shared ? logits_of_shares(hidden, ranks) : ops::linear(hidden, weight_), bias_);
}

Tensor OutputHead::draft_logits(const Tensor& hidden, const Ranks& ranks) const {
  return draft_rows_ ? scaled_and_capped(ops::linear(hidden, *draft_rows_), draft_bias_)
                     : logits(hidden, ranks);
}

Tensor OutputHead::scaled_and_capped(const Tensor& products, const std::optional<Tensor>& bias) const {
  const Tensor biased = bias ? ops::add_bias(products, *bias) : products;
  const Tensor logits = scale_ == 1 ? biased : ops::scale(biased, scale_);
  return soft_cap_ > 0 ? ops::soft_cap(logits, soft_cap_) : logits;
}

// The result of an exchange is valid for only a few exchanges, so the logits are copied.
Tensor OutputHead::logits_of_shares(const Tensor& hidden, const Ranks& ranks) const {
  Tensor out;
  ranks.on_all([&](int rank) {
    ops::Collective& group = *ranks.device(rank).collective();
    const Tensor x = group.broadcast(rank == 0 ? &hidden : nullptr, 0, hidden.shape());
    const Tensor own = ops::linear(x, shares_[static_cast<size_t>(rank)]),
                 y = group.gather_columns(own, split_, nullptr);
    if (rank == 0) out = ops::copy_rows(y, 0, y.shape(0));
  });
  return out;
}

void OutputHead::set_draft_vocab(Device& device, const WeightSource& rows, const std::vector<int>& vocab) {
  std::vector<int64_t> chosen;
  for (const int id : vocab) {
    CHECK(id >= 0 && (chosen.empty() || id > chosen.back()), "draft vocabulary: {} is not ascending", id);
    if (id < rows.rows) chosen.push_back(id);
  }
  draft_rows_.reset();
  draft_bias_.reset();
  draft_vocab_.clear();
  if (chosen.empty() || static_cast<int64_t>(chosen.size()) == rows.rows) return;
  draft_rows_ = ops::Weight::make(device, select_rows(rows, chosen));
  draft_vocab_.assign(chosen.begin(), chosen.end());
  if (!bias_) return;
  const Tensor all = to_host(*bias_);
  Tensor some = host_device().empty({static_cast<int>(chosen.size())}, Dtype::f32);
  for (size_t i = 0; i < chosen.size(); i++) some.data<float>()[i] = all.data<float>()[chosen[i]];
  draft_bias_ = device.to_device(some);
}

void OutputHead::share(const Ranks& ranks, const WeightSource& rows) {
  const int count = static_cast<int>(rows.rows), units = count / kSharedColumns;
  if (count % kSharedColumns != 0 || units < ranks.count()) return;
  split_ = ops::split_units(units, kSharedColumns, ranks.count());
  for (int rank = 0; rank < ranks.count(); rank++) {
    std::vector<int64_t> own;
    append_rows(own, split_.first(rank), split_.last(rank));
    shares_.push_back(ops::Weight::make(ranks.device(rank), select_rows(rows, own)));
  }
}

}  // namespace anabranch
