#include "checkpoint/importance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace anabranch {

// A share of the mean is added: inputs that were small on the calibration text may be larger on other texts.
std::vector<std::vector<float>> relative_importance(const Importance& importance, std::string_view name,
                                                    int64_t columns) {
  constexpr float kFloor = 0.1f;
  const auto found = importance.find(name);
  if (found == importance.end()) return {};
  std::vector<std::vector<float>> out = found->second;
  for (std::vector<float>& expert : out) {
    if (static_cast<int64_t>(expert.size()) != columns) expert.clear();
    const double mean = std::accumulate(expert.begin(), expert.end(), 0.0) / double(columns);
    if (!(mean > 0) || !std::isfinite(mean)) expert.clear();
    for (float& v : expert) v = static_cast<float>(v / mean) + kFloor;
  }
  if (std::ranges::all_of(out, [](const auto& expert) { return expert.empty(); })) out.clear();
  return out;
}

std::string calibration_warning(const std::string& path) {
  return path + " is quantised already, where calibration may do harm: convert the original weights";
}

}  // namespace anabranch
