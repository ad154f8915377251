// Adapters for a loaded model's linear layers.
#pragma once

#include <string>

#include "checkpoint/adapter_file.h"
#include "models/model.h"

namespace anabranch {

// Whether an adapter fits the model. Errors: invalid (a module of another shape), unsupported (a module that
// adapters cannot change, such as experts, or that the model does not have; layers on several devices).
Result<void> check_adapter(const Model& model, const AdapterFile& file);

// Puts a module of an adapter that fits on the device, for the states that the adapter shall change
// (SequenceState::set_adapters). Modules of layers that were dropped are left out.
void add_to_adapter(nn::Adapter& adapter, const Model& model, const std::string& module,
                    const LowRankMatrices& matrices);

}  // namespace anabranch
