#include "ops/metal/linear.h"

#include <algorithm>

namespace anabranch::ops::metal {

bool has_linear(const reference::ReferenceWeight& w) {
  const bool known = w.bits == 2 || w.bits == 4 || w.bits == 8;
  return known && w.codes && w.group % (32 / w.bits) == 0;
}

mx::array linear(const Launcher& launcher, const mx::array& x, const reference::ReferenceWeight& w) {
  constexpr int kOuts = 4, kMostRows = 16, kSimdgroups = 4;
  const int m = x.shape(0), k = x.shape(1), n = w.codes->shape(0);
  int rows = 1;
  while (rows < std::min(m, kMostRows)) rows *= 2;
  const auto up = [](int count, int step) { return (count + step - 1) / step; };
  Launch launch;
  launch.kernel = "gemv";
  launch.inputs = {{"x", x}, {"codes", *w.codes}, {"scales", *w.scales}, {"biases", *w.biases}};
  launch.outputs = {{"y", {m, n}}};
  launch.constants = {{"BITS", w.bits}, {"GROUP", w.group}, {"K", k}, {"N", n}, {"ROWS", rows}};
  launch.grid = {32, up(up(n, kOuts), kSimdgroups) * kSimdgroups, up(m, rows)};
  launch.group = {32, kSimdgroups, 1};
  return launcher(launch).front();
}

}  // namespace anabranch::ops::metal
