// A weight matrix [out, in] on a device, in the layout that the backend's matrix products read.
// base/weight_source.h says where its values come from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/weight_source.h"
#include "tensor/device.h"

namespace anabranch::ops {

class Weight {
 public:
  // Reads every row once and packs it for the device, on all its threads. Aborts on a source that breaks the
  // rules of base/weight_source.h; sources are checked where files are read. experts: the number of experts,
  // if the source is their stacked matrices.
  static Weight make(Device& device, const WeightSource& source, int experts = 0);

  int64_t out_features() const { return rows_; }
  int64_t in_features() const { return cols_; }
  WeightKind kind() const { return kind_; }
  int bits() const { return bits_; }
  int group() const { return group_; }
  const std::string& name() const { return name_; }  // WeightSource::name
  // Bytes that one pass over the whole matrix reads.
  uint64_t bytes() const { return storage_->bytes; }

  Device& device() const { return *device_; }
  // Defined by each backend (ops/cpu/packed.h, ops/cuda/weight.h, ops/reference/weight.h).
  struct Storage {
    virtual ~Storage() = default;
    uint64_t bytes = 0;
  };
  const Storage& storage() const { return *storage_; }

 private:
  Device* device_ = nullptr;
  int64_t rows_ = 0, cols_ = 0;
  WeightKind kind_ = WeightKind::f32;
  int bits_ = 0, group_ = 0;
  std::string name_;
  std::shared_ptr<const Storage> storage_;
};

}  // namespace anabranch::ops
