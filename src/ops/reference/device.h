// A device whose ops are composed of MLX's: the specification of every op, with which tests compare the other
// backends; and, with our own kernels for operations that are slow in MLX (ops/metal/), the way to use
// Apple's GPUs.
//
// Ops are lazy: their results are nodes of MLX's graph until to_host() or an op that changes a state
// evaluates them. So there is nothing for synchronize() to wait for. The memory of tensors belongs to MLX,
// which shares its allocator and streams between all devices of a process.
#pragma once

#include <mlx/array.h>

#include "ops/metal/kernel.h"
#include "tensor/device.h"

namespace anabranch::ops {

class ReferenceDevice final : public Device {
 public:
  // launcher: runs the kernels of ops/metal; null: no kernels, only MLX's ops.
  explicit ReferenceDevice(int threads, metal::Launcher launcher = nullptr);

  const metal::Launcher& launcher() const { return launcher_; }

  Tensor empty(const Shape& shape, Dtype dtype) override { return zeros(shape, dtype); }
  Tensor zeros(const Shape& shape, Dtype dtype) override;
  Tensor to_device(const Tensor& x) override;
  Tensor to_host(const Tensor& x) override;
  void begin_pass() override;
  uint64_t memory_bytes() const override;
  uint64_t free_bytes() const override;

 private:
  metal::Launcher launcher_;
  size_t reuse_bytes_ = 0;  // freed memory that MLX may keep
};

namespace reference {

// The device of a tensor or weight passed to an op of this folder.
inline ReferenceDevice& device_of(Device& device) {
  return static_cast<ReferenceDevice&>(device);
}
inline ReferenceDevice& device_of(const Tensor& x) {
  return device_of(x.device());
}

// An MLX array, evaluated or not, that tensors refer to.
class MlxStorage final : public Storage {
 public:
  MlxStorage(Device& device, mx::array array)
      : Storage(device, nullptr, array.nbytes()), array(std::move(array)) {}
  const mx::array array;
};

// The tensor as an array of its shape, lazily.
mx::array as_mlx(const Tensor& x);
// The array, f32, f16, i32 or u8, as a tensor.
Tensor from_mlx(Device& device, mx::array x);

// Rows of x in their own memory, lazily. An array that stays in a state needs that, because a view keeps the
// whole array that it was cut from alive.
mx::array copy_rows(const mx::array& x, std::span<const int> rows);
mx::array copy_rows(const mx::array& x, int begin, int end);

// An uninitialised array, available at once.
mx::array make_array(mx::Shape shape, mx::Dtype dtype);

}  // namespace reference
}  // namespace anabranch::ops
