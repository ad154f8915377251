// Which CpuKernels table runs.
#pragma once

#include <string>
#include <vector>

#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {

// Names of the targets that this build has and this machine can run, best first.
std::vector<std::string> runnable_targets();
// False if it is none of them.
bool set_target(const std::string& name);

}  // namespace anabranch::ops::cpu
