// Rotary positions (Su et al. 2021): the rotation of a layer's queries and keys by their position. The angles
// depend only on the position, so a key is the same whichever pass computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace anabranch::ops {

struct Rope {
  std::vector<float> inv_freq;    // [rotated dims / 2], the angle of one position
  float attention_factor = 1.0f;  // multiplies sines and cosines

  // From position far_from on (0: nowhere) other frequencies apply: far_inv_freq (LongRoPE), or, if it is
  // empty, those of the base  far_theta * (far_factor (p + 1) / far_from - far_factor + 1)^(d / (d - 2)) with
  // d rotated dims (dynamic NTK).
  int far_from = 0;
  std::vector<float> far_inv_freq = {};
  double far_theta = 0, far_factor = 0;

  // Queries are also multiplied by 1 + query_beta * log(1 + floor(position / query_period)) (Llama 4,
  // Ministral 3). All dimensions must be rotated then.
  float query_beta = 0;
  int query_period = 1;

  // For each frequency, the index of the position that rotates it, among a row's positions (Qwen's mrope has
  // time, row and column); empty: a row has one position. A rope with axes has the same frequencies and
  // factors at every position.
  std::vector<uint8_t> axis = {};
  int axes() const;  // number of positions per row

  bool is_dynamic() const { return far_from > 0 && far_inv_freq.empty(); }
  bool operator==(const Rope&) const = default;
};

// The number of positions per row, given the positions of all `rows` rows: axes(), or 1 if the positions of
// each row are equal. Throws std::invalid_argument, naming `op`, if they do not fit, or if the rope itself is
// wrong.
int positions_of_row(const char* op, const Rope& rope, std::span<const int> positions, int rows);

// Writes the cosines and sines [inv_freq.size()] of a row's positions, times the factors.
void rope_angles(const Rope& rope, std::span<const int> positions, bool queries, float* cosines,
                 float* sines);

// Half-split ("NeoX") layout: with d = inv_freq.size(), dimension i < d of a head is paired with dimension i
// + d and rotated; dimensions >= 2d pass through. x [M, heads, D] -> same. Angles are computed in double
// precision. positions: [M] or [M * axes()]. Reference: Transformers' apply_rotary_pos_emb and
// modeling_rope_utils.py.
Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries = false);

}  // namespace anabranch::ops
