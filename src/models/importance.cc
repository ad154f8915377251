#include "models/importance.h"

namespace anabranch {

void ImportanceCollector::observe(const ops::Weight& weight, int expert, const float* rows, int64_t count) {
  if (weight.name().empty()) return;
  const auto width = static_cast<size_t>(weight.in_features());
  std::vector<Sums>& experts = sums_[weight.name()];
  if (experts.size() <= static_cast<size_t>(expert)) experts.resize(static_cast<size_t>(expert) + 1);
  Sums& sums = experts[static_cast<size_t>(expert)];
  sums.squares.resize(width);
  sums.rows += count;
  for (int64_t r = 0; r < count; r++, rows += width)
    for (size_t i = 0; i < width; i++) sums.squares[i] += static_cast<double>(rows[i]) * rows[i];
}

Importance ImportanceCollector::importance() const {
  Importance out;
  for (const auto& [name, experts] : sums_)
    for (const Sums& sums : experts) {
      std::vector<float>& means = out[name].emplace_back();
      for (const double sum : sums.squares) means.push_back(static_cast<float>(sum / double(sums.rows)));
    }
  return out;
}

}  // namespace anabranch
