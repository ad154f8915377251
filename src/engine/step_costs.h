// Estimates how long steps take, learnt from past steps. Pure arithmetic: no clock, no arrays.
//
// A step with prefill is modelled as
//     decode(rows) + fixed + token * tokens + position * positions
// where `positions` is the sum of the positions of the step's prompt tokens in their sequences; the work of
// attention is proportional to it. `fixed` matters on a GPU, where a pass over 60 tokens takes nearly as long
// as one over 200. The three costs are fitted to recent steps; decode(rows) is measured in steps without
// prefill.
#pragma once

#include <array>
#include <vector>

namespace anabranch {

// The properties of a step that determine its time.
struct StepLoad {
  int decoding = 0;       // sequences that decode
  int prompt_tokens = 0;  // prompt tokens of all other sequences
  double positions = 0;   // sum of the prompt tokens' positions
};

class StepCosts {
 public:
  using Terms = std::array<double, 3>;  // tokens, positions, fixed

  // Seconds of a decode-only step with `decoding` sequences; 0: unknown.
  double decode_s(int decoding) const;
  // Whether a decode-only step should be made and measured before prefill is added to `decoding` sequences.
  bool should_measure(int decoding) const;
  // Seconds that this much prefill adds to a step in which other sequences decode. Beyond the numbers of
  // tokens tried lately, the estimate does not assume that large passes are cheaper per token.
  double prefill_s(int tokens, double positions) const;
  // The most prompt tokens that the next step with decoding sequences may have, from the sizes tried so far;
  // 0: unknown.
  int most_tokens() const;
  void observe(const StepLoad& load, double seconds);

 private:
  void observe_decode(int decoding, double seconds);
  void observe_prefill(const StepLoad& load, double seconds);

  std::vector<double> decode_s_;  // [decoding]; 0: unknown
  Terms costs_{};                 // seconds for one unit of each term
  double tried_ = 0;              // the largest number of prompt tokens in a recent step
  double largest_ = 0;            // the same over many more steps
  int observed_ = 0;              // steps with prefill that the costs were fitted to
  bool beside_ = false;           // at least one of them had decoding sequences, too
  int steps_beside_ = 0;          // steps with prefill and decoding since the last decode-only step
};

}  // namespace anabranch
