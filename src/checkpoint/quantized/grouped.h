// Turns codes with groups of any length into weight sources, which support only a few group lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/weight_source.h"

namespace anabranch {

struct GroupedCodes {
  // The fields of a coded source, except `group` and its readers.
  WeightSource format;
  int64_t group = 0;   // inputs that share a scale: [1, cols]; a row's last group may be shorter
  int64_t groups = 0;  // of a row
  // The group of each input (desc_act), if that is not input / group. Null otherwise.
  std::shared_ptr<const std::vector<int32_t>> group_of = nullptr;
  // codes [count, cols]
  std::function<void(int64_t first, int64_t count, uint8_t* codes)> read_codes;
  // scales [count, groups], scale_factor included, and biases [count, groups] (left alone when symmetric)
  std::function<void(int64_t first, int64_t count, float* scales, float* biases)> read_scales;
};

// Long groups are split into groups of a supported length, with the same scale. If no supported length fits,
// or the inputs of a group are not adjacent, the source has kind f32 and the exact values.
WeightSource grouped_source(GroupedCodes codes);

// The number of groups of `group` inputs in a row.
inline int64_t group_count(int64_t cols, int64_t group) {
  return (cols + group - 1) / group;
}

}  // namespace anabranch
