#pragma once
// The name of a model, from the path of its files.

#include <string>

namespace anabranch {

// The name of the model at a path: the last part of the path, without ".gguf" and the number of a split
// model's part. For a snapshot in the store of Hugging Face's tools (hub/store.h), the repository,
// "ORG/NAME".
std::string model_name_of(const std::string& path);

}  // namespace anabranch
