// The choices by which one linear recurrence (ops/recurrence.h) becomes Gated DeltaNet, KDA, Mamba2 or
// lightning attention. Plain data, which kernels read, too.
#pragma once

namespace anabranch::ops {

struct RecurrenceRule {
  enum class Beta : unsigned char {
    sigmoid,   // sigmoid(b)
    sigmoid2,  // 2 sigmoid(b)
    step,      // softplus(a + dt_bias), from step_min to step_max; the decay has the same step
    one,
  };
  enum class Decay : unsigned char {
    softplus,  // exp(-exp(a_log) softplus(a + dt_bias))
    bounded,   // exp(bound sigmoid(exp(a_log) (a + dt_bias)))
    constant,  // exp(-exp(a_log))
  };
  // Where the norm of the outputs is. `none`: there is only the gate.
  enum class Norm : unsigned char { before_gate, after_gate, none };

  bool delta = true;       // false: d = beta v
  bool key_decay = false;  // g is a vector of Dk for each head; not with Beta::step
  bool unit_keys = true;   // queries and keys are normalised, and queries scaled by Dk^-1/2
  Beta beta = Beta::sigmoid;
  Decay decay = Decay::softplus;
  float bound = 0;  // negative
  float step_min = 0, step_max = 3.4e38f;
  bool conv_bias = false;
  bool skip = false;  // y += skip v
  Norm norm = Norm::before_gate;
  // Outputs that are normalised together. 0: each head alone, and all with one weight [Dv]; otherwise a
  // divisor of Hv * Dv, with a weight for each output.
  int norm_group = 0;

  bool operator==(const RecurrenceRule&) const = default;

  bool needs_b() const { return beta == Beta::sigmoid || beta == Beta::sigmoid2; }
  bool needs_a() const { return decay != Decay::constant || beta == Beta::step; }
  bool norms_rows() const {
    return norm == Norm::after_gate || (norm == Norm::before_gate && norm_group > 0);
  }
};

}  // namespace anabranch::ops
