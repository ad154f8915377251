// Wall time per named stage of a forward pass, on the thread that runs the model. Off by default; a stage
// then costs one test of a flag. Stages do not nest: an inner stage is charged to the outer one.
#pragma once

#include "tensor/device.h"

namespace anabranch::ops {

// Starts counting from zero (true), or stops (false). The counts are in device.profile().rows.
void set_profiling(Device& device, bool on);

// Charges its lifetime to `stage`, a string literal. Used on the thread that runs the device's models.
class Stage {
 public:
  Stage(Device& device, const char* stage);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  Device& device_;
  const char* stage_;  // null when not counting
  double start_ = 0;
};

}  // namespace anabranch::ops
