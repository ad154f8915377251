#include "ops/weight.h"

#include "base/check.h"
#include "ops/cpu/packed.h"
#include "ops/cuda/weight.h"
#include "ops/reference/weight.h"

namespace anabranch::ops {
namespace {

void check_source(const WeightSource& s) {
  CHECK(s.rows > 0 && s.cols > 0, "{} x {}", s.rows, s.cols);
  if (s.kind != WeightKind::affine) {
    CHECK(s.read_dense != nullptr);
    return;
  }
  CHECK(s.read_affine != nullptr);
  CHECK((s.bits >= 2 && s.bits <= 6) || s.bits == 8, "{} bits", s.bits);
  CHECK(s.group == 16 || s.group == 32 || s.group == 64 || s.group == 128, "group {}", s.group);
  CHECK(!s.read_block_scales || s.cols % kScaleBlock == 0, "{} inputs in blocks of {}", s.cols, kScaleBlock);
  CHECK(s.cols % s.group == 0, "group {} does not divide {} inputs", s.group, s.cols);
}

}  // namespace

Weight Weight::make(const WeightSource& source) {
  check_source(source);
  Weight w;
  w.rows_ = source.rows;
  w.cols_ = source.cols;
  w.kind_ = source.kind;
  if (source.kind == WeightKind::affine) {
    w.bits_ = source.bits;
    w.group_ = source.group;
  }
  const auto keep = [&](auto storage) {
    w.bytes_ = storage->bytes;
    w.storage_ = std::move(storage);
  };
  switch (backend()) {
    case Backend::cpu:
      keep(cpu::pack(source));
      break;
    case Backend::cuda:
      keep(cuda::make_weight(source));
      break;
    case Backend::reference:
      keep(reference::make_weight(source));
      break;
  }
  return w;
}

}  // namespace anabranch::ops
