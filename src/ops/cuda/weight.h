// A matrix in the layout that the tensor cores read. A record is 16 rows by 64 inputs, and a row of records
// covers 16 rows. Each of the 32 lanes of a warp finds its part of a record's fragments (kernels/weights.cuh)
// in consecutive bytes. Codes of up to 4 bits are one plane of nibbles, longer ones two; E4M3 numbers are
// bytes; f16 and f32 values are two planes of bf16 (value and remainder: exact for f16, to 16 bits for f32).
// Scales, and biases of integer codes, follow the codes, rounded to bf16. Codes with a table that is not in
// kernels/args.h are decoded to values.
#pragma once

#include <memory>
#include <span>

#include "base/thread_pool.h"
#include "ops/cuda/kernels/variants.h"
#include "ops/cuda/split_experts.h"
#include "ops/weight.h"

namespace anabranch::ops::cuda {

inline bool operator==(const RecordFormat& a, const RecordFormat& b) {
  return a.kind == b.kind && a.planes == b.planes && a.groups == b.groups;
}

// Whether it stores values, not codes.
bool is_plain(const RecordFormat& format);

struct DeviceWeight : Weight::Storage {
  RecordFormat format{};
  int input_tiles = 0;
  std::shared_ptr<unsigned char> memory;  // on the device; null: they are split experts
  std::shared_ptr<SplitExperts> split;

  // The address table for kernels; null unless split.
  const unsigned long long* table() const { return split ? split->table() : nullptr; }
};

// Bytes of a record of this format.
int record_bytes(const RecordFormat& format);

// A matrix in host memory, in this layout.
struct PackedRecords {
  RecordFormat format{};
  int input_tiles = 0;
  std::unique_ptr<uint8_t[]> memory;
  size_t size = 0;

  std::span<const uint8_t> bytes() const { return {memory.get(), size}; }
};
PackedRecords pack(const WeightSource& source, ThreadPool& threads);

std::shared_ptr<const Weight::Storage> make_weight(Device& device, const WeightSource& source);
// Experts for which CudaDevice::plan_experts() leaves no room on the device stay in the machine's memory.
std::shared_ptr<const Weight::Storage> make_experts(Device& device, const WeightSource& source, int experts);

inline const DeviceWeight& stored(const Weight& w) {
  return static_cast<const DeviceWeight&>(w.storage());
}

}  // namespace anabranch::ops::cuda
