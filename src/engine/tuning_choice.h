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

// The usual value, unless another is clearly faster: in its best round, and next to the usual one in three
// quarters of the rounds. Of several such values, the smallest that is about as fast as the fastest.
int choose_quickest(const MeasuredRates& measured, int usual);

// The number of streams to run together: the one with the best rate after a division by 1.1 for each
// doubling, so one bad measurement does not end the search; at least `least`. Not fewer than `usual` if that
// costs more than 3 % of the rate.
int choose_streams(const MeasuredRates& measured, int usual, int least);

}  // namespace anabranch
