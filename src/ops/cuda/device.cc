#include "ops/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/table.h"

namespace anabranch::ops::cuda {
namespace {

size_t bytes_of(const Shape& shape, Dtype dtype) {
  return static_cast<size_t>(shape.count()) * anabranch::bytes_of(dtype);
}

}  // namespace

std::string unsupported(int index) {
  const auto found = find_device(index);
  return found ? "" : found.error().message;
}

Result<std::unique_ptr<Device>> open_cuda(int index, int threads) {
  TRY(const DeviceInfo info, find_device(index));
  TRY(auto context, Context::open(info));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(std::move(context), threads));
}

CudaDevice::CudaDevice(std::unique_ptr<Context> context, int threads)
    : Device(DeviceKind::cuda, context->info().name, &cuda_ops(), Dtype::f16, threads),
      context_(std::move(context)),
      pool_(*context_, MemoryKind::device),
      pinned_(*context_, MemoryKind::pinned),
      staging_(*context_),
      kernels_(*context_) {}

Tensor CudaDevice::empty_padded(const Shape& shape, Dtype dtype, size_t bytes) {
  return {std::make_shared<PooledStorage>(*this, pool_.take(bytes), bytes), shape, dtype};
}

Tensor CudaDevice::empty(const Shape& shape, Dtype dtype) {
  return empty_padded(shape, dtype, bytes_of(shape, dtype));
}

Tensor CudaDevice::zeros(const Shape& shape, Dtype dtype) {
  Tensor x = empty(shape, dtype);
  if (x.nbytes() > 0) context_->clear(data<void>(x, "zeros"), x.nbytes());
  return x;
}

Tensor CudaDevice::empty_host(const Shape& shape, Dtype dtype) {
  const size_t bytes = bytes_of(shape, dtype);
  return {std::make_shared<PooledStorage>(host_device(), pinned_.take(bytes), bytes), shape, dtype};
}

Tensor CudaDevice::to_device(const Tensor& x) {
  if (&x.device() == this) return x;
  const Tensor host = anabranch::to_host(x);
  Tensor y = empty(host.shape(), host.dtype());
  if (host.nbytes() == 0) return y;
  context_->copy_to_device(data<void>(y, "to_device"), host.data<char>(), host.nbytes());
  context_->synchronize();  // `host` may go
  return y;
}

Tensor CudaDevice::to_host(const Tensor& x) {
  if (x.device().is_host()) return x;
  Tensor y = empty_host(x.shape(), x.dtype());
  if (x.nbytes() > 0) context_->copy_to_host(y.data<char>(), data<void>(x, "to_host"), x.nbytes());
  return y;
}

Tensor CudaDevice::copy(const Tensor& x, const char* op) {
  Tensor y = empty(x.shape(), x.dtype());
  if (x.nbytes() > 0) context_->copy_on_device(data<void>(y, op), data<void>(x, op), x.nbytes());
  return y;
}

Block CudaDevice::upload(const void* from, size_t bytes) {
  Block to = scratch(bytes);
  staging_.copy(to.address(), from, bytes);
  return to;
}

int CudaDevice::clusters() {
  if (clusters_ < 0)
    clusters_ = context_->most_clusters(kernels_.get({Source::rows, {}}, "norm_heads"), kClusterBlocks, 512,
                                        static_cast<unsigned>(info().shared_bytes));
  return clusters_;
}

const float* CudaDevice::frequencies(std::span<const float> inv_freq) {
  for (const Frequencies& known : frequencies_)
    if (std::equal(known.host.begin(), known.host.end(), inv_freq.begin(), inv_freq.end()))
      return data(known.device, "rope");
  Tensor x = empty_host({static_cast<int>(inv_freq.size())}, Dtype::f32);
  std::copy(inv_freq.begin(), inv_freq.end(), x.data<float>());
  frequencies_.push_back({{inv_freq.begin(), inv_freq.end()}, to_device(x)});
  return data(frequencies_.back().device, "rope");
}

void CudaDevice::refuse(const Tensor& x, const char* op) const {
  throw std::invalid_argument(
      fmt::format("[{}] an operand is not on this device, but on {}", op, x.device().name()));
}

MachineLimits measure_limits(Device& device) {
  CudaDevice& on = cuda_device(device);
  return {copy_rate(on.context()) / 1e9, 0, on.info().tensor_flops / 1e9, 0};
}

}  // namespace anabranch::ops::cuda
