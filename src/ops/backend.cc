#include "ops/backend.h"

#include "ops/cpu/array.h"
#include "ops/cpu/dispatch.h"

namespace anabranch::ops {
namespace {

Backend current_backend = Backend::cpu;
bool precise_mode = false;

}  // namespace

void set_backend(Backend backend) {
  current_backend = backend;
}
Backend backend() {
  return current_backend;
}

void set_precise(bool precise) {
  precise_mode = precise;
}
bool precise() {
  return precise_mode;
}

std::string cpu_target() {
  return cpu::kernels().name;
}
bool set_cpu_target(const std::string& name) {
  return cpu::set_target(name);
}

mx::array empty(mx::Shape shape, mx::Dtype dtype) {
  return cpu::make_array(std::move(shape), dtype);
}

}  // namespace anabranch::ops
