// How much each input of a matrix matters to quantisation: the mean of its squares on text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

// By the name of the tensor ("model.layers.0.mlp.up_proj.weight"), then by expert (one entry for a matrix
// without experts): mean squares [inputs], or nothing for an expert that no token reached.
using Importance = std::map<std::string, std::vector<std::vector<float>>, std::less<>>;

// How much the columns of a tensor count, by expert: its mean squares over their mean, so that matrices count
// alike in a report, and a floor. Nothing where there are none, or none that make sense.
std::vector<std::vector<float>> relative_importance(const Importance& importance, std::string_view name,
                                                    int64_t columns);

// That calibration may do harm to a source that is quantised already.
std::string calibration_warning(const std::string& path);

}  // namespace anabranch
