// Whether this build can run a model whose weights are not there yet: its small files and the headers of its
// weights go through the readers that load a model.
#pragma once

#include <string>

#include "hub/inspection.h"

namespace anabranch::cli {

// For hub::pull() and hub::look_up().
const hub::Inspector& inspector();

// Why a stored model cannot be run; "": nothing is known that prevents it. The tokenizer is not looked at.
std::string why_it_cannot_run(const std::string& path);

}  // namespace anabranch::cli
