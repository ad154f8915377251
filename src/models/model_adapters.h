// Adapters for a loaded model's linear layers.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/adapter_file.h"
#include "models/model.h"

namespace anabranch {

// Whether an adapter fits the model. Errors: invalid (a module of another shape), unsupported (a module that
// adapters cannot change, such as experts, or that the model does not have; layers on several devices).
Result<void> check_adapter(const Model& model, const AdapterFile& file);

// The linear layers that the file's modules change, by input: they go on the device together. Those that were
// dropped are left out.
std::vector<std::vector<const nn::Linear*>> adapted_inputs(const Model& model, const AdapterFile& file);

// Puts the modules of an input's layers on the device, from a file that fits, for the states that the adapter
// shall change (SequenceState::set_adapters).
void add_to_adapter(nn::Adapter& adapter, const Model& model, const AdapterFile& file,
                    std::span<const nn::Linear* const> layers);

}  // namespace anabranch
