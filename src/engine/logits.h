// The logits of a pass. Greedy requests need only the best token of each row, which a GPU finds in less time
// than it takes to copy the row to the host.
#pragma once

#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ops/elementwise.h"
#include "tensor/device.h"

namespace anabranch {

class Logits {
 public:
  // rows [n, vocab]. best_only: row() will probably not be called.
  Logits(Tensor rows, bool best_only) : rows_(std::move(rows)) {
    if (best_only)
      best_ = ops::best_of_rows(rows_);
    else
      fetch();
  }

  // The greedy token of row i; -1: not known, use row(i).
  int best(size_t i) const { return best_.empty() ? -1 : best_[i]; }
  // The first call copies all rows to the host, and throws if that fails. May be called from any thread.
  std::span<const float> row(size_t i) {
    std::lock_guard lock(mutex_);
    fetch();
    const auto vocab = static_cast<size_t>(rows_.shape(1));
    return {rows_.data<float>() + i * vocab, vocab};
  }
  bool fetched() const { return fetched_; }

 private:
  void fetch() {
    if (!fetched_) rows_ = to_host(rows_);
    fetched_ = true;
  }

  Tensor rows_;
  std::vector<int> best_;  // by row, or empty
  std::mutex mutex_;
  bool fetched_ = false;
};

}  // namespace anabranch
