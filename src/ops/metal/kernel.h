// Kernels in Metal's language, launched through MLX (mx::fast::metal_kernel) as twins of what ops/reference
// says in plain MLX ops. They have not been run on Metal yet: tests run their text as C++, thread by thread
// (tests/ops/metal_test.cc).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/backend.h"

namespace anabranch::ops::metal {

// One launch: threads of the whole grid and of a threadgroup (which divide it), the constants that the text
// names, operands by the names it has for them; results are f32.
struct Launch {
  std::string_view kernel;  // "gemv", "delta_scan"
  std::vector<std::pair<std::string, mx::array>> inputs;
  std::vector<std::pair<std::string, mx::Shape>> outputs;
  std::vector<std::pair<std::string, int>> constants;
  std::tuple<int, int, int> grid, group;
};
using Launcher = std::function<std::vector<mx::array>(const Launch&)>;

// Why Metal cannot be used here, or empty.
std::string obstacle();

// The reference's ops use kernels from now on, on MLX's GPU (true), or not.
void use(bool on);
bool in_use();
std::vector<mx::array> launch(const Launch& launch);

// For tests: what launches instead of MLX; null: MLX again.
void set_launcher(Launcher launcher);

// A kernel's text; defined by the build.
std::string_view kernel_text(std::string_view kernel);

}  // namespace anabranch::ops::metal
