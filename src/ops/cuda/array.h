// Arrays in the device's memory: mx::array whose data<T>() is an address of the device. Only ops/cuda reads
// them, and to_host() and to_device() (ops/backend.h) copy between them and arrays of the host.
//
// Memory comes from a pool. Since everything happens on one stream, what is freed can be used again at once.
#pragma once

#include <memory>

#include "ops/backend.h"

namespace anabranch::ops::cuda {

mx::array make_array(mx::Shape shape, mx::Dtype dtype);
mx::array make_zeros(mx::Shape shape, mx::Dtype dtype);
// An array whose buffer is larger than its elements: what is laid out otherwise (linear.h).
mx::array make_padded(mx::Shape shape, mx::Dtype dtype, size_t bytes);

// x's address on the device. Throws std::invalid_argument, naming `op`, unless x is there and row-contiguous.
void* address_of(const mx::array& x, const char* op);
template <class T = float>
T* data(const mx::array& x, const char* op) {
  return static_cast<T*>(address_of(x, op));
}
bool on_device(const mx::array& x);

// Nothing else refers to x or to its storage: it may be changed in place.
bool is_unshared(const mx::array& x);
mx::array copy(const mx::array& x, const char* op);

mx::array to_host(const mx::array& x);
mx::array to_device(const mx::array& x);

// Work space of one op, on the device; and host memory put there, for use by the next launches.
std::shared_ptr<void> scratch(size_t bytes);
std::shared_ptr<void> upload(const void* from, size_t bytes);

}  // namespace anabranch::ops::cuda
