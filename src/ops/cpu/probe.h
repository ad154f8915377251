#pragma once

#include "ops/probe.h"

namespace anabranch::ops::cpu {

MachineLimits measure_limits(Device& device);

}  // namespace anabranch::ops::cpu
