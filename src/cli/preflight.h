// Checks whether this build can run a model before its weights are downloaded, by reading its small files and
// the headers of its weights with the code that loads models.
#pragma once

#include <string>

#include "hub/inspection.h"

namespace anabranch::cli {

// The checks that hub::pull() and hub::look_up() make before weights are downloaded.
const hub::Inspector& inspector();

// Why a stored model cannot be run; "": no known reason. The tokenizer is not checked.
std::string why_it_cannot_run(const std::string& path);

}  // namespace anabranch::cli
