#include "ops/cuda/split_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace anabranch::ops::cuda {

SplitExperts::SplitExperts(Context& context, std::span<const uint8_t> bytes, int experts, int resident)
    : context_(context),
      expert_bytes_(bytes.size() / static_cast<size_t>(experts)),
      slot_(static_cast<size_t>(experts), -1),
      held_(static_cast<size_t>(resident)),
      addresses_(static_cast<size_t>(experts)) {
  const auto on_device = [&](size_t wanted) {
    void* p = context.allocate(std::max<size_t>(wanted, 1));
    if (!p) throw std::runtime_error(fmt::format("CUDA: no {} MB are left for experts", wanted >> 20));
    return std::shared_ptr<void>(p, [&context](void* memory) { context.release(memory); });
  };
  void* pinned = context.allocate_pinned(bytes.size());
  if (!pinned)
    throw std::runtime_error(fmt::format(
        "CUDA: the machine has no {} MB of memory left for the experts that the device does not hold",
        bytes.size() >> 20));
  host_ = {pinned, [&context](void* memory) { context.release_pinned(memory); }};
  std::memcpy(pinned, bytes.data(), bytes.size());
  slots_ = on_device(expert_bytes_ * static_cast<size_t>(resident));
  table_ = on_device(addresses_.size() * sizeof(addresses_[0]));
  std::iota(held_.begin(), held_.end(), 0);
  std::iota(slot_.begin(), slot_.begin() + resident, 0);
  if (resident > 0)
    context.copy_to_device(slots_.get(), pinned, expert_bytes_ * static_cast<size_t>(resident));
  for (int e = 0; e < experts; e++)
    addresses_[static_cast<size_t>(e)] =
        reinterpret_cast<unsigned long long>(e < resident ? in_slot(e) : in_host(e));
  write_table();
  context.synchronize();
}

unsigned char* SplitExperts::in_host(int expert) const {
  return static_cast<unsigned char*>(host_.get()) + static_cast<size_t>(expert) * expert_bytes_;
}
unsigned char* SplitExperts::in_slot(int slot) const {
  return static_cast<unsigned char*>(slots_.get()) + static_cast<size_t>(slot) * expert_bytes_;
}

std::vector<unsigned long long> SplitExperts::bring_missing(void* to) const {
  std::vector<unsigned long long> addresses = addresses_;
  auto* next = static_cast<unsigned char*>(to);
  for (int first = 0, end; first < experts(); first = end + 1) {
    for (end = first; end < experts() && !on_device(end); end++) {  // adjacent experts in one copy
      addresses[static_cast<size_t>(end)] = reinterpret_cast<unsigned long long>(next);
      next += expert_bytes_;
    }
    const size_t bytes = expert_bytes_ * static_cast<size_t>(end - first);
    if (bytes > 0) context_.copy_to_device(next - bytes, in_host(first), bytes);
  }
  return addresses;
}

void SplitExperts::replace(int leaving, int arriving) {
  const auto from = static_cast<size_t>(leaving), to = static_cast<size_t>(arriving);
  const int slot = std::exchange(slot_[from], -1);
  slot_[to] = slot;
  held_[static_cast<size_t>(slot)] = arriving;
  context_.copy_to_device(in_slot(slot), in_host(arriving), expert_bytes_);
  addresses_[from] = reinterpret_cast<unsigned long long>(in_host(leaving));
  addresses_[to] = reinterpret_cast<unsigned long long>(in_slot(slot));
}

void SplitExperts::write_table() {
  context_.copy_to_device(table_.get(), addresses_.data(), addresses_.size() * sizeof(addresses_[0]));
}

std::vector<Swap> choose_swaps(const SplitExperts& experts, std::span<const uint64_t> rows, int most) {
  std::vector<int> out, in;
  for (int e = 0; e < experts.experts(); e++) (experts.on_device(e) ? out : in).push_back(e);
  const auto of = [&](int e) { return rows[static_cast<size_t>(e)]; };
  std::ranges::stable_sort(in, [&](int a, int b) { return of(a) > of(b); });
  std::ranges::stable_sort(out, [&](int a, int b) { return of(a) < of(b); });
  std::vector<Swap> swaps;
  for (size_t i = 0; i < std::min(in.size(), out.size()) && static_cast<int>(i) < most; i++) {
    if (of(in[i]) == 0 || of(in[i]) < 2 * of(out[i])) break;
    swaps.push_back({out[i], in[i]});
  }
  return swaps;
}

}  // namespace anabranch::ops::cuda
