// A group of CUDA devices of one host: each writes what the others need into their memory, over NVLink or
// PCIe.
//
// Every rank has an arena of kSlots slots, at the same places; exchange i goes to slot i modulo kSlots. A
// slot may be written again kSlots exchanges later: from those between a rank knows that the others have gone
// past every kernel that reads it. In a gather each rank waits for all others; of the broadcasts, whose root
// may receive nothing, every (kSlots / 2)th makes it wait, too.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/collective.h"

namespace anabranch::ops::cuda {

// The ends of a group. Error: unsupported (a device cannot reach another's memory).
Result<std::vector<std::shared_ptr<Collective>>> make_collectives(std::span<Device* const> devices);

}  // namespace anabranch::ops::cuda
