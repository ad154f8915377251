// How much each input of a matrix matters to quantisation: the mean of its squares on text.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace anabranch {

// By the name of the tensor ("model.layers.0.mlp.up_proj.weight"), then by expert (one entry for a matrix
// without experts): mean squares [inputs], or nothing for an expert that no token reached.
using Importance = std::map<std::string, std::vector<std::vector<float>>, std::less<>>;

}  // namespace anabranch
