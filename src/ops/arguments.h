// What every dispatching function checks before a backend sees its arguments.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "ops/backend.h"

// An array in a message is its shape.
template <>
struct fmt::formatter<mlx::core::array> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  auto format(const mlx::core::array& x, format_context& context) const {
    return fmt::format_to(context.out(), "[{}]", fmt::join(x.shape(), ", "));
  }
};

namespace anabranch::ops {

// Calls the backend's implementation: ANABRANCH_DISPATCH(add(a, b)).
#define ANABRANCH_DISPATCH(call) \
  (backend() == Backend::cpu ? cpu::call : backend() == Backend::cuda ? cuda::call : reference::call)

// Throws std::invalid_argument("[op] message") unless `good`.
template <class... Args>
void require(bool good, const char* op, fmt::format_string<const Args&...> message, const Args&... args) {
  if (!good) throw std::invalid_argument(fmt::format("[{}] ", op) + fmt::format(message, args...));
}

inline void require_f32(const char* op, const char* name, const mx::array& x, size_t dims) {
  require(x.dtype() == mx::float32, op, "{} must be float32.", name);
  require(x.ndim() == dims, op, "{} must have {} dimensions, not shape {}.", name, dims, x);
}

inline void require_shape(const char* op, const char* name, const mx::array& x, const mx::Shape& shape) {
  require_f32(op, name, x, shape.size());
  require(x.shape() == shape, op, "{} has an unexpected shape {}.", name, x);
}

}  // namespace anabranch::ops
