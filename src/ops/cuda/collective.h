// A group of CUDA devices of one host: each device writes directly to the memory of the others, over NVLink
// or PCIe.
//
// Every rank has an arena of kSlots slots with the same layout; exchange i uses slot i modulo kSlots. A slot
// is written again kSlots exchanges later. By then the rank knows, from the exchanges in between, that the
// others have passed every kernel that reads the slot: in a gather each rank waits for all others, and in
// every (kSlots / 2)th broadcast the root waits too, which otherwise receives nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/collective.h"

namespace anabranch::ops::cuda {

// The ends of a group. Error: unsupported (a device cannot reach another's memory).
Result<std::vector<std::shared_ptr<Collective>>> make_collectives(std::span<Device* const> devices);

}  // namespace anabranch::ops::cuda
