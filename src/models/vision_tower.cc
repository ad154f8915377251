#include "models/vision_tower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/vision_parts.h"
#include "ops/table.h"

namespace anabranch {
namespace {

constexpr int64_t kMostWidth = 1 << 17;

const VisionFamily* find_vision(const std::string& model_type) {
  for (const char* name : {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"})
    if (model_type == name) return &qwen_vision();
  return model_type == "gemma3" ? &siglip_vision() : nullptr;
}

// The family of the tower in the files, if the text model is of the same family.
const VisionFamily* family_of(const Checkpoint& checkpoint) {
  if (!checkpoint.vision()) return nullptr;
  const std::string tower = string_at(checkpoint.vision()->config(), "model_type");
  const std::string text = string_at(checkpoint.config(), "model_type");
  const VisionFamily* family = find_vision(tower);
  const bool related =
      text.starts_with(tower) || tower.starts_with(text);  // "qwen3_5_moe_text", "gemma3_text"
  return family && related && checkpoint.vision()->has(family->names.patches + ".weight") ? family : nullptr;
}

// The width of the text model; 0: config.json does not say.
int64_t text_width(const Json& config) {
  const bool nested = config.contains("text_config") && config["text_config"].is_object();
  const Json& text = nested ? config["text_config"] : config;
  const auto at = text.find("hidden_size");
  return at != text.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
}

Result<VisionSpec> read_spec(const Checkpoint& checkpoint, const VisionFamily& family) {
  const Checkpoint& vision = *checkpoint.vision();
  const Json& config = vision.config();
  if (!config.contains("vision_config") || !config["vision_config"].is_object())
    return make_error(ErrorKind::invalid, "{}: there is a vision tower, but no \"vision_config\"",
                      vision.path());
  const std::string file = vision.path() + " (vision_config)";
  ConfigReader reader(config["vision_config"], file);
  VisionSpec spec = family.read_config(reader, config, file);
  TRY_VOID(reader.check());
  const int64_t width = text_width(checkpoint.config());
  if (width < 1 || width > kMostWidth)
    return make_error(ErrorKind::invalid, "{}: \"hidden_size\" of the text model makes no sense",
                      checkpoint.path());
  if (spec.family == VisionSpec::Family::gemma3) spec.out_hidden = static_cast<int>(width);
  if (width != spec.out_hidden)
    return make_error(
        ErrorKind::invalid,
        "{}: the vision tower is of another model: its tokens have {} numbers, those of {} have {}",
        vision.path(), spec.out_hidden, checkpoint.path(), width);
  return spec;
}

// The spec's head size, or the next larger one that the device has kernels for.
Result<int> choose_head_dim(const VisionSpec& spec, const ops::Rope& rope, const Device& device,
                            const std::string& path) {
  const std::string why = device.ops().attention_unsupported(spec.head_dim(), rope);
  if (why.empty()) return spec.head_dim();
  for (const int dim : {32, 64, 128, 256})
    if (dim > spec.head_dim() && device.ops().attention_unsupported(dim, rope).empty()) return dim;
  return make_error(ErrorKind::unsupported, "{}: {}", path, why);
}

Tensor to_host_tensor(const std::vector<float>& values, const Shape& shape) {
  Tensor out = host_device().empty(shape, Dtype::f32);
  std::copy(values.begin(), values.end(), out.data<float>());
  return out;
}

WeightSource dense_values(std::vector<float> values, int64_t rows, int64_t cols, WeightKind kind) {
  WeightSource out;
  out.rows = rows, out.cols = cols, out.kind = kind;
  out.read_dense = [values = std::make_shared<const std::vector<float>>(std::move(values)), cols](
                       int64_t first, int64_t count, float* to) {
    std::copy_n(values->data() + first * cols, count * cols, to);
  };
  return out;
}

class Loader {
 public:
  Loader(Checkpoint& checkpoint, VisionWeights& weights) : checkpoint_(checkpoint), weights_(weights) {}

  Result<void> load() {
    const VisionNames& names = weights_.family->names;
    const VisionSpec& spec = weights_.spec;
    TRY_VOID(load_patches(names.patches));
    const int side = spec.table_side, hidden = spec.hidden;
    TRY(const Tensor table, checkpoint_.take(names.table + ".weight", {int64_t{side} * side, hidden}));
    weights_.table.assign(table.data<float>(), table.data<float>() + table.size());
    for (int i = 0; i < spec.depth; i++) {
      TRY(auto layer, load_layer(names.layers + std::to_string(i) + "."));
      weights_.layers.push_back(std::move(layer));
      checkpoint_.release_pages();
    }
    TRY(weights_.last_norm, take_layer_norm(checkpoint_, device(), names.last_norm, hidden, spec.eps));
    TRY_VOID(weights_.family->load_end(checkpoint_, weights_));
    for (const char* unused : {"rotary_pos_emb.", "embeddings.position_ids", "head."})
      checkpoint_.ignore(unused);
    return checkpoint_.finish();
  }

 private:
  Device& device() { return *weights_.device; }

  // Loads the convolution over a patch as a matrix. MLX has channels last, GGUF one tensor per frame.
  Result<void> load_patches(const std::string& name) {
    const VisionSpec& s = weights_.spec;
    const int64_t out = s.hidden, time = s.temporal_patch, side = s.patch;
    std::vector<float> matrix;
    const auto put = [&](const Tensor& from, int64_t frames, int64_t first_frame, bool channels_last) {
      const float* v = from.data<float>();
      const int64_t area = side * side;
      for (int64_t o = 0; o < out; o++)
        for (int64_t c = 0; c < 3; c++)
          for (int64_t t = 0; t < frames; t++)
            for (int64_t i = 0; i < area; i++)
              matrix[static_cast<size_t>(((o * 3 + c) * time + first_frame + t) * area + i)] =
                  v[channels_last ? ((o * frames + t) * area + i) * 3 + c
                                  : ((o * 3 + c) * frames + t) * area + i];
    };
    const std::string weight = name + ".weight";
    const bool apart = time > 1 && checkpoint_.has(weight + ".1");
    for (int64_t frame = 0; frame < (apart ? time : 1); frame++) {
      const std::string own = frame == 0 ? weight : weight + "." + std::to_string(frame);
      std::vector<int64_t> first = {out, 3, time, side, side}, last = {out, time, side, side, 3};
      if (apart || time == 1) {
        first.erase(first.begin() + 2);
        last.erase(last.begin() + 1);
      }
      const auto info = checkpoint_.find(own);
      const bool channels_last = info && info->shape == last && last != first;
      TRY(const Tensor values, checkpoint_.take(own, channels_last ? last : first));
      matrix.resize(static_cast<size_t>(
          out * s.patch_inputs()));  // allocated only once the file is known to have the tensor
      put(values, apart ? 1 : time, frame, channels_last);
    }
    TRY(const Tensor bias, checkpoint_.take(name + ".bias", {out}));
    const auto source = dense_values(std::move(matrix), out, s.patch_inputs(), WeightKind::f32);
    weights_.patches = {ops::Weight::make(device(), source), device().to_device(bias)};
    return {};
  }

  Result<VisionLayer> load_layer(const std::string& prefix) {
    const VisionNames& names = weights_.family->names;
    const VisionSpec& s = weights_.spec;
    VisionLayer layer;
    TRY(layer.norm1, take_layer_norm(checkpoint_, device(), prefix + names.norm1, s.hidden, s.eps));
    TRY(layer.norm2, take_layer_norm(checkpoint_, device(), prefix + names.norm2, s.hidden, s.eps));
    nn::Linear* const parts[] = {&layer.q, &layer.k, &layer.v};
    if (names.qkv.empty()) {
      const std::string* const own[] = {&names.q, &names.k, &names.v};
      for (int i = 0; i < 3; i++) TRY_VOID(load_heads(prefix + *own[i], s.hidden, 0, *parts[i]));
    } else {
      for (int i = 0; i < 3; i++) {
        if (i > 0) checkpoint_.reopen(prefix + names.qkv);
        TRY_VOID(load_heads(prefix + names.qkv, 3 * s.hidden, i * s.hidden, *parts[i]));
      }
    }
    TRY_VOID(load_out(prefix + names.out, layer.out));
    TRY(layer.up, take_vision_linear(checkpoint_, device(), prefix + names.up, s.intermediate, s.hidden));
    TRY(layer.down, take_vision_linear(checkpoint_, device(), prefix + names.down, s.hidden, s.intermediate));
    return layer;
  }

  // Rows [first, first + hidden) of "<name>", the heads of queries, keys or values; each head is padded with
  // zeros.
  Result<void> load_heads(const std::string& name, int rows, int first, nn::Linear& out) {
    const VisionSpec& s = weights_.spec;
    TRY(WeightSource source, checkpoint_.take_matrix(name + ".weight", rows, s.hidden));
    TRY(const Tensor bias, checkpoint_.take(name + ".bias", {rows}));
    if (rows > s.hidden) {
      std::vector<int64_t> own;
      for (int64_t row = first; row < first + s.hidden; row++) own.push_back(row);
      source = select_rows(std::move(source), std::move(own));
    }
    const int dim = s.head_dim(), padded = weights_.head_dim;
    std::vector<float> own_bias(static_cast<size_t>(s.heads * padded));
    for (int i = 0; i < s.hidden; i++)
      own_bias[static_cast<size_t>(i / dim * padded + i % dim)] = bias.data<float>()[first + i];
    if (padded != dim) source = pad_blocks(std::move(source), dim, padded);
    out = {ops::Weight::make(device(), source),
           device().to_device(to_host_tensor(own_bias, {s.heads * padded}))};
    return {};
  }

  // The output projection of all heads, with zero columns for the padding of each head.
  Result<void> load_out(const std::string& name, nn::Linear& out) {
    const VisionSpec& s = weights_.spec;
    const int dim = s.head_dim(), padded = weights_.head_dim;
    if (padded == dim) {
      TRY(out, take_vision_linear(checkpoint_, device(), name, s.hidden, s.hidden));
      return {};
    }
    const auto info = checkpoint_.find(name + ".weight");
    TRY(const Tensor values, checkpoint_.take(name + ".weight", {s.hidden, s.hidden}));
    std::vector<float> wide(static_cast<size_t>(s.hidden) * static_cast<size_t>(s.heads * padded));
    for (int row = 0; row < s.hidden; row++)
      for (int i = 0; i < s.hidden; i++)
        wide[static_cast<size_t>(row * s.heads * padded + i / dim * padded + i % dim)] =
            values.data<float>()[row * s.hidden + i];
    const auto kind = info->type == "BF16"  ? WeightKind::bf16
                      : info->type == "F32" ? WeightKind::f32
                                            : WeightKind::f16;
    TRY(const Tensor bias, checkpoint_.take(name + ".bias", {s.hidden}));
    out = {ops::Weight::make(device(), dense_values(std::move(wide), s.hidden, s.heads * padded, kind)),
           device().to_device(bias)};
    return {};
  }

  Checkpoint& checkpoint_;
  VisionWeights& weights_;
};

}  // namespace

PatchPosition position_in_blocks(const PatchGrid& grid, int merge, int index) {
  const int block = index / (merge * merge), within = index % (merge * merge), across = grid.columns / merge;
  return {block / across * merge + within / merge, block % across * merge + within % merge};
}

Result<nn::Linear> take_vision_linear(Checkpoint& checkpoint, Device& device, const std::string& name,
                                      int out, int in) {
  TRY(const auto source, checkpoint.take_matrix(name + ".weight", out, in));
  TRY(const Tensor bias, checkpoint.take(name + ".bias", {out}));
  return nn::Linear{ops::Weight::make(device, source), device.to_device(bias)};
}

Result<LayerNorm> take_layer_norm(Checkpoint& checkpoint, Device& device, const std::string& name, int size,
                                  float eps) {
  TRY(const Tensor weight, checkpoint.take(name + ".weight", {size}));
  TRY(const Tensor bias, checkpoint.take(name + ".bias", {size}));
  return LayerNorm{device.to_device(weight), device.to_device(bias), eps};
}

Tensor project(const nn::Linear& linear, const Tensor& x) {
  const Tensor y = ops::linear(x, linear.weight);
  return linear.bias ? ops::add_bias(y, *linear.bias) : y;
}

VisionTower::VisionTower(std::unique_ptr<VisionWeights> weights) : weights_(std::move(weights)) {}
VisionTower::~VisionTower() = default;

bool VisionTower::present(const Checkpoint& checkpoint) {
  return family_of(checkpoint) != nullptr;
}

Result<std::unique_ptr<VisionTower>> VisionTower::load(const Checkpoint& checkpoint, Device& device) {
  const VisionFamily* family = family_of(checkpoint);
  if (!family)
    return make_error(ErrorKind::not_found, "{}: there is no vision tower for this model", checkpoint.path());
  auto weights = std::make_unique<VisionWeights>();
  TRY(weights->spec, read_spec(checkpoint, *family));
  weights->device = &device;
  weights->family = family;
  weights->rope = family->rope(weights->spec);
  TRY(weights->head_dim, choose_head_dim(weights->spec, weights->rope, device, checkpoint.vision()->path()));
  checkpoint.vision()->reopen("");  // a tower may be loaded again, for another device
  TRY_VOID(Loader(*checkpoint.vision(), *weights).load());
  return std::unique_ptr<VisionTower>(new VisionTower(std::move(weights)));
}

const VisionSpec& VisionTower::spec() const {
  return weights_->spec;
}

uint64_t VisionTower::weight_bytes() const {
  uint64_t sum = weights_->table.size() * 4;
  const auto add = [&](const nn::Linear& linear) { sum += linear.weight.bytes(); };
  add(weights_->patches);
  add(weights_->projection);
  if (weights_->merge_up) add(*weights_->merge_up);
  for (const VisionMerger& merger : weights_->deepstack) add(merger.up), add(merger.down);
  for (const VisionLayer& layer : weights_->layers)
    for (const nn::Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.out, &layer.up, &layer.down})
      add(*linear);
  return sum;
}

Result<ImageProcessor> image_processor_of(const Checkpoint& checkpoint) {
  const VisionFamily* family = family_of(checkpoint);
  if (!family)
    return make_error(ErrorKind::not_found, "{}: there is no vision tower for this model", checkpoint.path());
  TRY(const VisionSpec spec, read_spec(checkpoint, *family));
  const Checkpoint& vision = *checkpoint.vision();
  const Json& config = vision.config();
  std::string path = vision.path();
  Json json;
  if (config.contains("preprocessor_config")) {  // of a GGUF file
    json = config["preprocessor_config"];
  } else {
    const char* const names[] = {"preprocessor_config.json", "processor_config.json"};
    std::optional<std::string> text;
    for (const char* name : names) {
      text = checkpoint.side_file(name);
      path = vision.path() + "/" + name;
      if (text) break;
    }
    if (!text) return make_error(ErrorKind::not_found, "{}/{} is missing", vision.path(), names[0]);
    TRY(json, parse_json(*text));
  }
  TRY(ImageProcessor processor, read_image_processor(json, path));
  const auto kind =
      spec.family == VisionSpec::Family::gemma3 ? ImageProcessor::Kind::gemma3 : ImageProcessor::Kind::qwen;
  bool fits = processor.kind == kind;
  if (kind == ImageProcessor::Kind::gemma3) {
    processor.patch = spec.patch;  // the image processor's own config does not state it
    const int across = spec.table_side / spec.merge;
    fits = fits && processor.size == spec.patch * spec.table_side && processor.tokens == across * across;
  } else {
    fits = fits && processor.patch == spec.patch && processor.temporal_patch == spec.temporal_patch &&
           processor.merge == spec.merge;
  }
  if (!fits)
    return make_error(ErrorKind::invalid, "{}: pictures would not fit the vision tower that {} describes",
                      path, vision.path());
  return processor;
}

}  // namespace anabranch
