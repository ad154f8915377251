// Chooses a setting by measured rates. Other programs on the machine make measurements slower, never faster,
// and do so in bursts: so every value is measured in each round, and one slow measurement decides nothing.
#pragma once

#include <vector>

namespace anabranch {

struct MeasuredRates {
  std::vector<int> values;                  // ascending
  std::vector<std::vector<double>> rounds;  // tok/s of each value, a row per round; at least one

  // The best rate of `value` in any round; `value` must be one of `values`.
  double best(int value) const;
};

// Returns `usual`, unless another value is clearly faster: its best round is faster than the best round of
// `usual`, and it is faster than `usual` in three quarters of the rounds. Among several such values, returns
// the smallest that is about as fast as the fastest.
int choose_quickest(const MeasuredRates& measured, int usual);

// The number of streams to run together: the one with the best rate after a division by 1.1 for each doubling
// of the number; at least `least`. All numbers are compared, so one bad measurement does not decide. Not
// fewer than `usual` if that costs more than 3 % of the rate.
int choose_streams(const MeasuredRates& measured, int usual, int least);

}  // namespace anabranch
