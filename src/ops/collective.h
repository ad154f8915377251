// Several devices that each hold a share of one model's matrices (tensor parallelism; Shoeybi et al. 2019,
// "Megatron-LM"), and the data that they exchange.
//
// Every product is split by its outputs: heads, intermediate units, columns of the residual stream. Between
// products the activations are gathered. So no sum is split, and a number has the same bits for any number of
// devices. For few rows a product may be split by its inputs instead, if a rank's inputs are whole segments
// of a dot product: every rank receives the sums of all segments, and adds them in their order.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/matmul_input.h"
#include "ops/weight.h"
#include "tensor/device.h"

namespace anabranch::ops {

constexpr int kMostRanks = 8;
// Batches with at most this many rows (as in decoding) may be multiplied with a different split of a matrix.
constexpr int kFewRows = 16;

// Rank r has columns [begin[r], begin[r + 1]) of a row.
struct Split {
  std::vector<int> begin;
  int all() const { return begin.back(); }
  int first(int rank) const { return begin[static_cast<size_t>(rank)]; }
  int last(int rank) const { return begin[static_cast<size_t>(rank) + 1]; }
  int size(int rank) const { return last(rank) - first(rank); }
};
// Splits `units` units of `size` columns as evenly as possible; each rank gets at least one if there are
// enough.
Split split_units(int units, int size, int ranks);

// One rank's end of a group. Each rank calls the same functions in the same order, with the same shapes, on a
// thread of its own; a call may wait for the others on the host or on the device.
//
// Errors: std::runtime_error when the group was aborted.
class Collective {
 public:
  Collective(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // own: this rank's columns of the input of a product -> all columns.
  virtual MatmulInput gather_inputs(const MatmulInput& own, const Split& columns) = 0;
  // own [M, columns.size(rank)] f32 -> [M, columns.all()], plus residual of that shape if it is not null.
  virtual Tensor gather_columns(const Tensor& own, const Split& columns, const Tensor* residual) = 0;
  // Whether multiply_own_inputs() supports inputs that are split among the ranks as in `columns`.
  virtual bool splits_inputs(const Split& /*columns*/) const { return false; }
  // own: this rank's inputs, of at most kFewRows rows; weight [N, own inputs] -> [M, N], the whole product,
  // plus residual of that shape if it is not null. The same bits as gather_inputs() and linear().
  virtual Tensor multiply_own_inputs(const MatmulInput& own, const Weight& weight, const Tensor* residual);
  // x [M, N] f32 on rank `root`, null on the other ranks -> the same tensor on every rank.
  virtual Tensor broadcast(const Tensor* x, int root, const Shape& shape) = 0;
  // Whether no other device of this process is open on this rank's card. Also true during
  // Device::prepare_kernels(), when no kernel runs.
  virtual bool alone() const { return true; }
  // Reports that this rank has failed, so that the others stop waiting. Any thread. The group cannot be used
  // afterwards.
  virtual void abort() = 0;

 private:
  int rank_, ranks_;
};

// Makes a group of devices, which are all of one kind: the first is rank 0 and owns the others
// (Device::other_ranks()). Errors: unsupported (devices that cannot reach each other's memory, or that do not
// support groups).
Result<std::unique_ptr<Device>> make_group(std::vector<std::unique_ptr<Device>> devices);

}  // namespace anabranch::ops
