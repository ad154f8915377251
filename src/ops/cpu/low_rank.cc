#include "ops/cpu/low_rank.h"

#include <algorithm>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {

// A thread adds all parts to its panels of 16 outputs, so parts need not wait for each other.
void add_low_rank(Tensor& y, std::span<const LowRankRows> parts) {
  constexpr int64_t kSerialWork = 32 << 10;  // with fewer products, one thread does all the work
  CpuDevice& device = cpu_device(y);
  float* to = y.data<float>();
  const int64_t out = y.shape(1), panels = (out + kPanelRows - 1) / kPanelRows;
  int64_t work = 0;  // of one panel
  for (const LowRankRows& part : parts) work += int64_t{kPanelRows} * part.count * part.z.shape(1);
  const auto body = [&](int64_t begin, int64_t end) {
    for (const LowRankRows& part : parts) {
      LowRankTask task;
      task.rank = part.z.shape(1);
      task.out = out;
      task.z = part.z.data<float>() + part.begin * task.rank;
      task.up = part.up.data<float>();
      task.y = to + part.begin * out;
      task.scale = part.scale;
      task.rows = part.count;
      task.panel_begin = begin;
      task.panel_end = end;
      device.kernels().add_low_rank(task);
    }
  };
  if (panels * work < kSerialWork) return body(0, panels);
  const int64_t together = std::min<int64_t>(kLowRankPanels, panels / device.threads().size());
  device.threads().parallel_for(panels, std::max<int64_t>({1, together, kSerialWork / 4 / work}), body);
}

}  // namespace anabranch::ops::cpu
