#include "models/model_adapters.h"

#include <algorithm>
#include <map>

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

Result<void> check_adapter(const Model& model, const AdapterFile& file) {
  if (model.ranks() > 1)
    return make_error(ErrorKind::unsupported, "{}: adapters run on one device, and the model is on {}",
                      file.path, model.ranks());
  const auto& layers = model.weights().ranks.layers();
  std::map<std::string, const nn::Linear*> linears;
  for (const nn::DecoderLayer& layer : layers)
    layer.visit_linears([&](const nn::Linear& linear) {
      if (linear.origin) linears[linear.origin->module] = &linear;
    });
  for (const auto& [module, matrices] : file.modules) {
    if (model.dropped_modules().contains(module)) continue;
    const auto at = linears.find(module);
    if (at == linears.end())
      return make_error(
          ErrorKind::unsupported,
          "{}: adapters cannot change '{}' here: they change the projections of attention, Gated "
          "DeltaNet and dense MLPs of this model's {} layers",
          file.path, module, layers.size());
    const nn::Linear& linear = *at->second;
    const int64_t in = linear.weight.in_features(), out = linear.origin->outputs;
    if (matrices.down.shape(1) != in || matrices.up.shape(0) != out)
      return make_error(
          ErrorKind::invalid,
          "{}: '{}' is for {} inputs and {} outputs, but the model has {} and {}: is it another "
          "model's adapter?",
          file.path, module, matrices.down.shape(1), matrices.up.shape(0), in, out);
  }
  return {};
}

void add_to_adapter(nn::Adapter& adapter, const Model& model, const std::string& module,
                    const LowRankMatrices& matrices) {
  // Two layers may have parts of a module's rows, such as queries and their gate: they share this.
  std::optional<ops::Weight> down;
  for (const nn::DecoderLayer& layer : model.weights().ranks.layers())
    layer.visit_linears([&](const nn::Linear& linear) {
      if (!linear.origin || linear.origin->module != module) return;
      if (!down) down = ops::Weight::make(model.device(), source_of(matrices.down));
      adapter.linears.emplace(
          linear.origin.get(),
          nn::LowRank{*down, model.device().to_device(rows_of(matrices.up, linear.origin->rows))});
    });
}

}  // namespace anabranch
