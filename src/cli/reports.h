// Reports of `doctor` and `verify` about the machine, and about a model's files before anything is loaded.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "models/model_spec.h"
#include "tensor/device.h"

namespace anabranch::cli {

// Program, processor, memory, kernels, and measured limits (takes about a second).
Json machine_report(Device& device);

// Prints "key value" lines, with objects indented.
void print_table(const Json& report, const std::string& indent);

// Why this number of bytes of weights does not fit the device; "": it fits.
std::string memory_problem(uint64_t bytes, const Device& device);

// The memory that weights and the KV cache share.
uint64_t memory_of(const Device& device);
// What is free of it now; 0: not known.
uint64_t free_memory_of(const Device& device);
// Bytes of all tensors.
uint64_t tensor_bytes(const Checkpoint& checkpoint);
// Parameters in all tensors except those for prediction (an MTP head). spec: null if the config cannot be
// read.
uint64_t parameters_in(const Checkpoint& checkpoint, const ModelSpec* spec);

// Why the model cannot be run, as far as the headers of its files show; empty: no known reason.
std::vector<Error> file_errors(const Checkpoint& checkpoint, const Device& device);
// file_errors() as texts, plus missing parts of the model.
std::vector<std::string> file_problems(const Checkpoint& checkpoint, const Device& device);
// file_problems(), plus whether the model fits the device; most important first.
std::vector<std::string> model_problems(const Checkpoint& checkpoint, const Device& device);

// Type, parameters, context length, tensors, sizes, and model_problems() as "problems".
Json model_report(const Checkpoint& checkpoint, const Device& device);

}  // namespace anabranch::cli
