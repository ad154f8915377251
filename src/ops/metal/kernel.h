// Kernels in Metal's language, launched through MLX (mx::fast::metal_kernel); they replace compositions of
// MLX's own ops in ops/reference. They have not been run on Metal yet: tests run their text as C++, thread by
// thread (tests/ops/metal_test.cc).
#pragma once

#include <mlx/array.h>

#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace anabranch::ops {

namespace mx = mlx::core;

namespace metal {

// One launch: threads of the whole grid and of a threadgroup (the latter divide the former), the constants
// that the text names, and the operands with their names in the text; results are f32.
struct Launch {
  std::string_view kernel;  // "gemv", "delta_scan"
  std::vector<std::pair<std::string, mx::array>> inputs;
  std::vector<std::pair<std::string, mx::Shape>> outputs;
  std::vector<std::pair<std::string, int>> constants;
  std::tuple<int, int, int> grid, group;
};
using Launcher = std::function<std::vector<mx::array>(const Launch&)>;

// Says why Metal cannot be used here; empty: it can.
std::string unsupported();

// A launcher that uses MLX to compile and run the kernels on its GPU.
Launcher mlx_launcher();

// A kernel's text; defined by the build.
std::string_view kernel_text(std::string_view kernel);

}  // namespace metal
}  // namespace anabranch::ops
