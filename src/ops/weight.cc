#include "ops/weight.h"

#include "base/check.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

bool group_ok(const WeightSource& s) {
  const bool medium = s.group == 32, large = s.group == 64 || s.group == 128;
  switch (s.kind) {
    case WeightKind::affine:
      return s.group == 16 || medium || large;
    case WeightKind::table:
      return s.group == 16 || medium;
    default:
      return medium || large;
  }
}

bool bits_ok(const WeightSource& s) {
  if (s.kind == WeightKind::table) return s.bits == 4;
  if (s.kind == WeightKind::fp8) return s.bits == 8;
  return (s.bits >= 2 && s.bits <= 6) || s.bits == 8;
}

void check_source(const WeightSource& s) {
  CHECK(s.rows > 0 && s.cols > 0, "{} x {}", s.rows, s.cols);
  if (!is_coded(s.kind)) {
    CHECK(s.read_dense != nullptr);
    return;
  }
  CHECK(s.read_codes != nullptr);
  CHECK(bits_ok(s), "{} bits", s.bits);
  CHECK(group_ok(s), "group {}", s.group);
  CHECK(!s.read_block_scales || s.cols % kScaleBlock == 0, "{} inputs in blocks of {}", s.cols, kScaleBlock);
  CHECK(s.cols % s.group == 0, "group {} does not divide {} inputs", s.group, s.cols);
  const bool affine = s.kind == WeightKind::affine;
  CHECK(affine || (s.symmetric && s.zero_point == 0), "only affine weights have biases");
  CHECK(
      !affine || (s.scale_factor == 1 && s.scale_type != ScaleType::e8m0 && s.scale_type != ScaleType::e4m3),
      "affine weights have plain scales");
}

}  // namespace

Weight Weight::make(Device& device, const WeightSource& source, int experts) {
  check_source(source);
  Weight w;
  w.device_ = &device;
  w.rows_ = source.rows;
  w.cols_ = source.cols;
  w.kind_ = source.kind;
  w.name_ = source.name;
  if (is_coded(source.kind)) {
    w.bits_ = source.bits;
    w.group_ = source.group;
  }
  const OpTable& ops = device.ops();
  w.storage_ = experts > 0 && ops.make_experts ? ops.make_experts(device, source, experts)
                                               : ops.make_weight(device, source);
  return w;
}

}  // namespace anabranch::ops
