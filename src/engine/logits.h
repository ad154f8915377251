// The logits of a pass. Most requests need only the token that was chosen from a row, which a GPU finds in
// less time than it takes to copy the row to the host.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tensor/device.h"

namespace anabranch {

class Logits {
 public:
  // rows [n, vocab]. chosen: the token that the device chose from each row by its request's sampling, -1 if
  // it chose none; empty: all rows will be needed.
  Logits(Tensor rows, std::vector<int> chosen)
      : rows_(std::move(rows)), chosen_(std::move(chosen)), host_(static_cast<size_t>(rows_.shape(0))) {
    if (chosen_.empty()) rows_ = fetch(rows_);
  }

  // The token chosen from row i; -1: unknown, use row(i).
  int chosen(size_t i) const { return chosen_.empty() ? -1 : chosen_[i]; }
  // Copies the rows to the host if they are not there yet, and throws if that fails. May be called from any
  // thread.
  std::span<const float> row(size_t i) {
    const auto vocab = static_cast<size_t>(rows_.shape(1));
    std::lock_guard lock(mutex_);
    const int at = static_cast<int>(i);
    if (!host_[i]) host_[i] = fetch(rows_.slice_rows(at, at + 1));
    return {host_[i]->data<float>(), vocab};
  }
  // Whether any row was copied to the host.
  bool fetched() const { return fetched_; }

 private:
  Tensor fetch(const Tensor& rows) {
    fetched_ |= rows.shape(0) > 0;
    return to_host(rows);
  }

  Tensor rows_;
  std::vector<int> chosen_;  // by row, or empty
  std::vector<std::optional<Tensor>> host_;
  std::mutex mutex_;
  bool fetched_ = false;
};

}  // namespace anabranch
