// Summarizes repeated measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace anabranch::cli {

struct Spread {
  double low = 0, median = 0, high = 0;
};

// values: at least one.
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  const double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return {values.front(), median, values.back()};
}

}  // namespace anabranch::cli
