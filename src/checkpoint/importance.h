// How much each input of a matrix matters to quantisation: the mean of its squares on text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

// Mean squares [inputs] by the tensor's name ("model.layers.0.mlp.up_proj.weight"), then by expert (one entry
// for a matrix without experts). Empty for an expert that no token reached.
using Importance = std::map<std::string, std::vector<std::vector<float>>, std::less<>>;

// The weight of each column of a tensor, by expert: its mean square divided by the mean over all columns, so
// that matrices count alike in a report, plus a floor. Empty if there are no valid mean squares.
std::vector<std::vector<float>> relative_importance(const Importance& importance, std::string_view name,
                                                    int64_t columns);

// The warning that calibration may harm a source that is quantised already.
std::string calibration_warning(const std::string& path);

}  // namespace anabranch
