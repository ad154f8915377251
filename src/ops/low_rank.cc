#include "ops/low_rank.h"

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {

void add_low_rank(Tensor& y, std::span<const LowRankRows> parts) {
  const char* op = "add_low_rank";
  require_f32(op, "y", y, 2);
  bool empty = true;
  for (const LowRankRows& part : parts) {
    require_f32(op, "z", part.z, 2);
    const int rank = part.z.shape(1);
    require(rank > 0, op, "the rank is 0, but must be at least 1.");
    require_shape(op, "z", part.z, {y.shape(0), rank});
    require_shape(op, "up", part.up, {y.shape(1), rank});
    require(part.begin >= 0 && part.count >= 0 && part.begin <= y.shape(0) - part.count, op,
            "{} rows from row {} on are not among {}.", part.count, part.begin, y.shape(0));
    require(&part.z.device() == &y.device() && &part.up.device() == &y.device(), op,
            "a part is on another device than y.");
    empty &= part.count == 0;
  }
  if (!empty && !y.empty()) y.device().ops().add_low_rank(y, parts);
}

}  // namespace anabranch::ops
