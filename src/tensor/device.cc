#include "tensor/device.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/memory_info.h"

namespace anabranch {
namespace {

constexpr size_t kAlign = 64;

class HostStorage final : public Storage {
 public:
  using Storage::Storage;
  ~HostStorage() override { std::free(address()); }
};

class HostDevice final : public Device {
 public:
  HostDevice() : Device(DeviceKind::host, "host", nullptr, Dtype::f32, 1) {}
  Tensor empty(const Shape& shape, Dtype dtype) override {
    const size_t bytes = static_cast<size_t>(shape.count()) * bytes_of(dtype);
    const size_t size = (bytes + kAlign) / kAlign * kAlign;
    void* address = std::aligned_alloc(kAlign, size);
    if (!address) throw std::bad_alloc();
    return {std::make_shared<HostStorage>(*this, address, bytes), shape, dtype};
  }
  Tensor zeros(const Shape& shape, Dtype dtype) override {
    Tensor x = empty(shape, dtype);
    std::memset(x.data<char>(), 0, x.nbytes());
    return x;
  }
  Tensor to_device(const Tensor& x) override { return anabranch::to_host(x); }
  Tensor to_host(const Tensor& x) override { return x; }
  uint64_t memory_bytes() const override { return cpu_info().memory_bytes; }
  uint64_t free_bytes() const override { return available_memory(); }
};

}  // namespace

Device::Device(DeviceKind kind, std::string name, const ops::OpTable* ops, Dtype kv_dtype, int threads)
    : kind_(kind), name_(std::move(name)), ops_(ops), kv_dtype_(kv_dtype), threads_(threads) {}
Device::~Device() = default;

void Device::join_group(std::shared_ptr<ops::Collective> end,
                        std::vector<std::unique_ptr<Device>> other_ranks) {
  collective_ = std::move(end);
  other_ranks_ = std::move(other_ranks);
}

void Device::leave_group() {
  collective_.reset();
  for (const auto& other : other_ranks_) other->leave_group();
  other_ranks_.clear();
}

const ops::OpTable& Device::ops() const {
  CHECK(ops_, "there are no ops on the device {}", name_);
  return *ops_;
}

Tensor Device::empty_host(const Shape& shape, Dtype dtype) {
  return host_device().empty(shape, dtype);
}

Device& host_device() {
  static auto* device = new HostDevice;  // tensors may outlive statics
  return *device;
}

Tensor to_host(const Tensor& x) {
  return x.device().to_host(x);
}

}  // namespace anabranch
