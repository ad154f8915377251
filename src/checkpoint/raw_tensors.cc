#include "checkpoint/raw_tensors.h"

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/dense.h"
#include "checkpoint/names.h"
#include "checkpoint/quantized/layouts.h"

namespace anabranch {

namespace {

TensorInfo make_info(const RawTensor& raw, std::string name) {
  return TensorInfo{std::move(name),         raw.tensor->dtype, raw.tensor->shape,
                    raw.tensor->data.size(), raw.file->path,    raw.norms};
}

// transposed: a stack of matrices [count, in, out].
Entry dense_entry(const RawTensor& raw, std::string name, bool transposed) {
  Entry entry{make_info(raw, std::move(name)), {}};
  const auto kind = dense_kind(raw.tensor->dtype);
  if (!kind) {
    entry.unreadable =
        make_error(ErrorKind::unsupported, "{}: tensor \"{}\": type {} cannot be read as weights{}",
                   raw.file->path, shown(raw.tensor->name), raw.tensor->dtype,
                   raw.tensor->dtype.starts_with("F8_") ? " without scales beside it" : "");
    return entry;
  }
  if (transposed) {
    auto& shape = entry.info.shape;
    entry.source =
        transposed_source(*kind, raw.tensor->data.data(), shape[0], shape[1], shape[2], raw.file->keep);
    std::swap(shape[1], shape[2]);
    return entry;
  }
  const auto [rows, cols] = rows_and_cols(raw.tensor->shape);
  entry.source = dense_source(*kind, raw.tensor->data.data(), rows, cols, raw.file->keep);
  return entry;
}

// The quantised modules by the names of their main tensors, the names of all their other tensors, and the
// names of their possible biases: AutoGPTQ wrote a bias of zeros for each module that has none.
struct Modules {
  std::map<std::string_view, FoundLayout> found;
  std::set<std::string, std::less<>> parts, biases;
};

Modules find_modules(const RawTensors& raw) {
  Modules out;
  for (const auto& [name, tensor] : raw) {
    const auto found = find_layout(raw, name, tensor);
    if (!found) continue;
    out.found.emplace(name, *found);
    out.biases.insert(std::string(found->stem).append(".bias"));
    for (const auto suffix : found->layout->parts) out.parts.insert(std::string(found->stem).append(suffix));
  }
  return out;
}

// Whether the fused experts that this tensor belongs to have their inputs first: gpt-oss', which have biases
// beside the stacks, and those of which both shapes say so, gate_up [E, H, 2I] and down [E, I, H].
bool has_inputs_first(const RawTensors& raw, std::string_view name) {
  constexpr std::string_view kGateUp = ".experts.gate_up_proj", kDown = ".experts.down_proj";
  const std::string_view own = name.ends_with(kGateUp) ? kGateUp : kDown;
  if (!name.ends_with(own)) return false;
  const std::string layer(name.substr(0, name.size() - own.size()));
  const auto gate_up = raw.find(layer + std::string(kGateUp)), down = raw.find(layer + std::string(kDown));
  if (gate_up == raw.end() || down == raw.end()) return false;
  const auto &first = gate_up->second.tensor->shape, &second = down->second.tensor->shape;
  if (first.size() != 3 || second.size() != 3) return false;
  return raw.contains(std::string(name) + "_bias") || (first[1] == second[2] && first[2] == 2 * second[1]);
}

// The name of a module's matrix in the file.
std::string weight_name(const FoundLayout& found) {
  return found.layout->main.empty() ? std::string(found.stem) : std::string(found.stem).append(".weight");
}

Result<Entry> quantized_entry(const RawTensors& raw, const RawTensor& main, const FoundLayout& found,
                              const QuantizationContext& context, std::string name) {
  const QuantizedModule module(raw, found.stem, main);
  const auto parts = found.layout->parts;
  TRY(auto matrix, found.layout->read(module, context, module.keep(parts)));
  Entry entry{make_info(main, std::move(name)), std::move(matrix.source)};
  entry.info.type = std::move(matrix.type);
  entry.info.shape = std::move(matrix.shape);
  entry.info.bytes = module.bytes(parts);
  return entry;
}

}  // namespace

Result<std::vector<Entry>> join_tensors(const RawTensors& raw,
                                        const std::optional<QuantizationConfig>& quantization,
                                        const std::string& config_path, NameOf name_of, int64_t layers) {
  const Modules modules = find_modules(raw);
  const QuantizationContext context{quantization, config_path};
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : raw) {
    if (modules.parts.contains(name) || (!modules.found.empty() && is_activation_scale(name))) continue;
    const auto found = modules.found.find(name);
    auto folded = name_of(found == modules.found.end() ? std::string(name) : weight_name(found->second));
    if (!folded) continue;
    if (found == modules.found.end()) {
      entries.push_back(dense_entry(tensor, std::move(*folded), has_inputs_first(raw, name)));
      entries.back().zeros_optional = modules.biases.contains(name);
      continue;
    }
    auto entry = quantized_entry(raw, tensor, found->second, context, *folded);
    if (entry.ok()) {
      entries.push_back(std::move(*entry));
      continue;
    }
    if (name_of != vision_name && !is_behind_layers(*folded, layers)) return entry.error();
    entries.push_back(Entry{make_info(tensor, std::move(*folded)), {}});
    entries.back().unreadable = entry.error();
  }
  return entries;
}

}  // namespace anabranch
