#include "tensor/tensor.h"

#include <stdexcept>

#include "tensor/device.h"

namespace anabranch {
namespace {

template <class... Args>
void require(bool good, fmt::format_string<const Args&...> message, const Args&... args) {
  if (!good) throw std::invalid_argument("[tensor] " + fmt::format(message, args...));
}

}  // namespace

Shape::Shape(std::span<const int> dims) : size_(dims.size()) {
  require(size_ <= kMaxDims, "{} dimensions are more than {}.", size_, kMaxDims);
  for (size_t i = 0; i < size_; i++) {
    require(dims[i] >= 0, "a dimension is {}.", dims[i]);
    dims_[i] = dims[i];
  }
}

int64_t Shape::count() const {
  int64_t count = 1;
  for (const int n : *this) count *= n;
  return count;
}

Tensor::Tensor(std::shared_ptr<Storage> storage, const Shape& shape, Dtype dtype, int64_t offset)
    : storage_(std::move(storage)), shape_(shape), dtype_(dtype), offset_(offset) {
  require(
      storage_ && offset >= 0 &&
          (static_cast<size_t>(offset) + static_cast<size_t>(size())) * bytes_of(dtype) <= storage_->bytes(),
      "shape {} from element {} on does not fit the storage.", shape, offset);
}

const Storage& Tensor::storage() const {
  require(storage_ != nullptr, "the tensor has no storage.");
  return *storage_;
}

void* Tensor::host_address(size_t element_bytes) const {
  const Storage& from = storage();
  require(from.device().is_host(), "a tensor on {} is read as if it were in the host's memory.",
          from.device().name());
  require(element_bytes == 1 || element_bytes == bytes_of(dtype_), "elements of {} bytes are read as {}.",
          bytes_of(dtype_), element_bytes);
  return static_cast<char*>(from.address()) + static_cast<size_t>(offset_) * bytes_of(dtype_);
}

uint64_t Tensor::device_address() const {
  const Storage& from = storage();
  require(!from.device().is_host(), "a tensor of the host is used as if it were on a device.");
  return reinterpret_cast<uint64_t>(from.address()) + static_cast<uint64_t>(offset_) * bytes_of(dtype_);
}

Tensor Tensor::reshape(const Shape& shape) const {
  require(shape.count() == size(), "shape {} does not have the {} elements of {}.", shape, size(), shape_);
  return {storage_, shape, dtype_, offset_};
}

Tensor Tensor::slice_rows(int begin, int end) const {
  require(dims() > 0 && 0 <= begin && begin <= end && end <= shape_[0], "rows {} to {} are not in shape {}.",
          begin, end, shape_);
  Shape part = shape_;
  part[0] = end - begin;
  const int64_t row = shape_[0] > 0 ? size() / shape_[0] : 0;
  return {storage_, part, dtype_, offset_ + begin * row};
}

}  // namespace anabranch
