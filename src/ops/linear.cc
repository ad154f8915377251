#include "ops/linear.h"

#include "ops/arguments.h"
#include "ops/cpu/linear.h"
#include "ops/reference/linear.h"

namespace anabranch::ops {

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights) {
  require_f32("linear", "x", x, 2);
  for (const Weight* w : weights)
    require(w->in_features() == x.shape(1), "linear", "x has {} columns and the weight {} inputs.",
            x.shape(1), w->in_features());
  return backend() == Backend::cpu ? cpu::linear(x, weights) : reference::linear(x, weights);
}

mx::array linear(const mx::array& x, const Weight& weight) {
  const Weight* one = &weight;
  return linear(x, std::span<const Weight* const>(&one, 1)).front();
}

mx::array embed(std::span<const int> ids, const Weight& table) {
  for (const int id : ids)
    require(id >= 0 && id < table.out_features(), "embed", "id {} is not in a table of {} rows.", id,
            table.out_features());
  return backend() == Backend::cpu ? cpu::embed(ids, table) : reference::embed(ids, table);
}

}  // namespace anabranch::ops
