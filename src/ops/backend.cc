#include "ops/backend.h"

#include <mlx/backend/cuda/cuda.h>
#include <mlx/memory.h>

#include <algorithm>
#include <atomic>

#include "base/cpu_info.h"
#include "base/memory_info.h"
#include "ops/cpu/array.h"
#include "ops/cpu/dispatch.h"
#include "ops/cuda/array.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/shapes.h"
#include "ops/metal/kernel.h"

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
  if (mx::cu::is_available())
    return "this build's MLX manages CUDA memory of its own, which ours cannot share: link its CPU wheel, as "
           "script/bootstrap installs it";
  return cuda::obstacle();
}
std::string metal_obstacle() {
  return metal::obstacle();
}
Result<void> choose_backend(const std::string& device, bool reference, bool precise) {
  const bool on_cuda = device == "cuda", on_metal = device == "metal";
  if (device != "cpu" && !on_cuda && !on_metal)
    return make_error(ErrorKind::invalid, "there is no device \"{}\": cpu, cuda or metal", device);
  if (device != "cpu" && (reference || precise))
    return make_error(ErrorKind::invalid, "{} runs on the CPU only: leave out --device {}",
                      reference ? "--reference" : "--precise", device);
  if (on_cuda && !cuda_obstacle().empty())
    return make_error(ErrorKind::unsupported, "--device cuda: {}", cuda_obstacle());
  if (on_metal && !metal_obstacle().empty())
    return make_error(ErrorKind::unsupported, "--device metal: {}", metal_obstacle());
  set_backend(on_cuda ? Backend::cuda : reference || on_metal ? Backend::reference : Backend::cpu);
  metal::use(on_metal);
  set_precise(precise);
  return {};
}
std::string attention_obstacle(int head_dim) {
  return backend() == Backend::cuda ? cuda::attention_obstacle(head_dim) : "";
}
std::string gated_delta_obstacle(int key_dim, int value_dim, int conv_kernel) {
  return backend() == Backend::cuda ? cuda::gated_delta_obstacle(key_dim, value_dim, conv_kernel) : "";
}
void fit_buffer_cache() {
  // Fresh pages cost more than the kernels that fill them. Without a limit from use, however, one buffer of
  // every size that was ever needed piles up, hundreds of megabytes beside a small model.
  constexpr size_t kLeast = size_t{32} << 20, kMost = size_t{512} << 20;
  static std::atomic<size_t> limit{0};
  const size_t now = mx::get_active_memory(), peak = mx::get_peak_memory();
  mx::reset_peak_memory();
  const size_t needed = std::clamp(peak > now ? peak - now : 0, kLeast, kMost);
  if (needed <= limit) return;
  limit = needed;
  mx::set_cache_limit(limit);
}
std::string device_name() {
  return backend() == Backend::cuda ? cuda::device().name : metal::in_use() ? "Metal" : "CPU";
}
uint64_t device_memory_bytes() {
  return backend() == Backend::cuda ? cuda::device().memory_bytes : cpu_info().memory_bytes;
}
uint64_t device_free_bytes() {
  return backend() == Backend::cuda ? cuda::free_memory() : available_memory();
}
bool device_lost() {
  return cuda::device_lost();
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
