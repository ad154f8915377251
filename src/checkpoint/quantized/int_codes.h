// Integer codes with a zero point for each group, (code - zero) * scale, as affine sources: the bias is
// -zero * scale in fp32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/quantized/module.h"

namespace anabranch {

struct IntCodes {
  int64_t rows = 0, cols = 0;
  int bits = 0;
  int64_t group = 0, groups = 0;
  std::shared_ptr<const std::vector<int32_t>> group_of = nullptr;                  // as in GroupedCodes
  WeightKind scale_kind = WeightKind::f16;                                         // f32, f16 or bf16
  std::function<void(int64_t first, int64_t count, uint8_t* codes)> read_codes;    // [count, cols]
  std::function<void(int64_t first, int64_t count, float* scales)> read_scales;    // [count, groups]
  std::function<void(int64_t first, int64_t count, uint8_t* zeros)> read_zeros{};  // [count, groups]
  int zero = 0;               // for all groups, if there is no read_zeros
  bool headers_only = false;  // do not compare the zero points: the source is never symmetric then
};

// If all groups share one zero point, the source is symmetric and stores no biases.
WeightSource int_source(IntCodes codes);

// "g_idx": the group of each input. Null when input i is in group i / group, or when only headers are read.
// Errors (invalid): not one number for each input, or a group that does not exist.
Result<std::shared_ptr<const std::vector<int32_t>>> read_group_index(const QuantizedModule& module,
                                                                     const SafetensorsTensor& index,
                                                                     int64_t cols, int64_t group,
                                                                     int64_t groups);

// The group length of `groups` groups in `cols` inputs: `stated` if it fits; 0 if no length does.
int64_t group_length(int64_t cols, int64_t groups, int64_t stated);

// The first width for which `fits` holds. The config's width is tried first. 0 if there is none.
template <class Fits>
int find_width(std::initializer_list<int> widths, const QuantizationContext& context, const Fits& fits) {
  if (context.config && std::ranges::find(widths, context.config->bits) != widths.end() &&
      fits(context.config->bits))
    return context.config->bits;
  for (const int bits : widths)
    if (fits(bits)) return bits;
  return 0;
}

}  // namespace anabranch
