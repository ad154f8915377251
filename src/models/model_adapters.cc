// Adapters for a loaded model's linear layers.
#include <algorithm>
#include <map>

#include "models/model.h"

namespace anabranch {
namespace {

// A matrix in memory.
WeightSource source_of(const Tensor& matrix) {
  WeightSource source;
  source.rows = matrix.shape(0);
  source.cols = matrix.shape(1);
  source.kind = WeightKind::f32;
  source.read_dense = [matrix](int64_t first, int64_t count, float* values) {
    const int64_t cols = matrix.shape(1);
    std::copy_n(matrix.data<float>() + first * cols, count * cols, values);
  };
  return source;
}

Tensor rows_of(const Tensor& matrix, const std::vector<int64_t>& rows) {
  if (rows.empty()) return matrix;
  const int64_t cols = matrix.shape(1);
  Tensor out = host_device().empty({static_cast<int>(rows.size()), matrix.shape(1)}, Dtype::f32);
  for (size_t i = 0; i < rows.size(); i++)
    std::copy_n(matrix.data<float>() + rows[i] * cols, cols,
                out.data<float>() + static_cast<int64_t>(i) * cols);
  return out;
}

}  // namespace

Result<std::shared_ptr<const nn::Adapter>> Model::load_adapter(const AdapterFile& file) const {
  if (ranks() > 1)
    return make_error(ErrorKind::unsupported, "{}: adapters run on one device, and the model is on {}",
                      file.path, ranks());
  std::map<std::string, std::vector<const nn::Linear*>> places;  // q_proj may hold two layers' rows
  for (const nn::DecoderLayer& layer : layers_)
    layer.visit_linears([&](const nn::Linear& linear) {
      if (linear.origin) places[linear.origin->module].push_back(&linear);
    });
  auto adapter = std::make_shared<nn::Adapter>();
  for (const auto& [module, matrices] : file.modules) {
    const auto at = places.find(module);
    if (at == places.end())
      return make_error(
          ErrorKind::unsupported,
          "{}: adapters cannot change '{}' here: they change the projections of attention, Gated "
          "DeltaNet and dense MLPs of this model's {} layers",
          file.path, module, layers_.size());
    for (const nn::Linear* linear : at->second) {
      const int64_t in = linear->weight.in_features();
      const nn::Origin& origin = *linear->origin;
      if (matrices.down.shape(1) != in || matrices.up.shape(0) != origin.outputs)
        return make_error(
            ErrorKind::invalid,
            "{}: '{}' is for {} inputs and {} outputs, but the model has {} and {}: is it another "
            "model's adapter?",
            file.path, module, matrices.down.shape(1), matrices.up.shape(0), in, origin.outputs);
      adapter->linears.emplace(&origin, nn::LowRank{ops::Weight::make(*device_, source_of(matrices.down)),
                                                    device_->to_device(rows_of(matrices.up, origin.rows))});
    }
  }
  return std::shared_ptr<const nn::Adapter>(std::move(adapter));
}

}  // namespace anabranch
