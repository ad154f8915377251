#include "ops/probe.h"

#include "ops/table.h"

namespace anabranch::ops {

MachineLimits measure_limits(Device& device) {
  return device.ops().measure_limits(device);
}

}  // namespace anabranch::ops
