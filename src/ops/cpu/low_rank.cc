#include "ops/cpu/low_rank.h"

#include <algorithm>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

// The down-projection of a part's rows, [count, rank]. In `own` if z has it in pieces, or other columns.
const float* down_rows(const LowRankRows& part, std::vector<float>& own) {
  const int64_t columns = part.z.shape(2), rank = part.up.shape(1), pieces = part.z.shape(0);
  const float* z = part.z.data<float>() + part.first;
  if (pieces == 1 && columns == rank) return z;
  own.reserve(static_cast<size_t>(part.count * rank));
  for (int64_t row = 0; row < part.count; row++)
    for (int64_t r = 0; r < rank; r++) {
      float sum = z[row * columns + r];
      for (int64_t p = 1; p < pieces; p++) sum += z[(p * part.count + row) * columns + r];
      own.push_back(sum);
    }
  return own.data();
}

// A thread adds all parts to its panels of 16 outputs, so parts need not wait for each other.
void add_parts(CpuDevice& device, float* to, int64_t out, std::span<const LowRankRows> parts) {
  constexpr int64_t kSerialWork = 32 << 10;  // with fewer products, one thread does all the work
  const int64_t panels = (out + kPanelRows - 1) / kPanelRows;
  int64_t work = 0;  // of one panel
  std::vector<std::vector<float>> own(parts.size());
  std::vector<const float*> z;
  for (size_t i = 0; i < parts.size(); i++) {
    work += int64_t{kPanelRows} * parts[i].count * parts[i].up.shape(1);
    z.push_back(down_rows(parts[i], own[i]));
  }
  const auto body = [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < parts.size(); i++) {
      const LowRankRows& part = parts[i];
      LowRankTask task;
      task.rank = part.up.shape(1);
      task.out = out;
      task.z = z[i];
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

}  // namespace

void add_low_rank(std::span<LowRankOutput> outputs) {
  for (auto& [y, parts] : outputs) add_parts(cpu_device(y), y.data<float>(), y.shape(1), parts);
}

}  // namespace anabranch::ops::cpu
