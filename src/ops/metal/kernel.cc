#include "ops/metal/kernel.h"

#include <mlx/backend/metal/metal.h>
#include <mlx/device.h>
#include <mlx/fast.h>

#include <map>

namespace anabranch::ops::metal {
namespace {

bool kernels_in_use = false;
Launcher other_launcher;

// MLX compiles a text once for each set of constants. Its default for arithmetic is IEEE's, without
// liberties: bits must not depend on the constants.
std::vector<mx::array> launch_by_mlx(const Launch& launch) {
  static std::map<std::string_view, mx::fast::CustomKernelFunction> made;
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
  auto& kernel = made[launch.kernel];
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

std::string obstacle() {
  return mx::metal::is_available() ? "" : "this is no Mac with Metal, or MLX was built without it";
}

void use(bool on) {
  kernels_in_use = on;
  if (on && !other_launcher) mx::set_default_device(mx::Device::gpu);
}
bool in_use() {
  return kernels_in_use;
}

std::vector<mx::array> launch(const Launch& launch) {
  return other_launcher ? other_launcher(launch) : launch_by_mlx(launch);
}

void set_launcher(Launcher launcher) {
  other_launcher = std::move(launcher);
}

}  // namespace anabranch::ops::metal
