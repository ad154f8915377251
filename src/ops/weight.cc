#include "ops/weight.h"

#include "base/check.h"
#include "ops/table.h"

namespace anabranch::ops {
namespace {

void check_source(const WeightSource& s) {
  CHECK(s.rows > 0 && s.cols > 0, "{} x {}", s.rows, s.cols);
  if (s.kind != WeightKind::affine) {
    CHECK(s.read_dense != nullptr);
    return;
  }
  CHECK(s.read_codes != nullptr);
  CHECK((s.bits >= 2 && s.bits <= 6) || s.bits == 8, "{} bits", s.bits);
  CHECK(s.group == 16 || s.group == 32 || s.group == 64 || s.group == 128, "group {}", s.group);
  CHECK(!s.read_block_scales || s.cols % kScaleBlock == 0, "{} inputs in blocks of {}", s.cols, kScaleBlock);
  CHECK(s.cols % s.group == 0, "group {} does not divide {} inputs", s.group, s.cols);
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
  if (source.kind == WeightKind::affine) {
    w.bits_ = source.bits;
    w.group_ = source.group;
  }
  const OpTable& ops = device.ops();
  w.storage_ = experts > 0 && ops.make_experts ? ops.make_experts(device, source, experts)
                                               : ops.make_weight(device, source);
  return w;
}

}  // namespace anabranch::ops
