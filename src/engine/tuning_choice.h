// Chooses a setting by measured rates. Other programs on the machine make measurements slower, never quicker,
// and in bursts: so every value is measured in each round, and one slow measurement decides nothing.
#pragma once

#include <vector>

namespace anabranch {

struct MeasuredRates {
  std::vector<int> values;                  // ascending
  std::vector<std::vector<double>> rounds;  // tok/s of each value, a row per round; at least one

  // The quickest of the rounds; `value` is one of `values`.
  double best(int value) const;
};

// The usual value, unless another is clearly quicker: in its best round, and in three quarters of the rounds
// beside the usual one. Of those that are, the smallest that is about as quick as the quickest.
int choose_quickest(const MeasuredRates& measured, int usual);

// The number of streams to run together: each doubling must deliver markedly more tokens, but a doubling that
// was measured badly does not end the search. Never one that delivers less than the usual number. least: of
// streams.
int choose_streams(const MeasuredRates& measured, int usual, int least);

}  // namespace anabranch
