#include "ops/open.h"

#include "ops/cpu/device.h"
#include "ops/cuda/device.h"

namespace anabranch::ops {

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  const std::string& name = options.device;
  const bool on_cuda = name == "cuda", on_metal = name == "metal";
  if (name != "cpu" && !on_cuda && !on_metal)
    return make_error(ErrorKind::invalid, "there is no device \"{}\": cpu, cuda or metal", name);
  if (name != "cpu" && (options.reference || options.precise))
    return make_error(ErrorKind::invalid, "{} runs on the CPU only: leave out --device {}",
                      options.reference ? "--reference" : "--precise", name);
  if (on_cuda) {
    if (const std::string why = cuda_unsupported(); !why.empty())
      return make_error(ErrorKind::unsupported, "--device cuda: {}", why);
    return cuda::open_cuda(0, options.threads, options.expert_bytes);
  }
  if (on_metal) {
    if (const std::string why = metal_unsupported(); !why.empty())
      return make_error(ErrorKind::unsupported, "--device metal: {}", why);
    return open_reference(true, options.threads);
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
