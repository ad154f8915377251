#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tensor/device.h"

namespace anabranch {
namespace {

// A device with memory of its own, which a host's pointer must not reach: addresses are invented. It counts
// the storages that are alive.
class FakeDevice final : public Device {
 public:
  FakeDevice() : Device(DeviceKind::cuda, "fake", nullptr, Dtype::f16, 2) {}
  Tensor empty(const Shape& shape, Dtype dtype) override {
    const auto bytes = static_cast<size_t>(shape.count()) * bytes_of(dtype);
    return {std::make_shared<Memory>(*this, bytes), shape, dtype};
  }
  Tensor zeros(const Shape& shape, Dtype dtype) override { return empty(shape, dtype); }
  Tensor to_device(const Tensor& x) override { return empty(x.shape(), x.dtype()); }
  Tensor to_host(const Tensor& x) override { return empty_host(x.shape(), x.dtype()); }
  uint64_t memory_bytes() const override { return 0; }
  uint64_t free_bytes() const override { return 0; }

  static constexpr uint64_t kAddress = 0x7000;
  int alive = 0;

 private:
  class Memory final : public Storage {
   public:
    Memory(FakeDevice& device, size_t bytes)
        : Storage(device, reinterpret_cast<void*>(kAddress), bytes), alive_(device.alive) {
      alive_++;
    }
    ~Memory() override { alive_--; }

   private:
    int& alive_;
  };
};

Tensor numbers(const Shape& shape) {
  Tensor x = host_device().empty(shape, Dtype::f32);
  for (int64_t i = 0; i < x.size(); i++) x.data<float>()[i] = static_cast<float>(i);
  return x;
}

TEST(Shape, HasUpToFourDimensions) {
  EXPECT_EQ(Shape().size(), 0u);
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ((Shape{2, 3, 4, 5}).count(), 120);
  EXPECT_EQ((Shape{2, 0, 4}).count(), 0);
  EXPECT_EQ((Shape{1 << 20, 1 << 20}).count(), int64_t{1} << 40);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), std::invalid_argument);
  EXPECT_THROW((Shape{2, -1}), std::invalid_argument);
  const std::vector<int> dims = {7, 8};
  EXPECT_EQ(Shape(dims), (Shape{7, 8}));
  EXPECT_FALSE((Shape{6}) == (Shape{6, 1}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_EQ(fmt::format("{}", Shape{2, 3}), "[2, 3]");
}

TEST(Tensor, KnowsItsSize) {
  const Tensor x = host_device().empty({3, 5}, Dtype::f16);
  EXPECT_EQ(x.dims(), 2u);
  EXPECT_EQ(x.shape(1), 5);
  EXPECT_EQ(x.size(), 15);
  EXPECT_EQ(x.nbytes(), 30u);
  EXPECT_EQ(x.storage().bytes(), 30u);
  EXPECT_EQ(host_device().empty({3}, Dtype::u8).nbytes(), 3u);
  EXPECT_EQ(host_device().empty({3}, Dtype::i32).nbytes(), 12u);
  EXPECT_FALSE(x.empty());
  EXPECT_TRUE(host_device().empty({0, 5}, Dtype::f32).empty());
}

TEST(Tensor, ViewsShareTheStorage) {
  Tensor x = numbers({4, 3});
  const Tensor rows = x.slice_rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.offset(), 3);
  EXPECT_EQ(rows.data<float>(), x.data<float>() + 3);
  const Tensor cut = rows.slice_rows(1, 2).reshape({3});
  EXPECT_EQ(cut.offset(), 6) << "offsets add up";
  EXPECT_EQ(cut.data<float>()[2], 8.0f);
  x.data<float>()[8] = -1;
  EXPECT_EQ(cut.data<float>()[2], -1.0f);
  EXPECT_EQ(&cut.storage(), &x.storage());
  EXPECT_EQ(x.reshape({2, 2, 3}).slice_rows(1, 2).data<float>()[0], 6.0f);
  EXPECT_TRUE(x.slice_rows(4, 4).empty());
  EXPECT_TRUE(x.slice_rows(4, 4).slice_rows(0, 0).empty());

  EXPECT_THROW(x.slice_rows(2, 5), std::invalid_argument);
  EXPECT_THROW(x.slice_rows(3, 2), std::invalid_argument);
  EXPECT_THROW(x.slice_rows(-1, 2), std::invalid_argument);
  EXPECT_THROW(x.reshape({5}), std::invalid_argument);
  EXPECT_THROW(rows.reshape({4, 3}), std::invalid_argument) << "the storage is larger, but not the view";
  EXPECT_THROW(x.slice_rows(0, 1).reshape({}).slice_rows(0, 1), std::invalid_argument);
}

TEST(Tensor, LiesWithinItsStorage) {
  const auto storage = std::make_shared<Storage>(host_device(), nullptr, 24);
  EXPECT_EQ(Tensor(storage, {6}, Dtype::f32).size(), 6);
  EXPECT_EQ(Tensor(storage, {2}, Dtype::f32, 4).offset(), 4);
  EXPECT_EQ(Tensor(storage, {12}, Dtype::f16).size(), 12);
  EXPECT_THROW(Tensor(storage, {7}, Dtype::f32), std::invalid_argument);
  EXPECT_THROW(Tensor(storage, {3}, Dtype::f32, 4), std::invalid_argument);
  EXPECT_THROW(Tensor(storage, {1}, Dtype::f32, -1), std::invalid_argument);
  EXPECT_THROW(Tensor(nullptr, {1}, Dtype::f32), std::invalid_argument);
}

TEST(Tensor, ElementsAreReadInTheirOwnSizeOrAsBytes) {
  const Tensor x = numbers({4}), half = host_device().zeros({4}, Dtype::f16);
  EXPECT_NO_THROW(x.data<float>());
  EXPECT_NO_THROW(x.data<uint8_t>());
  EXPECT_NO_THROW(half.data<uint16_t>());
  EXPECT_THROW(x.data<uint16_t>(), std::invalid_argument);
  EXPECT_THROW(x.data<double>(), std::invalid_argument);
  EXPECT_THROW(half.data<float>(), std::invalid_argument);
  EXPECT_EQ(x.slice_rows(2, 4).data<char>() - x.data<char>(), 8) << "offsets are elements, not bytes";
}

TEST(Tensor, IsReadOnlyWhereItLies) {
  FakeDevice device;
  Tensor there = device.empty({4, 3}, Dtype::f16);
  EXPECT_THROW(there.data<uint16_t>(), std::invalid_argument);
  EXPECT_THROW(std::as_const(there).data<char>(), std::invalid_argument);
  EXPECT_EQ(there.device_address(), FakeDevice::kAddress);
  EXPECT_EQ(there.slice_rows(2, 4).device_address(), FakeDevice::kAddress + 12);
  EXPECT_EQ(&there.device(), &device);
  EXPECT_THROW(numbers({2}).device_address(), std::invalid_argument);

  const Tensor here = to_host(there);
  EXPECT_EQ(&here.device(), &host_device());
  EXPECT_NO_THROW(here.data<uint16_t>());
}

TEST(Tensor, KnowsWhetherItsStorageIsShared) {
  Tensor x = numbers({4});
  EXPECT_TRUE(x.is_unshared());
  {
    const Tensor copy = x;
    EXPECT_FALSE(x.is_unshared());
    EXPECT_FALSE(copy.is_unshared());
  }
  EXPECT_TRUE(x.is_unshared());
  Tensor view = x.slice_rows(0, 1);
  EXPECT_FALSE(x.is_unshared());
  x = Tensor();
  EXPECT_TRUE(view.is_unshared()) << "a view alone keeps the storage";
  EXPECT_EQ(view.data<float>()[0], 0.0f);
  const Tensor moved = std::move(view);
  EXPECT_TRUE(moved.is_unshared());
}

TEST(Tensor, GivesItsMemoryBackWithTheLastReference) {
  FakeDevice device;
  Tensor x = device.empty({4, 3}, Dtype::f32);
  Tensor view = x.slice_rows(1, 2).reshape({3, 1});
  EXPECT_EQ(device.alive, 1);
  x = device.empty({1}, Dtype::f32);
  EXPECT_EQ(device.alive, 2);
  view = Tensor();
  EXPECT_EQ(device.alive, 1);
  x = Tensor();
  EXPECT_EQ(device.alive, 0);
}

TEST(Tensor, WithoutStorageHasASizeOnly) {
  Tensor none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.shape(), (Shape{0}));
  EXPECT_FALSE(none.is_unshared());
  EXPECT_THROW(none.storage(), std::invalid_argument);
  EXPECT_THROW(none.device(), std::invalid_argument);
  EXPECT_THROW(none.data<float>(), std::invalid_argument);
  EXPECT_THROW(none.device_address(), std::invalid_argument);
  EXPECT_THROW(none.slice_rows(0, 0), std::invalid_argument);
  EXPECT_THROW(to_host(none), std::invalid_argument);
}

TEST(HostDevice, MakesAlignedMemory) {
  Device& host = host_device();
  EXPECT_TRUE(host.is_host());
  EXPECT_EQ(host.kind(), DeviceKind::host);
  for (const int n : {0, 1, 3, 100, 4097}) {
    const Tensor x = host.zeros({n}, Dtype::f16);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data<char>()) % 64, 0u);
    for (int i = 0; i < n; i++) ASSERT_EQ(x.data<uint16_t>()[i], 0);
  }
  const Tensor x = numbers({3});
  EXPECT_EQ(&host.to_host(x).storage(), &x.storage());
  EXPECT_EQ(&host.to_device(x).storage(), &x.storage());
  EXPECT_EQ(&to_host(x).storage(), &x.storage());
  FakeDevice device;
  EXPECT_EQ(&host.to_device(device.empty({3}, Dtype::f32)).device(), &host);
  EXPECT_GT(host.memory_bytes(), 0u);
}

TEST(HostDevice, RefusesMoreThanThereIs) {
  const int most = std::numeric_limits<int>::max();
  EXPECT_THROW(host_device().empty({most, most}, Dtype::f32), std::bad_alloc);
}

TEST(HostDeviceDeathTest, HasNoOps) {
  EXPECT_DEATH(host_device().ops(), "there are no ops on the device host");
}

TEST(Device, DefaultsAreThoseOfTheHost) {
  FakeDevice device;
  EXPECT_FALSE(device.is_host());
  EXPECT_EQ(device.name(), "fake");
  EXPECT_EQ(device.kv_dtype(), Dtype::f16);
  EXPECT_EQ(device.threads().size(), 2);
  EXPECT_EQ(&device.empty_host({2}, Dtype::f32).device(), &host_device());
  EXPECT_FALSE(device.lost());
  EXPECT_FALSE(device.profile().on);
}

}  // namespace
}  // namespace anabranch
