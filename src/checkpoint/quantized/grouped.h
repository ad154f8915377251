// Codes whose scales are shared by groups of any length, as weight sources, whose groups are few lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/weight_source.h"

namespace anabranch {

struct GroupedCodes {
  // All of a coded source but `group` and its readers.
  WeightSource format;
  int64_t group = 0;   // inputs that share a scale: [1, cols]; a row's last group may be shorter
  int64_t groups = 0;  // of a row
  // The group of each input (desc_act), where that is not input / group. Null otherwise.
  std::shared_ptr<const std::vector<int32_t>> group_of = nullptr;
  // codes [count, cols]
  std::function<void(int64_t first, int64_t count, uint8_t* codes)> read_codes;
  // scales [count, groups], scale_factor included, and biases [count, groups] (left alone when symmetric)
  std::function<void(int64_t first, int64_t count, float* scales, float* biases)> read_scales;
};

// Scales of long groups are repeated for each group of the packed kind. Where no group of that kind fits, or
// inputs of a group do not stand together, the source is of kind f32 and has the exact values.
WeightSource grouped_source(GroupedCodes codes);

// How many groups of `group` inputs a row has.
inline int64_t group_count(int64_t cols, int64_t group) {
  return (cols + group - 1) / group;
}

}  // namespace anabranch
