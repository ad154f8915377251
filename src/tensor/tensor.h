// Tensor: a row-major array in the memory of a device. Copying a tensor copies a reference, not the data; a
// view shares the storage of the tensor it was made from.
//
// Errors: a wrong shape, dtype or device throws std::invalid_argument.
#pragma once

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

namespace anabranch {

class Device;

enum class Dtype : uint8_t { f32, f16, i32, u8 };
constexpr size_t bytes_of(Dtype dtype) {
  return dtype == Dtype::u8 ? 1 : dtype == Dtype::f16 ? 2 : 4;
}

// Up to four dimensions, each >= 0.
class Shape {
 public:
  static constexpr size_t kMaxDims = 4;
  Shape() = default;
  Shape(std::initializer_list<int> dims) : Shape(std::span<const int>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int> dims);

  size_t size() const { return size_; }
  int operator[](size_t i) const { return dims_[i]; }
  int& operator[](size_t i) { return dims_[i]; }
  const int* begin() const { return dims_.data(); }
  const int* end() const { return dims_.data() + size_; }
  // Number of elements: the product of the dimensions.
  int64_t count() const;
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int, kMaxDims> dims_{};
  size_t size_ = 0;
};

// A block of a device's memory. It is returned to the device with the last tensor that refers to it. The
// device must outlive it.
class Storage {
 public:
  // address: in the device's address space; null if only the backend knows it (MLX).
  Storage(Device& device, void* address, size_t bytes) : device_(&device), address_(address), bytes_(bytes) {}
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device& device() const { return *device_; }
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  Device* device_;
  void* address_;
  size_t bytes_;
};

class Tensor {
 public:
  // No storage, shape [0], f32. Only good for assignment and size().
  Tensor() : shape_({0}) {}
  // Elements [offset, offset + shape.count()) of the storage.
  Tensor(std::shared_ptr<Storage> storage, const Shape& shape, Dtype dtype, int64_t offset = 0);

  const Shape& shape() const { return shape_; }
  int shape(size_t i) const { return shape_[i]; }
  size_t dims() const { return shape_.size(); }
  Dtype dtype() const { return dtype_; }
  int64_t size() const { return shape_.count(); }
  size_t nbytes() const { return static_cast<size_t>(size()) * bytes_of(dtype_); }
  int64_t offset() const { return offset_; }
  bool empty() const { return size() == 0; }
  Device& device() const { return storage().device(); }

  // The elements in the host's memory. Throws if the tensor is on a device with its own memory: copy it with
  // to_host() (tensor/device.h) first.
  template <class T>
  T* data() {
    return static_cast<T*>(host_address(sizeof(T)));
  }
  template <class T>
  const T* data() const {
    return static_cast<const T*>(host_address(sizeof(T)));
  }
  // The address of the elements in the device's memory, for the device's backend. Throws if the tensor is on
  // the host.
  uint64_t device_address() const;

  // Nothing else refers to the storage, so it may be changed in place.
  bool is_unshared() const {
    const bool alone = storage_.use_count() == 1;
    // Another thread may have read it until just now.
#if defined(__SANITIZE_THREAD__)
    const auto seen = storage_;  // ThreadSanitizer knows no fences
#else
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
    return alone;
  }
  // The same elements of the same storage under the same shape.
  bool is_same(const Tensor& other) const {
    return storage_ == other.storage_ && offset_ == other.offset_ && shape_ == other.shape_;
  }
  const Storage& storage() const;

  // The same elements under another shape of the same size, and rows [begin, end) of the first dimension.
  // Both share the storage.
  Tensor reshape(const Shape& shape) const;
  Tensor slice_rows(int begin, int end) const;

 private:
  void* host_address(size_t element_bytes) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Dtype dtype_ = Dtype::f32;
  int64_t offset_ = 0;  // in elements
};

}  // namespace anabranch

// In messages: [2, 3].
template <>
struct fmt::formatter<anabranch::Shape> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  auto format(const anabranch::Shape& shape, format_context& context) const {
    return fmt::format_to(context.out(), "[{}]", fmt::join(shape, ", "));
  }
};
