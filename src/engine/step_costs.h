// How long steps of the engine take, learnt from the steps that were made. Pure arithmetic: no clock, no
// arrays.
//
// A step with prefill is modelled as
//     decode(rows) + fixed + token * tokens + position * positions
// where `positions` is the sum, over the prompt tokens of the step, of their positions in their sequences:
// the work of attention. `fixed` matters on a GPU, where a pass over 60 tokens takes nearly as long as one
// over 200. The three costs are fitted to recent steps; decode(rows) is measured in steps without prefill.
#pragma once

#include <array>
#include <vector>

namespace anabranch {

// What a step does, as far as its time depends on it.
struct StepLoad {
  int decoding = 0;       // sequences that decode
  int prompt_tokens = 0;  // of all others
  double positions = 0;   // sum of the prompt tokens' positions
};

class StepCosts {
 public:
  using Terms = std::array<double, 3>;  // tokens, positions, fixed

  // Seconds of a step in which so many sequences decode and nothing else happens; 0: not known.
  double decode_s(int decoding) const;
  // Whether such a step should be made, and measured, before prefill is planned beside so many sequences.
  bool should_measure(int decoding) const;
  // Seconds that so much prefill adds to a step in which other sequences decode. An estimate for more tokens
  // than were tried lately is cautious: it does not assume that large passes are cheaper per token.
  double prefill_s(int tokens, double positions) const;
  // How many prompt tokens the next step beside decoding sequences may have at most, for lack of experience;
  // 0: nothing is known.
  int most_tokens() const;
  void observe(const StepLoad& load, double seconds);

 private:
  void observe_decode(int decoding, double seconds);
  void observe_prefill(const StepLoad& load, double seconds);

  std::vector<double> decode_s_;  // [decoding]; 0: not known
  Terms costs_{};                 // seconds for one unit of each term
  double tried_ = 0;              // the largest number of prompt tokens in a recent step
  double largest_ = 0;            // the same over many more steps
  int observed_ = 0;              // steps with prefill that taught the costs
  bool beside_ = false;           // one of them was beside decoding sequences
  int steps_beside_ = 0;          // such steps since the last one without prefill
};

}  // namespace anabranch
