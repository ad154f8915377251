#include "ops/metal/kernel.h"

#include <mlx/backend/metal/metal.h>
#include <mlx/fast.h>

#include <map>

namespace anabranch::ops::metal {
namespace {

using Compiled = std::map<std::string_view, mx::fast::CustomKernelFunction>;

// MLX compiles a kernel's text once for each set of constants. By default it uses strict IEEE arithmetic, as
// we need: the bits must not depend on the constants.
std::vector<mx::array> launch_by_mlx(Compiled& compiled, const Launch& launch) {
  std::vector<std::string> input_names, output_names;
  std::vector<mx::array> inputs;
  std::vector<mx::Shape> shapes;
  for (const auto& [name, array] : launch.inputs) {
    input_names.push_back(name);
    inputs.push_back(array);
  }
  for (const auto& [name, shape] : launch.outputs) {
    output_names.push_back(name);
    shapes.push_back(shape);
  }
  auto& kernel = compiled[launch.kernel];
  if (!kernel)
    kernel = mx::fast::metal_kernel("anabranch_" + std::string(launch.kernel), input_names, output_names,
                                    std::string(kernel_text(launch.kernel)));
  std::vector<std::pair<std::string, mx::fast::TemplateArg>> constants(launch.constants.begin(),
                                                                       launch.constants.end());
  const std::vector<mx::Dtype> types(shapes.size(), mx::float32);
  return kernel(inputs, shapes, types, launch.grid, launch.group, std::move(constants), std::nullopt, false,
                {});
}

}  // namespace

std::string unsupported() {
  return mx::metal::is_available() ? "" : "this is no Mac with Metal, or MLX was built without it";
}

Launcher mlx_launcher() {
  return [compiled = Compiled()](const Launch& launch) mutable { return launch_by_mlx(compiled, launch); };
}

}  // namespace anabranch::ops::metal
