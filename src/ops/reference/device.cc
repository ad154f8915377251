#include "ops/reference/device.h"

#include <mlx/memory.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "base/cpu_info.h"
#include "base/memory_info.h"
#include "ops/open.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

mx::Dtype mlx_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return mx::float32;
    case Dtype::f16:
      return mx::float16;
    case Dtype::i32:
      return mx::int32;
    case Dtype::u8:
      return mx::uint8;
  }
  throw std::invalid_argument("[reference] an unknown dtype");
}

Dtype our_dtype(mx::Dtype dtype) {
  for (const Dtype ours : {Dtype::f32, Dtype::f16, Dtype::i32, Dtype::u8})
    if (mlx_dtype(ours) == dtype) return ours;
  throw std::invalid_argument("[reference] an array of a dtype that tensors do not have");
}

mx::Shape mlx_shape(const Shape& shape) {
  return mx::Shape(shape.begin(), shape.end());
}

}  // namespace

ReferenceDevice::ReferenceDevice(int threads, metal::Launcher launcher)
    : Device(launcher ? DeviceKind::metal : DeviceKind::reference, launcher ? "Metal" : "CPU",
             &reference_ops(), Dtype::f32, threads),
      launcher_(std::move(launcher)) {}

Tensor ReferenceDevice::zeros(const Shape& shape, Dtype dtype) {
  mx::array x = reference::make_array(mlx_shape(shape), mlx_dtype(dtype));
  std::memset(x.data<char>(), 0, x.nbytes());
  return reference::from_mlx(*this, std::move(x));
}

Tensor ReferenceDevice::to_device(const Tensor& x) {
  if (&x.device() == this) return x;
  const Tensor host = anabranch::to_host(x);
  mx::array copy = reference::make_array(mlx_shape(x.shape()), mlx_dtype(x.dtype()));
  std::memcpy(copy.data<char>(), host.data<char>(), host.nbytes());
  return reference::from_mlx(*this, std::move(copy));
}

Tensor ReferenceDevice::to_host(const Tensor& x) {
  mx::array from = static_cast<const reference::MlxStorage&>(x.storage()).array;
  from.eval();
  if (!from.flags().row_contiguous) {
    from = mx::contiguous(from);
    from.eval();
  }
  Tensor host = empty_host(x.shape(), x.dtype());
  const size_t skip = static_cast<size_t>(x.offset()) * bytes_of(x.dtype());
  std::memcpy(host.data<char>(), from.data<char>() + skip, host.nbytes());
  return host;
}

// MLX keeps freed buffers for later arrays, because fresh pages cost more than the kernels that fill them.
// Without a limit, one buffer of every size that was ever needed would accumulate: hundreds of megabytes for
// a small model. So it may keep as much as the largest pass so far needed beyond the memory that stayed in
// use after it.
void ReferenceDevice::begin_pass() {
  constexpr size_t kLeast = size_t{32} << 20, kMost = size_t{512} << 20;
  const size_t now = mx::get_active_memory(), peak = mx::get_peak_memory();
  mx::reset_peak_memory();
  const size_t needed = std::clamp(peak > now ? peak - now : 0, kLeast, kMost);
  if (needed <= reuse_bytes_) return;
  reuse_bytes_ = needed;
  mx::set_cache_limit(needed);
}

uint64_t ReferenceDevice::memory_bytes() const {
  return cpu_info().memory_bytes;
}
uint64_t ReferenceDevice::free_bytes() const {
  return available_memory();
}

std::string metal_unsupported() {
  return metal::unsupported();
}

std::unique_ptr<Device> open_reference(bool metal, int threads) {
  return std::make_unique<ReferenceDevice>(threads, metal ? metal::mlx_launcher() : nullptr);
}

namespace reference {

mx::array as_mlx(const Tensor& x) {
  const mx::array& whole = static_cast<const MlxStorage&>(x.storage()).array;
  const auto count = static_cast<size_t>(x.size());
  const mx::Shape shape = mlx_shape(x.shape());
  if (count == whole.size()) return whole.shape() == shape ? whole : mx::reshape(whole, shape);
  const int begin = static_cast<int>(x.offset()), end = begin + static_cast<int>(count);
  return mx::reshape(mx::slice(mx::flatten(whole), {begin}, {end}), shape);
}

Tensor from_mlx(Device& device, mx::array x) {
  const Shape shape(std::span<const int>(x.shape().begin(), x.shape().end()));
  const Dtype dtype = our_dtype(x.dtype());
  return {std::make_shared<MlxStorage>(device, std::move(x)), shape, dtype};
}

mx::array copy_rows(const mx::array& x, std::span<const int> rows) {
  return mx::take(x, mx::array(rows.data(), {static_cast<int>(rows.size())}, mx::int32), 0);
}
mx::array copy_rows(const mx::array& x, int begin, int end) {
  std::vector<int> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return copy_rows(x, rows);
}

mx::array make_array(mx::Shape shape, mx::Dtype dtype) {
  size_t count = 1;
  for (const int n : shape) count *= static_cast<size_t>(n);
  return mx::array(mx::allocator::malloc(count * dtype.size()), std::move(shape), dtype);
}

}  // namespace reference
}  // namespace anabranch::ops
