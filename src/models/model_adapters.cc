#include "models/model_adapters.h"

#include <algorithm>
#include <map>

namespace anabranch {
namespace {

// Matrices in memory, below each other.
WeightSource source_of(std::vector<Tensor> matrices) {
  WeightSource source;
  source.rows = 0;
  for (const Tensor& matrix : matrices) source.rows += matrix.shape(0);
  source.cols = matrices.front().shape(1);
  source.kind = WeightKind::f32;
  source.read_dense = [matrices = std::move(matrices)](int64_t first, int64_t count, float* values) {
    int64_t begin = 0;  // row of the matrix
    for (const Tensor& matrix : matrices) {
      const int64_t cols = matrix.shape(1), rows = matrix.shape(0);
      const int64_t from = std::max(first, begin), to = std::min(first + count, begin + rows);
      if (from < to)
        std::copy_n(matrix.data<float>() + (from - begin) * cols, (to - from) * cols,
                    values + (from - first) * cols);
      begin += rows;
    }
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
  std::map<std::string, const nn::Linear*> linears;
  for (const auto& input : adapted_inputs(model, file))
    for (const nn::Linear* linear : input) linears[linear->origin->module] = linear;
  for (const auto& [module, matrices] : file.modules) {
    if (model.dropped_modules().contains(module)) continue;
    const auto at = linears.find(module);
    if (at == linears.end())
      return make_error(ErrorKind::unsupported,
                        "{}: adapters cannot change '{}' here: they change the projections of this model's "
                        "{} layers, but not experts, and not projections that are joined in memory",
                        file.path, module, model.weights().ranks.layers().size());
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

std::vector<std::vector<const nn::Linear*>> adapted_inputs(const Model& model, const AdapterFile& file) {
  std::vector<std::vector<const nn::Linear*>> inputs;
  for (const nn::DecoderLayer& layer : model.weights().ranks.layers())
    layer.visit_inputs([&](std::vector<const nn::Linear*> linears) {
      std::erase_if(linears, [&](const nn::Linear* linear) {
        return !linear->origin || !file.modules.contains(linear->origin->module);
      });
      if (!linears.empty()) inputs.push_back(std::move(linears));
    });
  return inputs;
}

void add_to_adapter(nn::Adapter& adapter, const Model& model, const AdapterFile& file,
                    std::span<const nn::Linear* const> layers) {
  std::map<std::string, int> first;  // row of each module's down-projection
  std::vector<Tensor> downs;
  int rows = 0;
  for (const nn::Linear* layer : layers) {
    const std::string& module = layer->origin->module;
    // Two layers may have parts of a module's rows, such as queries and their gate: they share these.
    if (!first.emplace(module, rows).second) continue;
    downs.push_back(file.modules.at(module).down);
    rows += downs.back().shape(0);
  }
  const auto down = ops::Weight::make(model.device(), source_of(std::move(downs)));
  for (const nn::Linear* layer : layers) {
    const auto& [module, outputs, of_module] = *layer->origin;
    const Tensor up = rows_of(file.modules.at(module).up, of_module);
    adapter.linears.emplace(layer->origin.get(),
                            nn::LowRank{down, first.at(module), model.device().to_device(up)});
  }
}

}  // namespace anabranch
