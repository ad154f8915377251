// One matrix of each expert of a mixture, when the device's memory holds only some of them: kernels read the
// others from the machine's memory, over the bus. All experts are stored in pinned host memory; those on the
// device are copies, which change with the use of experts. Results do not depend on which experts are on the
// device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/cuda/driver.h"

namespace anabranch::ops::cuda {

class SplitExperts {
 public:
  // bytes: of all experts, one after the other. The first `resident` experts are copied to the device. Throws
  // std::runtime_error when there is no memory.
  SplitExperts(Context& context, std::span<const uint8_t> bytes, int experts, int resident);
  SplitExperts(const SplitExperts&) = delete;
  SplitExperts& operator=(const SplitExperts&) = delete;

  int experts() const { return static_cast<int>(slot_.size()); }
  int resident() const { return static_cast<int>(held_.size()); }
  bool on_device(int expert) const { return slot_[static_cast<size_t>(expert)] >= 0; }
  // The address of each expert's records: [experts] addresses, in the device's memory.
  const unsigned long long* table() const { return static_cast<const unsigned long long*>(table_.get()); }
  // Bytes of the experts that are not on the device.
  size_t missing_bytes() const { return expert_bytes_ * static_cast<size_t>(experts() - resident()); }
  // Copies those experts to `to`, on the stream, and returns the resulting address of each expert: [experts]
  // addresses, which the caller copies to the device.
  std::vector<unsigned long long> bring_missing(void* to) const;

  // Copies `arriving` to the place of `leaving`, which is on the device. On the stream; table() changes only
  // with write_table().
  void replace(int leaving, int arriving);
  void write_table();

  // Statistics for the caller, who decides about replace(): calls of the mixture, and rows of each expert at
  // the last decision.
  struct Use {
    int calls = 0;
    std::vector<uint64_t> rows;
  } use;

 private:
  unsigned char* in_host(int expert) const;
  unsigned char* in_slot(int slot) const;

  Context& context_;
  size_t expert_bytes_;
  std::shared_ptr<void> host_, slots_, table_;
  std::vector<int> slot_, held_;  // each expert's slot, or -1; the expert in each slot
  std::vector<unsigned long long> addresses_;
};

// The swaps that bring the experts with the most `rows` to the device, at most `most`, the busiest first:
// pairs of leaving and arriving experts. An expert is only replaced by one that has at least twice as many
// rows.
struct Swap {
  int leaving, arriving;
};
std::vector<Swap> choose_swaps(const SplitExperts& experts, std::span<const uint64_t> rows, int most);

}  // namespace anabranch::ops::cuda
