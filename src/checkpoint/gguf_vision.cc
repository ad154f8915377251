#include "checkpoint/gguf_vision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/lower_case.h"
#include "checkpoint/experts.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_metadata.h"

namespace anabranch {

namespace fs = std::filesystem;

namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

// The differences between the towers: the projector's name and the names of modules (llama.cpp's, then
// Ollama's if they differ).
struct Tower {
  std::string_view projector, model_type, layers;  // layers: the prefix of a layer's number
  std::vector<NamePair> top, layer;
};

const Tower kTowers[] = {{"qwen3vl_merger",
                          "qwen3_5",
                          "blocks.",
                          {{"v.patch_embd", "patch_embed.proj"},
                           {"v.position_embd", "pos_embed"},
                           {"v.post_ln", "merger.norm"},
                           {"mm.0", "merger.linear_fc1"},
                           {"mm.2", "merger.linear_fc2"},
                           {"v.patch_embed", "patch_embed.proj"},
                           {"v.pos_embed", "pos_embed"},
                           {"v.merger.norm", "merger.norm"},
                           {"v.merger.linear_fc1", "merger.linear_fc1"},
                           {"v.merger.linear_fc2", "merger.linear_fc2"},
                           {"v.deepstack_merger", "deepstack_merger_list"}},
                          {{"attn_qkv", "attn.qkv"},
                           {"attn_out", "attn.proj"},
                           {"ffn_up", "mlp.linear_fc1"},
                           {"ffn_down", "mlp.linear_fc2"},
                           {"ln1", "norm1"},
                           {"ln2", "norm2"},
                           {"attn_q", "attn.q"},
                           {"attn_k", "attn.k"},
                           {"attn_v", "attn.v"},
                           {"mlp.linear_fc1", "mlp.linear_fc1"},
                           {"mlp.linear_fc2", "mlp.linear_fc2"},
                           {"norm1", "norm1"},
                           {"norm2", "norm2"}}},
                         {"gemma3",
                          "gemma3",
                          "encoder.layers.",
                          {{"v.patch_embd", "embeddings.patch_embedding"},
                           {"v.position_embd", "embeddings.position_embedding"},
                           {"v.post_ln", "post_layernorm"},
                           {"mm.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm"},
                           {"v.patch_embedding", "embeddings.patch_embedding"},
                           {"v.position_embedding", "embeddings.position_embedding"},
                           {"v.post_layernorm", "post_layernorm"},
                           {"mm.mm_soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm"}},
                          {{"attn_q", "self_attn.q_proj"},
                           {"attn_k", "self_attn.k_proj"},
                           {"attn_v", "self_attn.v_proj"},
                           {"attn_out", "self_attn.out_proj"},
                           {"ffn_up", "mlp.fc1"},
                           {"ffn_down", "mlp.fc2"},
                           {"ln1", "layer_norm1"},
                           {"ln2", "layer_norm2"},
                           {"attn_output", "self_attn.out_proj"},
                           {"mlp.fc1", "mlp.fc1"},
                           {"mlp.fc2", "mlp.fc2"},
                           {"layer_norm1", "layer_norm1"},
                           {"layer_norm2", "layer_norm2"}}}};

std::string_view lookup(const std::vector<NamePair>& table, std::string_view key) {
  for (const auto& [from, to] : table)
    if (from == key) return to;
  return {};
}

// Names that are not in the tables are kept: the tower reports that it does not use them.
std::string hf_vision_name(const Tower& tower, const std::string& name) {
  if (name == "mm.input_projection.weight" || name == "mm.mm_input_projection.weight")
    return "multi_modal_projector.mm_input_projection_weight";
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

// llama.cpp names a deepstack merger by the layer of the tower whose output it reads:
// "v.deepstack.8.fc1.weight".
void number_deepstack(std::vector<Entry>& entries, const Json& layers) {
  constexpr std::string_view kPrefix = "v.deepstack.";
  const std::vector<NamePair> parts = {{"norm", "norm"}, {"fc1", "linear_fc1"}, {"fc2", "linear_fc2"}};
  std::map<std::string, size_t, std::less<>> numbers;
  for (size_t i = 0; i < layers.size(); i++) numbers.emplace(layers[i].dump(), i);
  for (Entry& entry : entries) {
    const std::string_view name = entry.info.name;
    const size_t dot = name.find('.', kPrefix.size()), last = name.rfind('.');
    if (!name.starts_with(kPrefix) || dot == std::string_view::npos || last <= dot) continue;
    const auto number = numbers.find(name.substr(kPrefix.size(), dot - kPrefix.size()));
    const auto part = lookup(parts, name.substr(dot + 1, last - dot - 1));
    if (number != numbers.end() && !part.empty())
      entry.info.name = fmt::format("deepstack_merger_list.{}.{}{}", number->second, part, name.substr(last));
  }
}

// In older files the names of an MLP's two matrices are swapped.
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

// Values that are missing in the metadata of a tower within a model's file, and are inferred.
struct Inferred {
  std::optional<int64_t> intermediate, image_size, out_hidden;
  std::optional<int64_t> image_tokens;  // for Gemma 3; in a separate file they follow from the pooling
};

Result<Json> deepstack_layers(const GgufMetadata& metadata, int64_t depth) {
  constexpr const char* kList = "deepstack_visual_indexes";  // Ollama's
  if (const Json* listed = metadata.find(kList)) {
    if (listed->is_array() &&
        std::ranges::all_of(*listed, [](const Json& v) { return v.is_number_integer(); }))
      return *listed;
    return make_error(ErrorKind::invalid, "{}: metadata \"{}\" is not a list of layers", metadata.path(),
                      kList);
  }
  TRY(const auto deep, metadata.flags("is_deepstack_layers", depth));
  Json out = Json::array();
  for (size_t i = 0; i < deep.size(); i++)
    if (deep[i]) out.push_back(i);
  return out;
}

// vision_config and preprocessor_config as Hugging Face has them.
Result<Json> read_config(const GgufMetadata& metadata, const Tower& tower, const Inferred& inferred) {
  Json vision, processor;
  struct Key {
    const char *gguf, *hf;
    std::optional<int64_t> fallback = std::nullopt;
  };
  for (const auto& [from, to, fallback] :
       std::initializer_list<Key>{{"block_count", "depth"},
                                  {"embedding_length", "hidden_size"},
                                  {"feed_forward_length", "intermediate_size", inferred.intermediate},
                                  {"attention.head_count", "num_heads"},
                                  {"patch_size", "patch_size"},
                                  {"image_size", "image_size", inferred.image_size}}) {
    TRY(const int64_t value, metadata.integer(from, 1, fallback));
    vision[to] = value;
  }
  const int64_t grid = vision["image_size"].get<int64_t>() / vision["patch_size"].get<int64_t>();
  TRY(const double eps, metadata.real("attention.layer_norm_epsilon", 1e-6));
  TRY(processor["image_mean"], read_numbers(metadata, "image_mean"));
  TRY(processor["image_std"], read_numbers(metadata, "image_std"));
  Json config = {{"model_type", tower.model_type}};
  if (tower.projector == "gemma3") {
    TRY(const int64_t pool, metadata.integer("projector.scale_factor", 1, 4));
    const int64_t tokens = inferred.image_tokens.value_or(grid / pool * (grid / pool));
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
    vision["num_position_embeddings"] = grid * grid;
    vision["spatial_merge_size"] = merge;
    vision["temporal_patch_size"] = 2;
    TRY(vision["deepstack_visual_indexes"], deepstack_layers(metadata, vision["depth"].get<int64_t>()));
    if (!vision["deepstack_visual_indexes"].empty()) config["model_type"] = "qwen3_vl";
    TRY(vision["out_hidden_size"], metadata.integer("projection_dim", 1, inferred.out_hidden));
    TRY(const int64_t shortest, metadata.integer("shortest_edge", 1, 65536));  // as Qwen's own
    TRY(const int64_t longest, metadata.integer("longest_edge", 1, 16777216));
    processor["image_processor_type"] = "Qwen2VLImageProcessorFast";
    processor["patch_size"] = vision["patch_size"];
    processor["merge_size"] = merge;
    processor["temporal_patch_size"] = 2;
    processor["size"] = {{"shortest_edge", shortest}, {"longest_edge", longest}};
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

std::string lower_name(const fs::path& path) {
  return lower_case(path.filename().string());
}

// "mmproj-F16.gguf", "mmproj-MODEL-F16.gguf", "MODEL.mmproj-F16.gguf"
bool is_mmproj(const fs::path& path) {
  return lower_name(path).find("mmproj") != std::string::npos && path.extension() == ".gguf";
}

// The number of leading characters, in whole words, that a tower's name (without "mmproj") shares with the
// model's name.
size_t shared_name(const fs::path& tower, const std::string& model) {
  std::string name = lower_name(tower);
  name.erase(name.find("mmproj"), 6);
  name.erase(0, name.find_first_not_of("-_."));
  name.resize(static_cast<size_t>(std::ranges::mismatch(name, model).in1 - name.begin()));
  return name.find_last_of("-_.") + 1;  // npos + 1 is 0
}

// The tower whose name is closest to the model's, then the first by name.
std::optional<fs::path> find_mmproj_in(const fs::path& directory, const std::string& model) {
  constexpr int kMostEntries = 10'000;
  std::optional<fs::path> found;
  const auto rank = [&](const fs::path& path) {
    return std::pair(-static_cast<int64_t>(shared_name(path, model)), path.filename());
  };
  std::error_code code;
  int seen = 0;
  for (fs::directory_iterator it(directory, code), end; !code && it != end && seen < kMostEntries;
       it.increment(code), seen++)
    if (is_mmproj(it->path()) && (!found || rank(it->path()) < rank(*found))) found = it->path();
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

bool is_for_sound(std::string_view name) {
  return name.starts_with("a.") || name.starts_with("mm.a.");
}

Entry vision_entry(const Tower& tower, const GgufTensor& tensor, const FileBytes& file) {
  const auto [rows, cols] = rows_and_cols(tensor.shape);
  return {TensorInfo{hf_vision_name(tower, tensor.name), tensor.type->name, tensor.shape, tensor.data.size(),
                     file.path, NormConvention::plain},
          gguf_source(*tensor.type, tensor.data.data(), rows, cols, file.keep)};
}

const Tower* inner_tower(const GgufConfig& model) {
  if (model.arch == GgufArch::qwen35 || string_at(model.config, "model_type").starts_with("qwen3_vl"))
    return &kTowers[0];
  return model.arch == GgufArch::gemma3 ? &kTowers[1] : nullptr;
}

// Ollama's files have three matrices for Qwen's attention where the tower has one, and combine the channels
// of a patch with the outputs. Undoes both.
Result<std::vector<Entry>> as_one_matrix(std::vector<Entry> entries) {
  std::vector<Entry> out;
  std::map<std::string, std::array<std::optional<Entry>, 3>> apart;  // by the name of the joined tensor
  for (Entry& entry : entries) {
    auto& [name, type, shape, bytes, path, norms] = entry.info;
    if (name == "patch_embed.proj.weight" && shape.size() == 4 && shape[0] % 3 == 0)
      shape = {shape[0] / 3, 3, shape[1], shape[2], shape[3]};
    constexpr std::string_view kModule = ".attn.";
    const size_t at = name.rfind(kModule), letter = at + kModule.size();
    const size_t which =
        at == std::string::npos ? std::string_view::npos : std::string_view("qkv").find(name[letter]);
    if (which == std::string_view::npos || name[letter + 1] != '.')
      out.push_back(std::move(entry));
    else
      apart[name.substr(0, letter) + "qkv" + name.substr(letter + 1)][which] = std::move(entry);
  }
  for (auto& [name, three] : apart) {
    for (const auto& part : three)
      if (!part || !same_format(*three[0], *part))
        return make_error(ErrorKind::invalid, "the parts of vision tensor \"{}\" do not go together",
                          shown(name));
    Entry joined{three[0]->info, join_rows({three[0]->source, three[1]->source, three[2]->source})};
    joined.info.name = name;
    joined.info.shape[0] *= 3;
    joined.info.bytes *= 3;
    out.push_back(std::move(joined));
  }
  return out;
}

Inferred infer_tower(const GgufParts& parts, const GgufConfig& model, const GgufMetadata& tower) {
  const GgufMetadata whole(parts.joined, parts.files.front().path, "");
  Inferred out;
  out.out_hidden = model.config["hidden_size"].get<int64_t>();
  if (const GgufTensor* up = whole.tensor("v.blk.0.mlp.linear_fc1.weight")) out.intermediate = up->shape[0];
  const GgufTensor* table = whole.tensor("v.pos_embed.weight");
  const Json* patch = tower.find("patch_size");
  if (table && patch && patch->is_number_integer() && *patch > 0 && *patch < 1024)
    out.image_size = std::llround(std::sqrt(static_cast<double>(table->shape[0]))) * patch->get<int64_t>();
  const auto tokens =
      GgufMetadata(parts.joined, parts.files.front().path, "gemma3.").integer("mm.tokens_per_image", 1, 256);
  if (model.arch == GgufArch::gemma3 && tokens.ok()) out.image_tokens = *tokens;
  return out;
}

}  // namespace

std::optional<std::string> find_mmproj(const std::string& model_path) {
  const fs::path file(model_path);
  if (is_mmproj(file)) return std::nullopt;
  const fs::path directory = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const std::string name = lower_name(file);
  auto found = find_mmproj_in(directory, name);
  if (const auto top = snapshot_of(directory); !found && top && *top != directory)
    found = find_mmproj_in(*top, name);
  return found ? std::optional(found->string()) : std::nullopt;
}

Result<StoreParts> read_mmproj(const FileBytes& file) {
  TRY(GgufFile parsed, parse_gguf(file.bytes, file.path));
  if (!parsed.unread.empty()) return parsed.unread.front().why;
  TRY(const Tower* tower, find_tower(parsed, file.path));
  TRY(Json config, read_config(GgufMetadata(parsed, file.path, "clip.vision."), *tower, {}));
  std::vector<Entry> entries;
  entries.reserve(parsed.tensors.size());
  for (const GgufTensor& tensor : parsed.tensors) {
    if (!is_for_sound(tensor.name)) entries.push_back(vision_entry(*tower, tensor, file));
  }
  const Json& vision = config["vision_config"];
  if (vision.contains("deepstack_visual_indexes"))
    number_deepstack(entries, vision["deepstack_visual_indexes"]);
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

bool is_tower_tensor(std::string_view name) {
  return name.starts_with("v.") || name.starts_with("mm.") || name.starts_with("a.") ||
         name.starts_with("model.vision_tower.");
}

Result<StoreParts> read_inner_tower(const GgufParts& parts, const GgufConfig& model) {
  const std::string& path = parts.files.front().path;
  const Tower* tower = inner_tower(model);
  if (!tower)
    return make_error(ErrorKind::unsupported, "{}: a vision tower in a file of {} is not supported", path,
                      string_at(model.config, "model_type"));
  const GgufMetadata metadata(parts.joined, path,
                              string_at(parts.joined.metadata, "general.architecture") + ".vision.");
  TRY(Json config, read_config(metadata, *tower, infer_tower(parts, model, metadata)));
  std::vector<Entry> entries;
  for (const GgufTensor& tensor : parts.joined.tensors)
    if (is_tower_tensor(tensor.name) && !is_for_sound(tensor.name))
      entries.push_back(vision_entry(*tower, tensor, parts.files[tensor.file]));
  TRY(entries, as_one_matrix(std::move(entries)));
  return StoreParts{path, "", std::move(config), Json(), std::move(entries)};
}

Result<StoreParts> open_mmproj(const std::string& path) {
  TRY(const auto file, map_file(path));
  return read_mmproj(file);
}

}  // namespace anabranch
