// The forward pass of a model that several devices share: the work of each device (Model::load() distributes
// the weights).
#include <exception>
#include <mutex>

#include "models/family.h"
#include "models/model.h"
#include "ops/elementwise.h"
#include "ops/linear.h"

namespace anabranch {

void Model::set_ranks(std::vector<Rank> others, std::vector<int> owners) {
  others_ = std::move(others);
  owners_ = std::move(owners);
  if (!others_.empty()) rank_threads_ = std::make_unique<ThreadPool>(ranks());
  lay_out_states();
}

void Model::share_head(const WeightSource& head_rows) {
  const int units = spec_.vocab / kSharedColumns;
  if (spec_.vocab % kSharedColumns != 0 || units < ranks()) return;
  head_split_ = ops::split_units(units, kSharedColumns, ranks());
  for (int rank = 0; rank < ranks(); rank++) {
    std::vector<int64_t> rows;
    append_rows(rows, head_split_.first(rank), head_split_.last(rank));
    head_shares_.push_back(ops::Weight::make(rank_device(rank), select_rows(head_rows, rows)));
  }
}

// Each rank has its share of every layer, and the whole residual stream between them.
Tensor Model::run_shares(int rank, std::span<const int> layers, const Batch& batch,
                         std::vector<Tensor>* after_layer) const {
  const auto& own = rank == 0 ? layers_ : others_[static_cast<size_t>(rank) - 1].layers;
  const int first_part = rank * static_cast<int>(layout_.size()) / ranks();
  const Tensor first = rank == 0 ? embed(batch) : Tensor();
  Tensor x = rank_device(rank).collective()->broadcast(rank == 0 ? &first : nullptr, 0,
                                                       {static_cast<int>(batch.ids.size()), spec_.hidden});
  for (const int i : layers) {
    x = own[static_cast<size_t>(i)](x, batch, first_part + parts_[static_cast<size_t>(i)]);
    if (after_layer && rank == 0) after_layer->push_back(norm_(x));
  }
  return x;
}

// Each rank has all of some layers (pipeline parallelism, one batch at a time): the layers of one rank run
// while the other ranks wait for the result.
Tensor Model::run_turns(int rank, std::span<const int> layers, const Batch& batch,
                        std::vector<Tensor>* after_layer) const {
  ops::Collective& group = *rank_device(rank).collective();
  Tensor x = rank == 0 ? embed(batch) : Tensor();
  int holder = 0;
  const auto move_on = [&] {
    x = group.broadcast(rank == holder ? &x : nullptr, holder,
                        {static_cast<int>(batch.ids.size()), spec_.hidden});
  };
  for (const int i : layers) {
    const int owner = owners_[static_cast<size_t>(i)];
    if (owner != holder && !after_layer) move_on();
    holder = owner;
    if (rank == owner) x = layers_[static_cast<size_t>(i)](x, batch, parts_[static_cast<size_t>(i)]);
    if (!after_layer) continue;
    move_on();
    if (rank == 0) after_layer->push_back(norm_(x));
  }
  if (holder != 0 && !after_layer) move_on();
  return x;
}

// Calls run(rank) for all ranks, on a thread each. When one fails, the others stop waiting for it.
//
// Kernels wait for other devices and occupy their own meanwhile: two models that are split among the same
// devices would deadlock. So if another such model exists, a pass ends before a pass of the other begins.
void Model::on_ranks(const std::function<void(int)>& run) const {
  static std::mutex turn;
  std::unique_lock<std::mutex> lock(turn, std::defer_lock);
  for (int rank = 0; rank < ranks() && !lock; rank++)
    if (!rank_device(rank).collective()->alone()) lock.lock();
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks()));
  const auto run_rank = [&](int rank) {
    try {
      run(rank);
      if (lock) rank_device(rank).synchronize();
    } catch (...) {
      errors[static_cast<size_t>(rank)] = std::current_exception();
      rank_device(rank).collective()->abort();
    }
  };
  rank_threads_->parallel_for(ranks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t rank = begin; rank < end; rank++) run_rank(static_cast<int>(rank));
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

// Rank 0 computes the embeddings and keeps the result of the last layer.
Tensor Model::run_ranks(std::span<const int> layers, const Batch& batch,
                        std::vector<Tensor>* after_layer) const {
  Tensor out;
  on_ranks([&](int rank) {
    rank_device(rank).begin_pass();
    const Tensor x = in_turns() ? run_turns(rank, layers, batch, after_layer)
                                : run_shares(rank, layers, batch, after_layer);
    if (rank == 0) out = x;
  });
  return out;
}

// The result of an exchange is valid for only a few exchanges, so the logits are copied.
Tensor Model::logits_of_ranks(const Tensor& hidden) const {
  Tensor out;
  on_ranks([&](int rank) {
    ops::Collective& group = *rank_device(rank).collective();
    const Tensor x = group.broadcast(rank == 0 ? &hidden : nullptr, 0, hidden.shape());
    const Tensor own = ops::linear(x, head_shares_[static_cast<size_t>(rank)]),
                 y = group.gather_columns(own, head_split_, nullptr);
    if (rank == 0) out = ops::copy_rows(y, 0, y.shape(0));
  });
  return out;
}

}  // namespace anabranch
