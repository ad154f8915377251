#include "ops/backend.h"

#include "base/cpu_info.h"
#include "base/memory_info.h"
#include "ops/cpu/array.h"
#include "ops/cpu/dispatch.h"
#include "ops/cuda/array.h"
#include "ops/cuda/driver.h"

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

std::string cuda_obstacle() {
  return cuda::obstacle();
}
Result<void> choose_backend(const std::string& device, bool reference, bool precise) {
  if (device != "cpu" && device != "cuda")
    return make_error(ErrorKind::invalid, "there is no device \"{}\": cpu or cuda", device);
  const bool on_cuda = device == "cuda";
  if (on_cuda && (reference || precise))
    return make_error(ErrorKind::invalid, "{} runs on the CPU only: leave out --device cuda",
                      reference ? "--reference" : "--precise");
  if (on_cuda && !cuda_obstacle().empty())
    return make_error(ErrorKind::unsupported, "--device cuda: {}", cuda_obstacle());
  set_backend(on_cuda ? Backend::cuda : reference ? Backend::reference : Backend::cpu);
  set_precise(precise);
  return {};
}
std::string device_name() {
  return backend() == Backend::cuda ? cuda::device().name : "CPU";
}
uint64_t device_memory_bytes() {
  return backend() == Backend::cuda ? cuda::device().memory_bytes : cpu_info().memory_bytes;
}
uint64_t device_free_bytes() {
  return backend() == Backend::cuda ? cuda::free_memory() : available_memory();
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

mx::array to_host(mx::array x) {
  if (backend() == Backend::cuda) return cuda::to_host(x);
  x.eval();
  return x;
}
mx::array to_device(mx::array x) {
  return backend() == Backend::cuda ? cuda::to_device(x) : x;
}
mx::array zeros(mx::Shape shape, mx::Dtype dtype) {
  return backend() == Backend::cuda ? cuda::make_zeros(std::move(shape), dtype)
                                    : cpu::make_zeros(std::move(shape), dtype);
}

}  // namespace anabranch::ops
