#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/collective.h"

namespace anabranch::ops::cpu {

// Makes one Collective for each CPU device of a group. They all share the host's memory.
std::vector<std::shared_ptr<Collective>> make_collectives(std::span<Device* const> devices);

}  // namespace anabranch::ops::cpu
