#include "ops/open.h"

#include <algorithm>

#include "ops/collective.h"
#include "ops/cpu/device.h"
#include "ops/cuda/device.h"

namespace anabranch::ops {

namespace {

// One device for each index, as a group.
template <class Open>
Result<std::unique_ptr<Device>> open_group(const std::vector<int>& indices, const Open& open) {
  std::vector<std::unique_ptr<Device>> devices;
  for (const int index : indices) {
    if (std::count(indices.begin(), indices.end(), index) > 1)
      return make_error(ErrorKind::invalid, "--devices names device {} twice", index);
    TRY(auto device, open(index));
    devices.push_back(std::move(device));
  }
  return make_group(std::move(devices));
}

}  // namespace

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  const std::string& name = options.name;
  const bool on_cuda = name == "cuda", on_metal = name == "metal";
  if (name != "cpu" && !on_cuda && !on_metal)
    return make_error(ErrorKind::invalid, "there is no device \"{}\": cpu, cuda or metal", name);
  if (name != "cpu" && (options.reference || options.precise))
    return make_error(ErrorKind::invalid, "{} runs on the CPU only: leave out --device {}",
                      options.reference ? "--reference" : "--precise", name);
  if (on_cuda) {
    if (const std::string why = cuda_unsupported(); !why.empty())
      return make_error(ErrorKind::unsupported, "--device cuda: {}", why);
    const std::vector<int> indices = options.devices.empty() ? std::vector{0} : options.devices;
    return open_group(
        indices, [&](int index) { return cuda::open_cuda(index, options.threads, options.expert_bytes); });
  }
  if (options.devices.size() > 1 && (on_metal || options.reference))
    return make_error(ErrorKind::invalid, "--devices is for --device cuda and cpu");
  if (on_metal) {
    if (const std::string why = metal_unsupported(); !why.empty())
      return make_error(ErrorKind::unsupported, "--device metal: {}", why);
    return open_reference(true, options.threads);
  }
  if (options.devices.size() > 1) {
    const int each =
        std::max(1, ThreadPool(options.threads).size() / static_cast<int>(options.devices.size()));
    return open_group(options.devices, [&](int) -> Result<std::unique_ptr<Device>> {
      return cpu::open_cpu(each, options.precise);
    });
  }
  if (!options.reference) return cpu::open_cpu(options.threads, options.precise);
  auto device = open_reference(false, options.threads);
  if (!device)
    return make_error(ErrorKind::unsupported, "--reference needs MLX, which this program was built without");
  return device;
}

std::string cuda_unsupported() {
  return cuda::unsupported();
}

}  // namespace anabranch::ops
