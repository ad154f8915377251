#include "engine/tuning_choice.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace anabranch {
namespace {

constexpr double kAlike = 1.03;         // a smaller difference is noise
constexpr double kWorthDoubling = 1.1;  // twice as many streams must deliver this much more

size_t index_of(const MeasuredRates& measured, int value) {
  const auto at = std::ranges::find(measured.values, value);
  CHECK(at != measured.values.end());
  return static_cast<size_t>(at - measured.values.begin());
}

// The ratio of the two rates that three quarters of the rounds reach or exceed. A quarter may be lower,
// because a value that needs the whole machine is disturbed more often.
double lower_ratio(const MeasuredRates& measured, int value, int other) {
  std::vector<double> ratios;
  for (const auto& round : measured.rounds)
    ratios.push_back(round[index_of(measured, value)] / round[index_of(measured, other)]);
  const auto quarter = ratios.begin() + static_cast<ptrdiff_t>(ratios.size() / 4);
  std::ranges::nth_element(ratios, quarter);
  return *quarter;
}

}  // namespace

double MeasuredRates::best(int value) const {
  double best = 0;
  for (const auto& round : rounds) best = std::max(best, round[index_of(*this, value)]);
  return best;
}

int choose_quickest(const MeasuredRates& measured, int usual) {
  const auto is_better = [&](int value) {
    return value == usual ||
           (measured.best(value) > kAlike * measured.best(usual) && lower_ratio(measured, value, usual) > 1);
  };
  double top = 0;
  for (const int value : measured.values)
    if (is_better(value)) top = std::max(top, measured.best(value));
  if (measured.best(usual) * kAlike >= top) return usual;
  for (const int value : measured.values)
    if (is_better(value) && measured.best(value) * kAlike >= top) return value;
  return usual;
}

int choose_streams(const MeasuredRates& measured, int usual, int least) {
  int chosen = measured.values.front();
  double top = 0;
  for (const int streams : measured.values) {
    const double worth = measured.best(streams) / std::pow(kWorthDoubling, std::log2(streams));
    if (worth <= top) continue;
    top = worth;
    chosen = streams;
  }
  chosen = std::min(std::max(chosen, least), measured.values.back());
  return chosen < usual && measured.best(chosen) * kAlike < measured.best(usual) ? usual : chosen;
}

}  // namespace anabranch
