#include "ops/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "ops/table.h"

namespace anabranch::ops::cuda {
namespace {

size_t bytes_of(const Shape& shape, Dtype dtype) {
  return static_cast<size_t>(shape.count()) * anabranch::bytes_of(dtype);
}

}  // namespace

std::string unsupported(int index) {
  const auto found = find_device(index);
  return found ? "" : found.error().message;
}

Result<std::unique_ptr<Device>> open_cuda(int index, int threads, uint64_t expert_bytes) {
  TRY(const DeviceInfo info, find_device(index));
  TRY(auto context, Context::open(info));
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(std::move(context), threads, expert_bytes));
}

CudaDevice::CudaDevice(std::unique_ptr<Context> context, int threads, uint64_t expert_bytes)
    : Device(DeviceKind::cuda, context->info().name, &cuda_ops(), Dtype::f16, threads),
      context_(std::move(context)),
      pool_(*context_, MemoryKind::device),
      pinned_(*context_, MemoryKind::pinned),
      staging_(*context_),
      kernels_(*context_),
      expert_bytes_(expert_bytes) {
  of_card()++;
}

// Copies may still read pinned memory that is released next; CUDA does not guarantee that the release waits.
CudaDevice::~CudaDevice() {
  leave_group();
  try {
    synchronize();
  } catch (const std::exception& e) {
    log_debug("{}", e.what());
  }
  of_card()--;
}

bool CudaDevice::lost() const {
  return context_->lost() ||
         std::ranges::any_of(other_ranks(), [](const auto& other) { return other->lost(); });
}

uint64_t CudaDevice::memory_bytes() const {
  uint64_t least = info().memory_bytes;
  for (const auto& other : other_ranks()) least = std::min(least, other->memory_bytes());
  return least;
}
uint64_t CudaDevice::free_bytes() const {
  uint64_t least = context_->free_memory();
  for (const auto& other : other_ranks()) least = std::min(least, other->free_bytes());
  return least;
}

int CudaDevice::finish_kernels() {
  int compiled = kernels_.load_compiled();
  for (const auto& other : other_ranks()) compiled += other->finish_kernels();
  return compiled;
}

Tensor CudaDevice::empty_padded(const Shape& shape, Dtype dtype, size_t bytes) {
  return {std::make_shared<PooledStorage>(*this, pool_.take(bytes), bytes), shape, dtype};
}

Tensor CudaDevice::empty(const Shape& shape, Dtype dtype) {
  return empty_padded(shape, dtype, bytes_of(shape, dtype));
}

Tensor CudaDevice::zeros(const Shape& shape, Dtype dtype) {
  Tensor x = empty(shape, dtype);
  if (x.nbytes() > 0) context_->clear(data<void>(x, "zeros"), x.nbytes());
  return x;
}

Tensor CudaDevice::empty_host(const Shape& shape, Dtype dtype) {
  const size_t bytes = bytes_of(shape, dtype);
  return {std::make_shared<PooledStorage>(host_device(), pinned_.take(bytes), bytes), shape, dtype};
}

Tensor CudaDevice::to_device(const Tensor& x) {
  if (&x.device() == this) return x;
  const Tensor host = anabranch::to_host(x);
  Tensor y = empty(host.shape(), host.dtype());
  if (host.nbytes() == 0) return y;
  context_->copy_to_device(data<void>(y, "to_device"), host.data<char>(), host.nbytes());
  context_->synchronize();  // `host` may be freed afterwards
  return y;
}

Tensor CudaDevice::to_host(const Tensor& x) {
  if (x.device().is_host()) return x;
  Tensor y = empty_host(x.shape(), x.dtype());
  if (x.nbytes() > 0) context_->copy_to_host(y.data<char>(), data<void>(x, "to_host"), x.nbytes());
  return y;
}

Tensor CudaDevice::copy(const Tensor& x, const char* op) {
  Tensor y = empty(x.shape(), x.dtype());
  if (x.nbytes() > 0) context_->copy_on_device(data<void>(y, op), data<void>(x, op), x.nbytes());
  return y;
}

Block CudaDevice::upload(const void* from, size_t bytes) {
  Block to = scratch(bytes);
  staging_.copy(to.address(), from, bytes);
  return to;
}

void CudaDevice::prepare_kernels(const std::function<void()>& passes) {
  kernels_.note();
  for (const auto& other : other_ranks()) cuda_device(*other).kernels_.note();
  try {
    passes();
  } catch (const std::exception& e) {  // no memory for such passes: the kernels noted so far are compiled
    log_debug("kernels that are not compiled before they are needed: {}", e.what());
  }
  kernels_.compile_noted();
  for (const auto& other : other_ranks()) cuda_device(*other).kernels_.compile_noted();
  // If little memory is free, return the memory of these passes: it is needed for weights and states
  // (engine/memory_plan.cc).
  if (free_bytes() >= memory_bytes() / 2) return;
  trim();
  for (const auto& other : other_ranks()) cuda_device(*other).trim();
}

void CudaDevice::trim() {
  context_->synchronize();
  pool_.trim();
}

unsigned* CudaDevice::tile_counters() {
  if (tile_counters_.empty()) tile_counters_ = zeros({kMostSplitTiles}, Dtype::i32);
  return data<unsigned>(tile_counters_, "linear");
}

const float* CudaDevice::frequencies(std::span<const float> inv_freq) {
  for (const Frequencies& known : frequencies_)
    if (std::equal(known.host.begin(), known.host.end(), inv_freq.begin(), inv_freq.end()))
      return data(known.device, "rope");
  Tensor x = empty_host({static_cast<int>(inv_freq.size())}, Dtype::f32);
  std::copy(inv_freq.begin(), inv_freq.end(), x.data<float>());
  frequencies_.push_back({{inv_freq.begin(), inv_freq.end()}, to_device(x)});
  return data(frequencies_.back().device, "rope");
}

const unsigned long long* CudaDevice::table(std::span<const unsigned long long> entries) {
  constexpr size_t kKept = 128;
  for (const Table& known : tables_)
    if (std::ranges::equal(known.host, entries)) return known.device.address<unsigned long long>();
  if (tables_.size() < kKept) tables_.emplace_back();
  Table& table = tables_[oldest_table_];
  oldest_table_ = (oldest_table_ + 1) % kKept;
  table.host.assign(entries.begin(), entries.end());
  table.device = upload(entries.data(), entries.size_bytes());
  return table.device.address<unsigned long long>();
}

unsigned long long* CudaDevice::expert_counters(const void* mixture, int experts) {
  const std::lock_guard lock(counters_mutex_);
  if (mixtures_.empty()) counters_ = zeros({kMostCounters, 8}, Dtype::u8);
  auto at = std::find_if(mixtures_.begin(), mixtures_.end(), [&](const Mixture& known) {
    return known.weights == mixture && known.experts == experts;
  });
  if (at == mixtures_.end()) {
    const int first = mixtures_.empty() ? 0 : mixtures_.back().first + mixtures_.back().experts;
    if (first + experts > kMostCounters) return nullptr;
    at = mixtures_.insert(at, {mixture, first, experts});
  }
  return data<unsigned long long>(counters_, "experts") + at->first;
}

void CudaDevice::plan_experts(uint64_t experts, uint64_t others) {
  expert_share_ = 1;
  if (experts == 0) return;
  // Packed weights take up to 15 % more than weights in files; an eighth of the device is reserved for
  // states.
  constexpr double kPacked = 1.15;
  const double free = static_cast<double>(context_->free_memory()),
               room = expert_bytes_ > 0 ? static_cast<double>(expert_bytes_)
                                        : free - kPacked * static_cast<double>(others) -
                                              static_cast<double>(memory_bytes()) / 8;
  expert_share_ = std::clamp(room / (kPacked * static_cast<double>(experts)), 0.0, 1.0);
  if (expert_share_ < 1)
    log_info(
        "{:.0f} % of the experts ({:.1f} GB) lie in the device's memory, all in the machine's; those used "
        "most change places with the others",
        100 * expert_share_, kPacked * expert_share_ * static_cast<double>(experts) / 1e9);
}

void CudaDevice::reserve_stage(size_t bytes) {
  if (bytes <= stage_bytes_) return;
  stage_ = {};
  stage_ = scratch(2 * bytes);
  stage_bytes_ = bytes;
}

std::vector<std::vector<uint64_t>> CudaDevice::expert_rows() {
  std::unique_lock lock(counters_mutex_);
  const std::vector<Mixture> mixtures = mixtures_;
  const Tensor counters = counters_;
  lock.unlock();  // before the copy, which waits for the device
  std::vector<std::vector<uint64_t>> out;
  const auto with_other_ranks = [&] {
    for (const auto& other : other_ranks())
      for (auto& rows : other->expert_rows()) out.push_back(std::move(rows));
    return out;
  };
  if (mixtures.empty()) return with_other_ranks();
  const Tensor host = to_host(counters.slice_rows(0, mixtures.back().first + mixtures.back().experts));
  for (const Mixture& mixture : mixtures) {
    out.emplace_back(static_cast<size_t>(mixture.experts));
    std::memcpy(out.back().data(), host.data<uint8_t>() + int64_t{mixture.first} * 8, out.back().size() * 8);
  }
  return with_other_ranks();
}

void CudaDevice::refuse(const Tensor& x, const char* op) const {
  throw std::invalid_argument(
      fmt::format("[{}] an operand is not on this device, but on {}", op, x.device().name()));
}

MachineLimits measure_limits(Device& device) {
  CudaDevice& on = cuda_device(device);
  return {copy_rate(on.context()) / 1e9, 0, on.info().tensor_flops / 1e9, 0};
}

}  // namespace anabranch::ops::cuda
