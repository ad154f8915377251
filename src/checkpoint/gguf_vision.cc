#include "checkpoint/gguf_vision.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_metadata.h"

namespace anabranch {

namespace fs = std::filesystem;

namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

// What differs between the towers: the name of the projector, and names of modules.
struct Tower {
  std::string_view projector, model_type, layers;  // layers: what stands before a layer's number
  std::vector<NamePair> top, layer;
};

const Tower kTowers[] = {{"qwen3vl_merger",
                          "qwen3_5",
                          "blocks.",
                          {{"v.patch_embd", "patch_embed.proj"},
                           {"v.position_embd", "pos_embed"},
                           {"v.post_ln", "merger.norm"},
                           {"mm.0", "merger.linear_fc1"},
                           {"mm.2", "merger.linear_fc2"}},
                          {{"attn_qkv", "attn.qkv"},
                           {"attn_out", "attn.proj"},
                           {"ffn_up", "mlp.linear_fc1"},
                           {"ffn_down", "mlp.linear_fc2"},
                           {"ln1", "norm1"},
                           {"ln2", "norm2"}}},
                         {"gemma3",
                          "gemma3",
                          "encoder.layers.",
                          {{"v.patch_embd", "embeddings.patch_embedding"},
                           {"v.position_embd", "embeddings.position_embedding"},
                           {"v.post_ln", "post_layernorm"},
                           {"mm.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm"}},
                          {{"attn_q", "self_attn.q_proj"},
                           {"attn_k", "self_attn.k_proj"},
                           {"attn_v", "self_attn.v_proj"},
                           {"attn_out", "self_attn.out_proj"},
                           {"ffn_up", "mlp.fc1"},
                           {"ffn_down", "mlp.fc2"},
                           {"ln1", "layer_norm1"},
                           {"ln2", "layer_norm2"}}}};

std::string_view lookup(const std::vector<NamePair>& table, std::string_view key) {
  for (const auto& [from, to] : table)
    if (from == key) return to;
  return {};
}

// Names that are not in the tables stay: the tower says that it does not use them.
std::string hf_vision_name(const Tower& tower, const std::string& name) {
  if (name == "mm.input_projection.weight") return "multi_modal_projector.mm_input_projection_weight";
  for (const auto& [from, to] : tower.top)
    if (name.starts_with(std::string(from) + ".")) return std::string(to) + name.substr(from.size());
  constexpr std::string_view kLayer = "v.blk.";
  const size_t end = name.find('.', kLayer.size()), dot = name.rfind('.');
  if (!name.starts_with(kLayer) || end == std::string::npos || dot <= end) return name;
  const auto module = lookup(tower.layer, std::string_view(name).substr(end + 1, dot - end - 1));
  if (module.empty()) return name;
  return std::string(tower.layers) + name.substr(kLayer.size(), end + 1 - kLayer.size()) +
         std::string(module) + name.substr(dot);
}

// Older files have the names of an MLP's two matrices the wrong way round.
void swap_mlp_names(std::vector<Entry>& entries, int64_t hidden, int64_t intermediate) {
  constexpr std::string_view kFirst = ".mlp.fc1.", kSecond = ".mlp.fc2.";
  const bool swapped = std::ranges::any_of(entries, [&](const Entry& e) {
    return e.info.name.ends_with(".mlp.fc1.weight") &&
           e.info.shape == std::vector<int64_t>{hidden, intermediate} && hidden != intermediate;
  });
  if (!swapped) return;
  for (Entry& entry : entries)
    for (const auto& [from, to] : {std::pair{kFirst, kSecond}, {kSecond, kFirst}})
      if (const size_t at = entry.info.name.find(from); at != std::string::npos) {
        entry.info.name.replace(at, from.size(), to);
        break;
      }
}

Result<Json> read_numbers(const GgufMetadata& metadata, const char* key) {
  const Json* found = metadata.find(key);
  if (!found) return Json{0.5, 0.5, 0.5};
  if (!found->is_array() || found->size() != 3 ||
      !std::ranges::all_of(*found, [](const Json& v) { return v.is_number(); }))
    return make_error(ErrorKind::invalid, "{}: metadata \"clip.vision.{}\" is not three numbers",
                      metadata.path(), key);
  return *found;
}

// vision_config and preprocessor_config as Hugging Face has them.
Result<Json> read_config(const GgufFile& file, const std::string& path, const Tower& tower) {
  const GgufMetadata metadata(file, path, "clip.vision.");
  Json vision, processor;
  struct Key {
    const char *gguf, *hf;
  };
  for (const auto& [from, to] : std::initializer_list<Key>{{"block_count", "depth"},
                                                           {"embedding_length", "hidden_size"},
                                                           {"feed_forward_length", "intermediate_size"},
                                                           {"attention.head_count", "num_heads"},
                                                           {"patch_size", "patch_size"},
                                                           {"image_size", "image_size"}}) {
    TRY(const int64_t value, metadata.integer(from, 1));
    vision[to] = value;
  }
  const int64_t grid = vision["image_size"].get<int64_t>() / vision["patch_size"].get<int64_t>();
  TRY(const double eps, metadata.real("attention.layer_norm_epsilon", 1e-6));
  TRY(processor["image_mean"], read_numbers(metadata, "image_mean"));
  TRY(processor["image_std"], read_numbers(metadata, "image_std"));
  Json config = {{"model_type", tower.model_type}};
  if (tower.projector == "gemma3") {
    TRY(const int64_t pool, metadata.integer("projector.scale_factor", 1, 4));
    const int64_t tokens = grid / pool * (grid / pool);
    const int64_t side = vision["image_size"].get<int64_t>();
    vision["num_hidden_layers"] = vision["depth"];
    vision["num_attention_heads"] = vision["num_heads"];
    vision["layer_norm_eps"] = eps;
    config["mm_tokens_per_image"] = tokens;
    processor["image_processor_type"] = "Gemma3ImageProcessor";
    processor["image_seq_length"] = tokens;
    processor["size"] = {{"height", side}, {"width", side}};
  } else {
    TRY(const int64_t merge, metadata.integer("spatial_merge_size", 1, 2));
    TRY(const auto deep, metadata.flags("is_deepstack_layers", vision["depth"].get<int64_t>()));
    vision["num_position_embeddings"] = grid * grid;
    vision["spatial_merge_size"] = merge;
    vision["temporal_patch_size"] = 2;
    vision["deepstack_visual_indexes"] = Json::array();
    for (size_t i = 0; i < deep.size(); i++)
      if (deep[i]) vision["deepstack_visual_indexes"].push_back(i);
    TRY(vision["out_hidden_size"], metadata.integer("projection_dim", 1));
    processor["image_processor_type"] = "Qwen2VLImageProcessorFast";
    processor["patch_size"] = vision["patch_size"];
    processor["merge_size"] = merge;
    processor["temporal_patch_size"] = 2;
    processor["size"] = {{"shortest_edge", 65536}, {"longest_edge", 16777216}};  // as Qwen's own
  }
  config["vision_config"] = std::move(vision);
  config["preprocessor_config"] = std::move(processor);
  return config;
}

Result<const Tower*> find_tower(const GgufFile& file, const std::string& path) {
  std::string projector;
  for (const char* key : {"clip.projector_type", "clip.vision.projector_type"})
    if (const auto at = file.metadata.find(key); at != file.metadata.end() && at->is_string())
      projector = at->get<std::string>();
  for (const Tower& tower : kTowers)
    if (tower.projector == projector) return &tower;
  return make_error(ErrorKind::unsupported,
                    "{}: a vision tower of type \"{}\" is not supported; qwen3vl_merger and gemma3 are", path,
                    shown(projector));
}

bool is_mmproj(const fs::path& path) {
  std::string start = path.filename().string().substr(0, 6);
  std::ranges::transform(start, start.begin(), [](unsigned char c) { return std::tolower(c); });
  return start == "mmproj" && path.extension() == ".gguf";
}

std::optional<fs::path> first_mmproj(const fs::path& directory) {
  constexpr int kMostEntries = 10'000;
  std::optional<fs::path> found;
  std::error_code code;
  int seen = 0;
  for (fs::directory_iterator it(directory, code), end; !code && it != end && seen < kMostEntries;
       it.increment(code), seen++)
    if (is_mmproj(it->path()) && (!found || it->path().filename() < found->filename())) found = it->path();
  return found;
}

// The snapshot of Hugging Face's store (models--ORG--NAME/snapshots/COMMIT) that a directory is or lies in.
std::optional<fs::path> snapshot_of(fs::path directory) {
  for (; directory.has_relative_path(); directory = directory.parent_path()) {
    const fs::path snapshots = directory.parent_path();
    if (snapshots.filename() == "snapshots" &&
        snapshots.parent_path().filename().string().starts_with("models--"))
      return directory;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_mmproj(const std::string& model_path) {
  const fs::path file(model_path);
  if (is_mmproj(file)) return std::nullopt;
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  auto found = first_mmproj(directory);
  if (const auto top = snapshot_of(directory); !found && top && *top != directory) found = first_mmproj(*top);
  return found ? std::optional(found->string()) : std::nullopt;
}

Result<StoreParts> read_mmproj(const FileBytes& file) {
  TRY(GgufFile parsed, parse_gguf(file.bytes, file.path));
  TRY(const Tower* tower, find_tower(parsed, file.path));
  TRY(Json config, read_config(parsed, file.path, *tower));
  std::vector<Entry> entries;
  entries.reserve(parsed.tensors.size());
  for (const GgufTensor& tensor : parsed.tensors) {
    if (tensor.name.starts_with("a.") || tensor.name.starts_with("mm.a.")) continue;  // for sound
    const auto [rows, cols] = rows_and_cols(tensor.shape);
    entries.push_back({TensorInfo{hf_vision_name(*tower, tensor.name), tensor.type->name, tensor.shape,
                                  tensor.data.size(), file.path, NormConvention::plain},
                       gguf_source(*tensor.type, tensor.data.data(), rows, cols, file.keep)});
  }
  const Json& vision = config["vision_config"];
  swap_mlp_names(entries, vision["hidden_size"].get<int64_t>(), vision["intermediate_size"].get<int64_t>());
  return StoreParts{file.path,
                    "",
                    std::move(config),
                    std::move(parsed.metadata),
                    std::move(entries),
                    0,
                    file.map ? std::vector{file.map} : std::vector<std::shared_ptr<const MappedFile>>{},
                    std::move(parsed.texts)};
}

Result<StoreParts> open_mmproj(const std::string& path) {
  TRY(const auto file, map_file(path));
  return read_mmproj(file);
}

}  // namespace anabranch
