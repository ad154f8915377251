#include "checkpoint/mtp_head.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "checkpoint/dense.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/names.h"
#include "checkpoint/output_layout.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_model.h"
#include "checkpoint/shard_writer.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFile = "mtp.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = size_t{256} << 20;
constexpr size_t kMaxIndexKeys = size_t{1} << 22;
constexpr int64_t kMaxLayers = 16;
constexpr int64_t kMaxDim = int64_t{1} << 24;

const Json& text_config(const Json& config) {
  const auto text = config.find("text_config");
  return text != config.end() && text->is_object() ? *text : config;
}

int64_t promised_layers(const Json& config) {
  if (!config.is_object()) return 0;
  const Json& text = text_config(config);
  const auto layers = text.find("mtp_num_hidden_layers");
  return layers != text.end() && layers->is_number_integer() ? layers->get<int64_t>() : 0;
}

bool has_head(const Checkpoint& checkpoint) {
  return std::ranges::any_of(checkpoint.tensors(), [](const auto& t) { return t.name.starts_with("mtp."); });
}

bool flag(const Json& text, const char* key, bool fallback) {
  const auto value = text.find(key);
  return value != text.end() && value->is_boolean() ? value->get<bool>() : fallback;
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

// The tensors that the head of this model must have, according to config.json. Reference: Transformers'
// Qwen3_5 decoder layer with full attention, and vLLM's Qwen3_5MultiTokenPredictor for what is around it.
class HeadShapes {
 public:
  HeadShapes(const Json& config, const std::string& path) : text_(text_config(config)), path_(path) {}

  Result<Shapes> read(int64_t layers) {
    const int64_t h = size("hidden_size");
    out_["mtp.fc.weight"] = {h, 2 * h};
    for (const char* norm : {"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"})
      out_[fmt::format("mtp.{}.weight", norm)] = {h};
    for (int64_t i = 0; i < layers; i++) {
      const std::string layer = fmt::format("mtp.layers.{}.", i);
      out_[layer + "input_layernorm.weight"] = out_[layer + "post_attention_layernorm.weight"] = {h};
      add_attention(layer + "self_attn.", h);
      if (has_experts())
        add_experts(layer + "mlp.", h);
      else
        add_mlp(layer + "mlp.", h, size("intermediate_size"));
    }
    if (flag(text_, "mtp_use_dedicated_embeddings", false))
      out_["mtp.embed_tokens.weight"] = {size("vocab_size"), h};
    if (error_) return *error_;
    return std::move(out_);
  }

 private:
  int64_t size(const char* key, int64_t fallback = 0) {
    const auto value = text_.find(key);
    if (value == text_.end() && fallback > 0) return fallback;
    if (value != text_.end() && value->is_number_integer() && *value > 0 && *value <= kMaxDim)
      return value->get<int64_t>();
    if (!error_)
      error_ = make_error(ErrorKind::invalid, "{}: config.json: \"{}\" is not a sensible number", path_, key);
    return 1;
  }

  // The key of the number of experts, which has two names, as in models/family_config.h.
  const char* experts_key() const {
    const auto local = text_.find("num_local_experts");
    return local != text_.end() && !local->is_null() ? "num_local_experts" : "num_experts";
  }
  bool has_experts() const {
    const auto experts = text_.find(experts_key());
    return experts != text_.end() && !experts->is_null() && *experts != 0;
  }

  void add_attention(const std::string& p, int64_t h) {
    const int64_t dim = size("head_dim", 256), queries = size("num_attention_heads") * dim;
    const int64_t keys = size("num_key_value_heads") * dim;
    out_[p + "q_proj.weight"] = {flag(text_, "attn_output_gate", true) ? 2 * queries : queries, h};
    out_[p + "k_proj.weight"] = out_[p + "v_proj.weight"] = {keys, h};
    out_[p + "o_proj.weight"] = {h, queries};
    out_[p + "q_norm.weight"] = out_[p + "k_norm.weight"] = {dim};
  }

  void add_mlp(const std::string& p, int64_t h, int64_t inner) {
    out_[p + "gate_proj.weight"] = out_[p + "up_proj.weight"] = {inner, h};
    out_[p + "down_proj.weight"] = {h, inner};
  }

  void add_experts(const std::string& p, int64_t h) {
    const int64_t experts = size(experts_key()), inner = size("moe_intermediate_size");
    out_[p + "gate.weight"] = {experts, h};
    out_[p + "switch_mlp.gate_proj.weight"] = out_[p + "switch_mlp.up_proj.weight"] = {experts, inner, h};
    out_[p + "switch_mlp.down_proj.weight"] = {experts, h, inner};
    out_[p + "shared_expert_gate.weight"] = {1, h};
    add_mlp(p + "shared_expert.", h, size("shared_expert_intermediate_size"));
  }

  const Json& text_;
  const std::string& path_;
  Shapes out_;
  std::optional<Error> error_;
};

Result<std::vector<Entry>> open_source(const std::string& path) {
  std::error_code code;
  if (!fs::exists(path, code))
    return make_error(ErrorKind::not_found, "there is no checkpoint at {}: neither a directory nor a file",
                      path);
  const auto extension = fs::path(path).extension();
  std::vector<Entry> entries;
  if (extension == ".gguf" && !fs::is_directory(path, code)) {
    TRY(auto parts, open_gguf(path));
    entries = std::move(parts.entries);
    std::erase_if(entries, [](const Entry& e) { return !e.info.name.starts_with("mtp."); });
  } else if (extension == ".safetensors" || fs::is_directory(path, code)) {
    TRY(entries, open_safetensors_mtp(path));
  } else {
    return make_error(ErrorKind::unsupported, "{} is neither a directory, a .safetensors nor a .gguf file",
                      path);
  }
  if (entries.empty())
    return make_error(ErrorKind::not_found, "{} has no prediction head: none of its tensors is mtp.*", path);
  std::ranges::sort(entries, {}, [](const Entry& e) { return e.info.name; });
  return entries;
}

// The number of layers 0, 1, ... for which the head has tensors.
int64_t count_layers(const std::vector<Entry>& entries) {
  int64_t layers = 0;
  while (layers < kMaxLayers && std::ranges::any_of(entries, [&](const Entry& e) {
           return e.info.name.starts_with(fmt::format("mtp.layers.{}.", layers));
         }))
    layers++;
  return layers;
}

Result<void> check_shapes(const Shapes& expected, const std::vector<Entry>& entries,
                          const std::string& original, const std::string& model) {
  std::set<std::string_view> there;
  for (const Entry& entry : entries) {
    const TensorInfo& info = entry.info;
    const auto at = expected.find(info.name);
    if (at == expected.end())
      return make_error(ErrorKind::invalid,
                        "{}: tensor \"{}\" has no place in the prediction head of {}: is it another model's?",
                        info.file, shown(info.name), model);
    if (entry.unreadable) return *entry.unreadable;
    if (info.shape != at->second)
      return make_error(ErrorKind::invalid,
                        "{}: tensor \"{}\" has shape {}; {} needs {}: is it another model's?", info.file,
                        shown(info.name), shape_text(info.shape), model, shape_text(at->second));
    there.insert(info.name);
  }
  for (const auto& [name, shape] : expected)
    if (!there.contains(name))
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" is missing: its prediction head is incomplete",
                        original, name);
  return {};
}

// Norms that a file stores as 1 + w are written as f32: after subtracting 1 they have more digits than bf16.
bool is_unshifted(const TensorInfo& info) {
  return is_shifted_norm(info.name) && info.norms == NormConvention::plain;
}

WeightKind stored_kind(const TensorInfo& info) {
  return is_unshifted(info) ? WeightKind::f32 : WeightKind::bf16;
}

Piece piece_of(const Entry& entry) {
  const WeightKind kind = stored_kind(entry.info);
  return {entry.info.name, dtype_name(kind), entry.info.shape,
          static_cast<uint64_t>(entry.source.rows * entry.source.cols * dense_size(kind))};
}

Result<void> write_tensor(const Entry& entry, ShardWriter& writer) {
  constexpr int64_t kChunk = 1 << 24;  // elements
  const WeightSource& source = entry.source;
  const WeightKind kind = stored_kind(entry.info);
  const int64_t step = std::max<int64_t>(1, kChunk / source.cols), size = dense_size(kind);
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (int64_t row = 0; row < source.rows; row += step) {
    const int64_t rows = std::min(step, source.rows - row), count = rows * source.cols;
    values.resize(static_cast<size_t>(count));
    bytes.resize(static_cast<size_t>(count * size));
    const int64_t grain = std::max<int64_t>(1, (1 << 16) / source.cols);
    shared_threads().parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      read_values(source, row + begin, end - begin, &values[begin * source.cols]);
    });
    if (is_unshifted(entry.info))
      for (float& v : values) v -= 1;
    if (!float_to_dense(kind, values.data(), count, bytes.data()))
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" has values that {} cannot hold",
                        entry.info.file, shown(entry.info.name), dtype_name(kind));
    TRY_VOID(writer.write_part(entry.info.name, static_cast<uint64_t>(row * source.cols * size), bytes.data(),
                               bytes.size()));
  }
  return {};
}

// A file that is removed unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(fs::path path) : path_(std::move(path)) { remove(); }
  ~TemporaryFile() { remove(); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const fs::path& path() const { return path_; }
  Result<void> rename_to(const fs::path& target) const {
    std::error_code code;
    fs::rename(path_, target, code);
    if (code) return make_error(ErrorKind::io, "cannot write {}: {}", target.string(), code.message());
    return {};
  }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  fs::path path_;
};

struct HeadSize {
  uint64_t bytes = 0, parameters = 0;
};

// The index of a directory, if it has one; the head's tensors in it can be changed.
class Index {
 public:
  static Result<Index> read(const fs::path& directory) {
    Index out;
    out.path_ = directory / kIndex;
    auto text = read_file(out.path_.string(), kMaxIndexBytes);
    if (!text.ok() && text.error().kind == ErrorKind::not_found) return out;
    if (!text.ok()) return text.error();
    // Checkpoint::open has already checked the file.
    TRY(out.json_, parse_json(*text, {.bytes = kMaxIndexBytes, .keys_per_object = kMaxIndexKeys}));
    const auto map = out.json_.find("weight_map");
    if (!out.json_.is_object() || map == out.json_.end() || !map->is_object())
      return make_error(ErrorKind::invalid, "{} has no \"weight_map\" object", out.path_.string());
    out.there_ = true;
    return out;
  }

  Result<void> remove_head(const HeadSize& size) {
    if (!there_) return {};
    if (remove([](const std::string& name) { return is_mtp_name(name); }) == 0) return {};
    change_sizes(-static_cast<int64_t>(size.bytes), -static_cast<int64_t>(size.parameters));
    return write();
  }

  Result<void> add_head(const std::vector<Entry>& entries, const HeadSize& size) {
    if (!there_) return {};
    std::set<std::string> names;
    for (const Entry& entry : entries) names.insert(entry.info.name);
    remove([&](const std::string& name) { return names.contains(name); });
    for (const std::string& name : names) files().emplace_back(name, kFile);
    change_sizes(static_cast<int64_t>(size.bytes), static_cast<int64_t>(size.parameters));
    return write();
  }

 private:
  // The file of each tensor. Json's own insertion and removal would search all keys for each.
  Json::object_t& files() { return json_["weight_map"].get_ref<Json::object_t&>(); }

  template <class Unwanted>
  size_t remove(Unwanted unwanted) {
    // Values can be moved but names cannot, so the wanted entries go to a new object.
    Json::object_t kept;
    for (auto& [name, file] : files())
      if (!unwanted(name)) kept.emplace_back(name, std::move(file));
    const size_t removed = files().size() - kept.size();
    files() = std::move(kept);
    return removed;
  }

  void change_sizes(int64_t bytes, int64_t parameters) {
    const auto metadata = json_.find("metadata");
    if (metadata == json_.end() || !metadata->is_object()) return;
    for (const auto& [key, change] : {std::pair("total_size", bytes), {"total_parameters", parameters}}) {
      const auto at = metadata->find(key);
      if (at == metadata->end() || !at->is_number_unsigned()) continue;
      const auto old = at->get<uint64_t>();
      *at = change < 0 ? old - std::min(old, static_cast<uint64_t>(-change)) : old + change;
    }
  }

  Result<void> write() const {
    const TemporaryFile file(path_.string() + ".partial");
    TRY_VOID(write_file(file.path().string(), dump_json(json_, 2) + "\n"));
    return file.rename_to(path_);
  }

  fs::path path_;
  Json json_;
  bool there_ = false;
};

// The files of the old head, which must be removed before the new file is written.
Result<std::set<std::string>> old_files(const Checkpoint& model, const fs::path& directory, bool force) {
  std::set<std::string> files;
  for (const TensorInfo& info : model.tensors())
    if (info.name.starts_with("mtp.")) files.insert(info.file);
  std::error_code code;
  if (fs::exists(directory / kFile, code)) files.insert((directory / kFile).string());
  if (files.empty()) return files;
  if (!force)
    return make_error(ErrorKind::invalid, "{} has a prediction head already, in {}; --force replaces it",
                      model.path(), *files.begin());
  for (const auto& file : files) {
    TRY(const bool alone, holds_only_mtp(file));
    if (!alone)
      return make_error(ErrorKind::invalid,
                        "{} holds other tensors beside the prediction head: it cannot be replaced alone",
                        file);
  }
  // A file may contain only some scales of the head.
  for (const auto& file : fs::directory_iterator(directory, code)) {
    if (file.path().extension() != ".safetensors") continue;
    const auto alone = holds_only_mtp(file.path().string());
    if (alone.ok() && *alone) files.insert(file.path().string());
  }
  return files;
}

HeadSize size_of_head(const Checkpoint& model) {
  HeadSize size;
  for (const TensorInfo& info : model.tensors()) {
    if (!info.name.starts_with("mtp.")) continue;
    const auto [rows, cols] = rows_and_cols(info.shape);
    size.bytes += info.bytes;
    size.parameters += static_cast<uint64_t>(rows * cols);
  }
  return size;
}

Result<std::unique_ptr<Checkpoint>> open_target(const std::string& path) {
  std::error_code code;
  if (fs::exists(path, code) && !fs::is_directory(path, code))
    return make_error(ErrorKind::invalid,
                      "{} is not a directory: a prediction head can be added to a model directory", path);
  TRY(auto model, Checkpoint::open(path));
  const std::string family = string_at(model->config(), "model_type");
  if (!family.starts_with("qwen3_5"))
    return make_error(ErrorKind::unsupported,
                      "{}: models of type \"{}\" have no prediction head; those of Qwen3.5 do", path,
                      shown(family));
  return model;
}

// The head's tensors: exactly those that the model's config.json requires.
Result<std::vector<Entry>> read_head(const std::string& original, const Checkpoint& model,
                                     std::vector<std::string>& warnings) {
  TRY(auto entries, open_source(original));
  if (!flag(text_config(model.config()), "mtp_use_dedicated_embeddings", false) &&
      std::erase_if(entries, [](const Entry& e) {
        return e.info.name == "mtp.embed_tokens.weight" || e.info.name == "mtp.lm_head.weight";
      }))
    warnings.push_back("the head's own embedding is left out: config.json says that it has the model's");
  const int64_t layers = count_layers(entries), promised = promised_layers(model.config());
  if (promised > 0 && layers != promised)
    return make_error(ErrorKind::invalid, "{}: a prediction head of {} layers; config.json of {} says {}",
                      original, layers, model.path(), promised);
  const std::string path = model.path();
  TRY(const auto expected, HeadShapes(model.config(), path).read(std::max<int64_t>(1, layers)));
  TRY_VOID(check_shapes(expected, entries, original, path));
  const auto quantised =
      std::ranges::find_if(entries, [](const Entry& e) { return is_coded(e.source.kind); });
  if (quantised != entries.end())
    warnings.push_back(fmt::format(
        "the head in {} is quantised ({}), which costs drafts: take it from the original weights if "
        "you can",
        original, quantised->info.type));
  return entries;
}

Result<void> write_head(const std::vector<Entry>& entries, const std::string& stem, ShardWriter& writer) {
  std::vector<std::vector<Piece>> pieces;
  for (const Entry& entry : entries) pieces.push_back({piece_of(entry)});
  TRY_VOID(writer.add_files(stem, pieces, UINT64_MAX));
  for (const Entry& entry : entries) TRY_VOID(write_tensor(entry, writer));
  return {};
}

// Replaces the old head's files by the written one. The index never names a file that does not exist.
Result<void> replace_head(const Checkpoint& model, const std::set<std::string>& old,
                          const TemporaryFile& written, const std::vector<Entry>& entries, uint64_t bytes) {
  const fs::path directory(model.path());
  HeadSize size{bytes, 0};
  for (const Entry& entry : entries)
    size.parameters += static_cast<uint64_t>(entry.source.rows * entry.source.cols);
  TRY(auto index, Index::read(directory));
  TRY_VOID(index.remove_head(size_of_head(model)));
  std::error_code code;
  for (const auto& file : old)
    if (file != directory / kFile && !fs::remove(file, code))
      return make_error(ErrorKind::io, "{} cannot be replaced: {}", file, code.message());
  TRY_VOID(written.rename_to(directory / kFile));
  return index.add_head(entries, size);
}

}  // namespace

std::string missing_mtp_note(const Checkpoint& checkpoint, const std::string& directory) {
  const int64_t layers = promised_layers(checkpoint.config());
  if (layers <= 0 || has_head(checkpoint)) return "";
  std::string note = fmt::format(
      "config.json promises a prediction head (mtp_num_hidden_layers {}), but there are no mtp.* tensors",
      layers);
  if (!directory.empty())
    note += fmt::format("; add them from the original checkpoint: anabranch convert {} --mtp-from ORIGINAL",
                        directory);
  return note;
}

Result<MtpReport> add_mtp_head(const std::string& model_path, const std::string& original, bool force) {
  const fs::path directory(model_path);
  TRY(const auto model, open_target(model_path));
  TRY(const auto old, old_files(*model, directory, force));
  MtpReport report;
  TRY(const auto entries, read_head(original, *model, report.warnings));

  // Write under a name that loaders ignore until the file is complete.
  const std::string stem = fmt::format(".mtp-{}", ::getpid());
  const TemporaryFile written(directory / (stem + ".safetensors"));
  ShardWriter writer(directory.string(), "pt");
  TRY_VOID(write_head(entries, stem, writer));
  TRY_VOID(replace_head(*model, old, written, entries, writer.data_bytes()));
  report.file = (directory / kFile).string();
  report.tensors = static_cast<int>(entries.size());
  report.bytes = writer.bytes();
  return report;
}

}  // namespace anabranch
