// The vision tower of Qwen3-VL and Qwen3.5: patches with two-dimensional rotary positions plus learned
// positions that are interpolated to the image's grid, and a merger of merge x merge patches into a token.
// Qwen3-VL has mergers behind inner layers, too. References: Transformers' modeling_qwen3_vl.py and
// modeling_qwen3_5.py.
#include <algorithm>
#include <cmath>

#include "models/vision_parts.h"

namespace anabranch {
namespace {

// Only Qwen3-VL has them.
std::vector<int> read_deepstack(ConfigReader& c, int depth, const std::string& type) {
  const bool has = type.starts_with("qwen3_vl");
  std::vector<int> layers = c.integers("deepstack_visual_indexes");
  if (has && !c.has("deepstack_visual_indexes")) layers = {8, 16, 24};
  if (!layers.empty() && !has)
    c.unsupported("deepstack_visual_indexes", "a list with entries", "an empty one is, in " + type);
  for (size_t i = 0; i < layers.size(); i++)
    if (layers[i] < 0 || layers[i] >= depth || (i > 0 && layers[i] <= layers[i - 1])) {
      c.invalid("\"deepstack_visual_indexes\" are not ascending numbers of layers");
      return {};
    }
  return layers;
}

VisionSpec read_config(ConfigReader& c, const Json& whole, const std::string&) {
  VisionSpec spec;
  spec.family = VisionSpec::Family::qwen;
  spec.depth = c.integer("depth", 1, 256);
  spec.hidden = c.integer("hidden_size", 4, 1 << 15);
  spec.intermediate = c.integer("intermediate_size", 1, 1 << 17);
  spec.heads = c.integer("num_heads", 1, 1024);
  spec.patch = c.integer("patch_size", 1, 64);
  spec.temporal_patch = c.integer_or("temporal_patch_size", 1, 8, 2);
  spec.merge = c.integer_or("spatial_merge_size", 1, 8, 2);
  spec.out_hidden = c.integer("out_hidden_size", 1, 1 << 17);
  const int positions = c.integer("num_position_embeddings", 1, 1 << 20);
  spec.table_side = static_cast<int>(std::lround(std::sqrt(positions)));
  if (spec.table_side * spec.table_side != positions)
    c.invalid("\"num_position_embeddings\" is not the square of a number");
  if (spec.heads > 0 && (spec.hidden % spec.heads != 0 || spec.head_dim() % 4 != 0))
    c.invalid("\"hidden_size\" and \"num_heads\" make no heads of a multiple of 4 numbers");
  if (c.integer_or("in_channels", 0, 1 << 16, 3) != 3) c.unsupported("in_channels", "not 3", "3");
  const std::string act = c.string_or("hidden_act", "gelu_pytorch_tanh");
  if (act != "gelu_pytorch_tanh") c.unsupported("hidden_act", act, "gelu_pytorch_tanh");
  spec.deepstack = read_deepstack(c, spec.depth, string_at(whole, "model_type"));
  ConfigReader rope(c.object("rope_parameters"), "rope_parameters");
  spec.rope_theta = rope.number_or("rope_theta", 1, 1e12, 10000);
  if (const auto type = rope.string_or("rope_type", "axial"); type != "axial" && type != "default")
    c.unsupported("rope_type", type, "axial");
  if (!rope.check().ok()) c.invalid("\"rope_parameters\" make no sense");
  return spec;
}

// Half of the frequencies rotate by the row, half by the column.
ops::Rope make_rope(const VisionSpec& spec) {
  ops::Rope rope;
  const int each = spec.head_dim() / 4;
  for (int axis = 0; axis < 2; axis++)
    for (int i = 0; i < each; i++) {
      rope.inv_freq.push_back(1.0f / std::pow(static_cast<float>(spec.rope_theta),
                                              static_cast<float>(i) / static_cast<float>(each)));
      rope.axis.push_back(static_cast<uint8_t>(axis));
    }
  return rope;
}

Result<void> load_end(Checkpoint& checkpoint, VisionWeights& weights) {
  const VisionSpec& s = weights.spec;
  const int width = s.hidden * s.merge * s.merge;
  TRY(weights.merge_up, take_vision_linear(checkpoint, *weights.device, "merger.linear_fc1", width, width));
  TRY(weights.projection,
      take_vision_linear(checkpoint, *weights.device, "merger.linear_fc2", s.out_hidden, width));
  for (size_t i = 0; i < s.deepstack.size(); i++) {
    const std::string name = fmt::format("deepstack_merger_list.{}.", i);
    VisionMerger merger;
    TRY(merger.norm, take_layer_norm(checkpoint, *weights.device, name + "norm", width, s.eps));
    TRY(merger.up, take_vision_linear(checkpoint, *weights.device, name + "linear_fc1", width, width));
    TRY(merger.down,
        take_vision_linear(checkpoint, *weights.device, name + "linear_fc2", s.out_hidden, width));
    weights.deepstack.push_back(std::move(merger));
  }
  return {};
}

// Where a row (or column) of an image with `count` rows lies in a table with `side` rows: between two
// neighbouring rows of the table.
struct Between {
  int low, high;
  float share;  // interpolation weight of high
};
Between place_in_table(int index, int count, int side) {
  const float at = static_cast<float>(index * (side - 1)) / static_cast<float>(std::max(count - 1, 1));
  const int low = static_cast<int>(std::floor(at));
  return {low, std::min(low + 1, side - 1), at - static_cast<float>(low)};
}

void position(const VisionWeights& weights, const PatchGrid& grid, PatchPosition place, float* out) {
  const int side = weights.spec.table_side, hidden = weights.spec.hidden;
  const Between row = place_in_table(place.row, grid.rows, side),
                column = place_in_table(place.column, grid.columns, side);
  const auto entry = [&](int r, int c) {
    return weights.table.data() + (static_cast<int64_t>(r) * side + c) * hidden;
  };
  const float *a = entry(row.low, column.low), *b = entry(row.low, column.high),
              *c = entry(row.high, column.low), *d = entry(row.high, column.high);
  const float wa = (1 - row.share) * (1 - column.share), wb = (1 - row.share) * column.share,
              wc = row.share * (1 - column.share), wd = row.share * column.share;
  for (int i = 0; i < hidden; i++) out[i] = a[i] * wa + b[i] * wb + c[i] * wc + d[i] * wd;
}

Tensor finish(const VisionWeights& weights, const Tensor& x) {
  const int each = weights.spec.merge * weights.spec.merge;
  const Tensor blocks = weights.last_norm(x).reshape({x.shape(0) / each, x.shape(1) * each});
  return project(weights.projection, ops::gelu(project(*weights.merge_up, blocks), ops::Gelu::erf));
}

Tensor merge(const VisionMerger& merger, const Tensor& x) {
  const int width = merger.norm.weight.shape(0);
  const Tensor blocks = merger.norm(x.reshape({static_cast<int>(x.size() / width), width}));
  return project(merger.down, ops::gelu(project(merger.up, blocks), ops::Gelu::erf));
}

}  // namespace

const VisionFamily& qwen_vision() {
  static const VisionFamily family{{.layers = "blocks.",
                                    .norm1 = "norm1",
                                    .norm2 = "norm2",
                                    .out = "attn.proj",
                                    .up = "mlp.linear_fc1",
                                    .down = "mlp.linear_fc2",
                                    .qkv = "attn.qkv",
                                    .q = "",
                                    .k = "",
                                    .v = "",
                                    .patches = "patch_embed.proj",
                                    .table = "pos_embed",
                                    .last_norm = "merger.norm"},
                                   read_config,
                                   make_rope,
                                   load_end,
                                   position,
                                   finish,
                                   merge};
  return family;
}

}  // namespace anabranch
