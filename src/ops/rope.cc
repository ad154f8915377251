#include "ops/rope.h"

#include <cmath>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {

void rope_angles(const Rope& rope, int position, bool queries, float* cosines, float* sines) {
  const size_t count = rope.inv_freq.size();
  const bool far = rope.far_from > 0 && position >= rope.far_from;
  const float* frequencies = far && !rope.is_dynamic() ? rope.far_inv_freq.data() : rope.inv_freq.data();
  double base = 0;
  if (far && rope.is_dynamic()) {
    const double dims = 2.0 * static_cast<double>(count);
    const double growth = rope.far_factor * (position + 1.0) / rope.far_from - (rope.far_factor - 1);
    base = rope.far_theta * std::pow(growth, dims / (dims - 2));
  }
  float factor = rope.attention_factor;
  if (queries && rope.query_beta != 0)
    factor *= 1 + rope.query_beta * std::log(1 + static_cast<float>(position / rope.query_period));
  for (size_t i = 0; i < count; i++) {
    const float frequency =
        base > 0 ? static_cast<float>(std::pow(base, -static_cast<double>(i) / static_cast<double>(count)))
                 : frequencies[i];
    const double angle = static_cast<double>(position) * static_cast<double>(frequency);
    cosines[i] = static_cast<float>(std::cos(angle)) * factor;
    sines[i] = static_cast<float>(std::sin(angle)) * factor;
  }
}

Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries) {
  require_f32("rope", "x", x, 3);
  require(positions.size() == static_cast<size_t>(x.shape(0)), "rope", "there are {} positions for {} rows.",
          positions.size(), x.shape(0));
  const size_t turned = 2 * rope.inv_freq.size(), dims = static_cast<size_t>(x.shape(2));
  require(turned > 0 && turned <= dims, "rope", "{} frequencies do not fit a head of {}.",
          rope.inv_freq.size(), dims);
  require(rope.far_inv_freq.empty() || rope.far_inv_freq.size() == rope.inv_freq.size(), "rope",
          "there are {} far frequencies, but {} near ones.", rope.far_inv_freq.size(), rope.inv_freq.size());
  require(rope.query_beta == 0 || turned == dims, "rope", "{} of {} dimensions turn, but queries are scaled.",
          turned, dims);
  return x.device().ops().rope(x, positions, rope, queries);
}

}  // namespace anabranch::ops
