// CUDA's table of ops on a device without memory: shapes are checked before anything is put there.
#pragma once

#include <new>

#include "ops/table.h"

namespace anabranch::testing {

class NoMemory final : public Device {
 public:
  NoMemory() : Device(DeviceKind::cuda, "a card", &ops::cuda_ops(), Dtype::f16, 1) {}
  Tensor empty(const Shape&, Dtype) override { throw std::bad_alloc(); }
  Tensor zeros(const Shape&, Dtype) override { throw std::bad_alloc(); }
  Tensor to_device(const Tensor&) override { throw std::bad_alloc(); }
  Tensor to_host(const Tensor& x) override { return x; }
  uint64_t memory_bytes() const override { return 0; }
  uint64_t free_bytes() const override { return 0; }
};

}  // namespace anabranch::testing
