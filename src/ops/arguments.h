// Checks of arguments that the functions of ops/ make before they call a backend.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "tensor/tensor.h"

namespace anabranch::ops {

// Throws std::invalid_argument("[op] message") unless `good`.
template <class... Args>
void require(bool good, const char* op, fmt::format_string<const Args&...> message, const Args&... args) {
  if (!good) throw std::invalid_argument(fmt::format("[{}] ", op) + fmt::format(message, args...));
}

inline void require_f32(const char* op, const char* name, const Tensor& x, size_t dims) {
  require(x.dtype() == Dtype::f32, op, "{} must be f32.", name);
  require(x.dims() == dims, op, "{} must have {} dimensions, not shape {}.", name, dims, x.shape());
}

inline void require_shape(const char* op, const char* name, const Tensor& x, const Shape& shape) {
  require_f32(op, name, x, shape.size());
  require(x.shape() == shape, op, "{} has an unexpected shape {}.", name, x.shape());
}

}  // namespace anabranch::ops
