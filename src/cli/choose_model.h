// Asks a person who names no model which one to take.
#pragma once

#include <string>

#include "base/result.h"
#include "ops/device_options.h"

namespace anabranch::cli {

struct ModelChoice {
  std::string model;   // for --model; it may have to be pulled
  std::string device;  // for --device
};

// Whether there is a terminal to ask on.
bool can_ask();

// Offers models that suit this machine and returns the chosen one. With `yes` it asks nothing and takes the
// first. command: the sub-command, for advice. device: as flags and settings have it; with `any_device` they
// name none, and a GPU with room for a model is preferred. Takes about a second. Errors: exhausted (nothing
// fits this machine, or its disk), invalid (the input ended), and those of opening the device.
Result<ModelChoice> choose_model(const std::string& command, const ops::DeviceOptions& device,
                                 bool any_device, bool yes);

}  // namespace anabranch::cli
