#include "models/ranks.h"

#include <exception>
#include <mutex>

#include "ops/collective.h"

namespace anabranch {

Ranks::Ranks(std::vector<Rank> ranks, std::vector<int> owners)
    : ranks_(std::move(ranks)), owners_(std::move(owners)) {
  if (count() > 1) threads_ = std::make_unique<ThreadPool>(count(), true);  // ranks wait for each other
}

void Ranks::drop_layers(std::span<const int> layers) {
  const auto drop = [&](auto& from) {
    for (auto at = layers.rbegin(); at != layers.rend(); ++at) from.erase(from.begin() + *at);
  };
  for (Rank& rank : ranks_)
    if (!rank.layers.empty()) drop(rank.layers);
  if (in_turns()) drop(owners_);
}

Tensor Ranks::run(const RanksPass& pass) const {
  Tensor out;
  on_all([&](int rank) {
    device(rank).begin_pass();
    const Tensor x = in_turns() ? run_turns(rank, pass) : run_shares(rank, pass);
    if (rank == 0) out = x;
  });
  return out;
}

// Each rank has the whole residual stream between layers.
Tensor Ranks::run_shares(int rank, const RanksPass& pass) const {
  const int first_part = rank * pass.parts_of_rank;
  const Tensor first = rank == 0 ? pass.embed() : Tensor();
  Tensor x = device(rank).collective()->broadcast(rank == 0 ? &first : nullptr, 0,
                                                  {static_cast<int>(pass.batch.ids.size()), pass.hidden});
  for (const int i : pass.layers) {
    const auto layer = static_cast<size_t>(i);
    x = layers(rank)[layer](x, pass.batch, first_part + pass.parts[layer]);
    if (i < pass.deep_layers) {
      const Tensor sum = rank == 0 ? pass.add_deep(x, i) : Tensor();
      x = device(rank).collective()->broadcast(rank == 0 ? &sum : nullptr, 0, x.shape());
    }
    if (pass.after_layer && rank == 0) pass.after_layer(x);
  }
  return x;
}

// The layers of one rank run while the other ranks wait for the result.
Tensor Ranks::run_turns(int rank, const RanksPass& pass) const {
  ops::Collective& group = *device(rank).collective();
  Tensor x = rank == 0 ? pass.embed() : Tensor();
  int holder = 0;
  const auto move_on = [&] {
    x = group.broadcast(rank == holder ? &x : nullptr, holder,
                        {static_cast<int>(pass.batch.ids.size()), pass.hidden});
  };
  for (const int i : pass.layers) {
    const auto layer = static_cast<size_t>(i);
    const int owner = owners_[layer];
    if (owner != holder && !pass.after_layer) move_on();
    holder = owner;
    if (rank == owner) x = layers()[layer](x, pass.batch, pass.parts[layer]);
    if (i < pass.deep_layers) {
      if (holder != 0) move_on();
      if (rank == 0) x = pass.add_deep(x, i);
      holder = 0;
    }
    if (!pass.after_layer) continue;
    move_on();
    if (rank == 0) pass.after_layer(x);
  }
  if (holder != 0 && !pass.after_layer) move_on();
  return x;
}

// Kernels wait for other devices and occupy their own meanwhile: two models that are split among the same
// devices would deadlock. So if another such model exists, a pass ends before a pass of the other begins.
void Ranks::on_all(const std::function<void(int rank)>& run) const {
  static std::mutex turn;
  std::unique_lock<std::mutex> lock(turn, std::defer_lock);
  for (int rank = 0; rank < count() && !lock; rank++)
    if (!device(rank).collective()->alone()) lock.lock();
  std::vector<std::exception_ptr> errors(ranks_.size());
  const auto run_rank = [&](int rank) {
    try {
      run(rank);
      if (lock) device(rank).synchronize();
    } catch (...) {
      errors[static_cast<size_t>(rank)] = std::current_exception();
      device(rank).collective()->abort();
    }
  };
  threads_->parallel_for(count(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t rank = begin; rank < end; rank++) run_rank(static_cast<int>(rank));
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace anabranch
