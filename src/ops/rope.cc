#include "ops/rope.h"

#include <algorithm>
#include <cmath>

#include "ops/arguments.h"
#include "ops/table.h"

namespace anabranch::ops {

int Rope::axes() const {
  return axis.empty() ? 1 : 1 + *std::ranges::max_element(axis);
}

int positions_of_row(const char* op, const Rope& rope, std::span<const int> positions, int rows) {
  require(rope.axis.empty() || rope.axis.size() == rope.inv_freq.size(), op,
          "there are axes of {} frequencies, not of {}.", rope.axis.size(), rope.inv_freq.size());
  require(rope.axis.empty() || (rope.far_from == 0 && rope.query_beta == 0), op,
          "a rope over several positions has no other frequencies or factors further on.");
  const auto plain = static_cast<size_t>(rows);
  const int axes = rope.axes();
  require(positions.size() == plain || positions.size() == plain * static_cast<size_t>(axes), op,
          "there are {} positions for {} rows.", positions.size(), rows);
  return positions.size() == plain ? 1 : axes;
}

void rope_angles(const Rope& rope, std::span<const int> positions, bool queries, float* cosines,
                 float* sines) {
  const int position = positions.front();
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
    const int at = positions.size() == 1 ? position : positions[rope.axis[i]];
    const double angle = static_cast<double>(at) * static_cast<double>(frequency);
    cosines[i] = static_cast<float>(std::cos(angle)) * factor;
    sines[i] = static_cast<float>(std::sin(angle)) * factor;
  }
}

Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries) {
  require_f32("rope", "x", x, 3);
  positions_of_row("rope", rope, positions, x.shape(0));
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
