// The devices that share a model's layers, and passes through these layers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "nn/decoder_layer.h"

namespace anabranch {

// A device and its share of every layer.
struct Rank {
  Device* device;
  std::vector<nn::DecoderLayer> layers;
};

// A pass of several ranks through some layers.
struct RanksPass {
  std::span<const int> layers;  // ascending
  const Batch& batch;
  int hidden;                     // width of the residual stream
  std::span<const int> parts;     // for each layer of the model: its part of a rank's states
  int parts_of_rank;              // number of parts of a rank's states
  std::function<Tensor()> embed;  // called by rank 0
  // Called by rank 0 behind each of the first deep_layers layers: changes the layer's output.
  int deep_layers;
  std::function<Tensor(const Tensor&, int layer)> add_deep;
  std::function<void(const Tensor&)> after_layer;  // called by rank 0 with each layer's output; may be empty
};

// Rank 0 is the device of the model's other weights. With one device, it has all layers. Several devices
// share layers in one of two ways:
// - Each has its share of every layer (tensor parallelism; ops/collective.h).
// - Each has all of some layers, and they work in turns (pipeline parallelism, one batch at a time). Rank 0
//   then lists the layers of all devices.
class Ranks {
 public:
  // owners: for each layer the rank that has all of it, if ranks work in turns; else empty.
  explicit Ranks(std::vector<Rank> ranks, std::vector<int> owners = {});

  int count() const { return static_cast<int>(ranks_.size()); }
  bool in_turns() const { return !owners_.empty(); }
  Device& device(int rank = 0) const { return *ranks_[static_cast<size_t>(rank)].device; }
  // The rank's shares of all layers. If ranks work in turns, rank 0 lists all layers and the others none.
  const std::vector<nn::DecoderLayer>& layers(int rank = 0) const {
    return ranks_[static_cast<size_t>(rank)].layers;
  }
  // The device that has all of a layer. Only if ranks work in turns.
  Device& owner(size_t layer) const { return device(owners_[layer]); }
  // Removes layers (ascending); those after them move up.
  void drop_layers(std::span<const int> layers);

  // Several ranks: the output of the pass's last layer, on rank 0.
  Tensor run(const RanksPass& pass) const;
  // Several ranks: calls run(rank) for each, on threads of their own. When one fails, the others stop waiting
  // for it.
  void on_all(const std::function<void(int rank)>& run) const;

 private:
  Tensor run_shares(int rank, const RanksPass& pass) const;
  Tensor run_turns(int rank, const RanksPass& pass) const;

  std::vector<Rank> ranks_;
  std::vector<int> owners_;
  std::unique_ptr<ThreadPool> threads_;  // one for each rank; null: there is one rank
};

}  // namespace anabranch
