#include "ops/collective.h"

#include "base/check.h"
#include "ops/cpu/collective.h"
#include "ops/cuda/collective.h"

namespace anabranch::ops {

Split split_units(int units, int size, int ranks) {
  Split out;
  for (int r = 0; r <= ranks; r++)
    out.begin.push_back(static_cast<int>((int64_t{units} * r + ranks - 1) / ranks) * size);
  return out;
}

Tensor Collective::multiply_own_inputs(const MatmulInput&, const Weight&, const Tensor*) {
  CHECK(false, "the products of this group are not split by their inputs");
}

Result<std::unique_ptr<Device>> make_group(std::vector<std::unique_ptr<Device>> devices) {
  CHECK(!devices.empty(), "a group without devices");
  if (devices.size() == 1) return std::move(devices.front());
  if (devices.size() > kMostRanks)
    return make_error(ErrorKind::invalid, "{} devices, but a model can be split among at most {}",
                      devices.size(), kMostRanks);
  std::vector<Device*> all;
  for (const auto& device : devices) all.push_back(device.get());
  std::vector<std::shared_ptr<Collective>> ends;
  const DeviceKind kind = all.front()->kind();
  if (kind == DeviceKind::cuda) {
    TRY(ends, cuda::make_collectives(all));
  } else if (kind == DeviceKind::cpu) {
    ends = cpu::make_collectives(all);
  } else {
    return make_error(ErrorKind::unsupported, "a model cannot be split among devices such as {}",
                      all.front()->name());
  }
  auto first = std::move(devices.front());
  devices.erase(devices.begin());
  for (size_t i = 1; i < all.size(); i++) all[i]->join_group(std::move(ends[i]), {});
  first->join_group(std::move(ends.front()), std::move(devices));
  return first;
}

}  // namespace anabranch::ops
