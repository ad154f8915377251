#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/collective.h"

namespace anabranch::ops::cpu {

// The ends of a group of CPU devices, whose memory is one.
std::vector<std::shared_ptr<Collective>> make_collectives(std::span<Device* const> devices);

}  // namespace anabranch::ops::cpu
