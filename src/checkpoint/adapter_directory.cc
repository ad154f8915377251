// Adapters of PEFT and MLX: adapter_config.json with a safetensors file.
#include <filesystem>
#include <utility>

#include "base/wrong_file.h"
#include "checkpoint/adapter_file.h"
#include "checkpoint/adapter_parts.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

namespace anabranch {

namespace {

constexpr size_t kMaxAdapterConfig = 8u << 20;

// adapter_config.json.
struct AdapterConfig {
  std::string path;
  Json json;
};

Result<AdapterConfig> read_adapter_config(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / "adapter_config.json").string();
  TRY(const std::string text, read_file(path, kMaxAdapterConfig));
  auto json = parse_json(text);
  if (!json.ok())
    return make_error(json.error().kind, "{}: {}{}", path, json.error().message, what_it_is_instead(text));
  if (!json->is_object()) return make_error(ErrorKind::invalid, "{} is not a JSON object", path);
  return AdapterConfig{path, std::move(*json)};
}

Error wrong_value(const AdapterConfig& config, const std::string& key, const char* what) {
  return make_error(ErrorKind::invalid, "{}: \"{}\" is missing or not {}", config.path, shown(key), what);
}

// `name` is where the value is, for messages.
Result<int64_t> rank_in(const AdapterConfig& config, const std::string& name, const Json& value) {
  if (!value.is_number_integer() || value < 1 || value > kMaxAdapterRank)
    return wrong_value(config, name, "a rank from 1 to 1024");
  return value.get<int64_t>();
}
Result<double> number_in(const AdapterConfig& config, const std::string& name, const Json& value) {
  if (!value.is_number()) return wrong_value(config, name, "a number");
  return value.get<double>();
}

Json value_at(const Json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return at == object.end() ? Json() : *at;
}

bool is_off(const Json& value) {
  return value.is_null() || value == false || value == "" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// The parts of a tensor's name.
struct AdapterTensorName {
  std::string_view module;  // as the file names it
  bool up = false;          // the up matrix (B), not the down matrix (A)
};

// Adds the file's tensors. parse_name returns nullopt for a tensor that is no matrix of an adapter.
Result<void> add_tensors(std::optional<AdapterTensorName> (*parse_name)(std::string_view), AdapterParts& out,
                         const auto& add_settings) {
  TRY(auto file, map_file(out.path));
  TRY(auto content, parse_safetensors(file.bytes, out.path));
  std::vector<std::string> foreign;
  for (SafetensorsTensor& tensor : content.tensors) {
    const auto parsed = parse_name(tensor.name);
    if (!parsed) {
      foreign.push_back(tensor.name);
      continue;
    }
    const auto module = fold_name(parsed->module);
    if (!module)
      return make_error(ErrorKind::unsupported,
                        "{}: tensor \"{}\" changes a module for images or sound, which cannot be applied: {}",
                        out.path, shown(tensor.name), kMergeAdapter);
    AdapterMatrix matrix{tensor.name,  *module,    parsed->up, false, tensor.dtype, dense_kind(tensor.dtype),
                         tensor.shape, tensor.data};
    add_settings(parsed->module, matrix);
    out.matrices.push_back(std::move(matrix));
  }
  if (!foreign.empty()) return foreign_tensors(out.path, foreign);
  out.files.push_back(std::move(file));
  return {};
}

// Settings that change what an adapter computes in ways that two matrices cannot state, unless they are off.
constexpr const char* kRefusedSettings[] = {
    "use_dora",          "fan_in_fan_out",          "lora_bias",  "modules_to_save",
    "target_parameters", "trainable_token_indices", "use_qalora", "layer_replication",
    "arrow_config",      "alora_invocation_tokens", "use_bdlora", "kasa_config",
    "monteclora_config",
};
// Ways to begin that leave the model's own weights as they are. Others (PiSSA, OLoRA, CorDA, LoftQ) change
// them, so the adapter does not fit the model's files.
constexpr const char* kNeutralBeginnings[] = {"gaussian", "eva", "orthogonal", "mica"};

Result<void> check_peft_settings(const AdapterConfig& config) {
  const std::string type = string_at(config.json, "peft_type");
  if (type != "LORA")
    return make_error(ErrorKind::unsupported, "{}: \"peft_type\" is \"{}\"; only LORA can be applied: {}",
                      config.path, shown(type), kMergeAdapter);
  const auto refuse = [&](const char* key, const Json& value) {
    return make_error(ErrorKind::unsupported, "{}: \"{}\" is {}, which cannot be applied: {}", config.path,
                      key, shown(dump_json(value)), kMergeAdapter);
  };
  for (const char* key : kRefusedSettings)
    if (const Json value = value_at(config.json, key); !is_off(value)) return refuse(key, value);
  const Json beginning = value_at(config.json, "init_lora_weights");
  bool neutral = beginning.is_null() || beginning.is_boolean();
  for (const char* name : kNeutralBeginnings) neutral |= beginning == name;
  if (!neutral) return refuse("init_lora_weights", beginning);
  return {};
}

// "rank_pattern" or "alpha_pattern": values for the modules whose names end in a key, or that are named after
// its "^". The first key counts.
using Patterns = std::vector<std::pair<std::string, double>>;

// PEFT takes the keys for regular expressions. Only "^" at the beginning is read; "." is a dot.
bool is_plain_pattern(std::string_view key) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (key.starts_with('^')) key.remove_prefix(1);
  return !key.empty() && key.find_first_not_of(kPlain) == key.npos;
}

Result<Patterns> read_patterns(const AdapterConfig& config, const char* key, const auto& read_value) {
  const Json patterns = value_at(config.json, key);
  if (is_off(patterns)) return Patterns();
  if (!patterns.is_object()) return wrong_value(config, key, "an object");
  Patterns out;
  for (const auto& [pattern, value] : patterns.items()) {
    TRY(const auto number, read_value(config, std::string(key) + "." + pattern, value));
    out.emplace_back(pattern, static_cast<double>(number));
  }
  return out;
}

// A key that is another regular expression.
std::optional<std::string> expression_in(const Patterns& patterns) {
  for (const auto& [key, value] : patterns)
    if (!is_plain_pattern(key)) return key;
  return std::nullopt;
}

double pattern_value(const Patterns& patterns, std::string_view module, double fallback) {
  for (const auto& [key, value] : patterns) {
    if (module == std::string_view(key).substr(key.starts_with('^'))) return value;
    if (module.ends_with("." + key)) return value;
  }
  return fallback;
}

// "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight". PEFT leaves out the adapter's name ("default")
// when it saves a file; other programs do not.
std::optional<AdapterTensorName> parse_peft_name(std::string_view name) {
  constexpr std::string_view kWrapper = "base_model.model.", kDefault = ".default";
  struct Marker {
    std::string_view text, ending;
    bool up;
  };
  constexpr Marker kMarkers[] = {{".lora_A", ".weight", false},
                                 {".lora_B", ".weight", true},
                                 {".lora_embedding_A", "", false},
                                 {".lora_embedding_B", "", true}};
  if (name.starts_with(kWrapper)) name.remove_prefix(kWrapper.size());
  for (const auto& [text, ending, up] : kMarkers) {
    const size_t at = name.rfind(text);
    if (at == name.npos || at == 0) continue;
    std::string_view rest = name.substr(at + text.size());
    if (rest.starts_with(kDefault)) rest.remove_prefix(kDefault.size());
    if (rest == ending) return AdapterTensorName{name.substr(0, at), up};
  }
  return std::nullopt;
}

std::optional<AdapterTensorName> parse_mlx_name(std::string_view name) {
  const auto up = strip_lora_half(name);
  if (!up || name.empty()) return std::nullopt;
  return AdapterTensorName{name, *up};
}

}  // namespace

Result<AdapterParts> read_peft_adapter(const std::string& directory) {
  TRY(const auto config, read_adapter_config(directory));
  TRY_VOID(check_peft_settings(config));
  TRY(const int64_t rank, rank_in(config, "r", value_at(config.json, "r")));
  TRY(const double alpha, number_in(config, "lora_alpha", value_at(config.json, "lora_alpha")));
  TRY(const Patterns ranks, read_patterns(config, "rank_pattern", rank_in));
  TRY(const Patterns alphas, read_patterns(config, "alpha_pattern", number_in));
  if (const auto key = expression_in(alphas))
    return make_error(
        ErrorKind::unsupported,
        "{}: \"alpha_pattern\": the key \"{}\" is a regular expression; only modules' names, ends of "
        "names and \"^\" before a name are read: write one key for each module, such as "
        "\"layers.3.self_attn.q_proj\"",
        config.path, shown(*key));
  const bool states_ranks = !expression_in(ranks);  // otherwise the matrices alone tell
  AdapterParts out{(std::filesystem::path(directory) / kPeftTensors).string(),
                   string_at(config.json, "base_model_name_or_path")};
  const Json root = value_at(config.json, "use_rslora");
  if (!root.is_null() && !root.is_boolean()) return wrong_value(config, "use_rslora", "true or false");
  out.scale = root == true ? AdapterScale::alpha_over_root_of_rank : AdapterScale::alpha_over_rank;
  TRY_VOID(add_tensors(parse_peft_name, out, [&](std::string_view module, AdapterMatrix& matrix) {
    if (states_ranks)
      matrix.rank = static_cast<int64_t>(pattern_value(ranks, module, static_cast<double>(rank)));
    matrix.alpha = pattern_value(alphas, module, alpha);
  }));
  return out;
}

Result<AdapterParts> read_mlx_adapter(const std::string& directory) {
  TRY(const auto config, read_adapter_config(directory));
  const Json kind = value_at(config.json, "fine_tune_type");
  if (!kind.is_null() && kind != "lora")
    return make_error(
        ErrorKind::unsupported,
        "{}: \"fine_tune_type\" is {}; only \"lora\" can be applied: merge the adapter into its "
        "model with mlx_lm.fuse",
        config.path, shown(dump_json(kind)));
  const Json parameters = value_at(config.json, "lora_parameters");
  const Json stated = value_at(parameters, "rank");
  int64_t rank = 0;
  if (!stated.is_null()) {
    TRY(rank, rank_in(config, "lora_parameters.rank", stated));
  }
  TRY(const double scale, number_in(config, "lora_parameters.scale", value_at(parameters, "scale")));
  AdapterParts out{(std::filesystem::path(directory) / kMlxTensors).string(),
                   string_at(config.json, "model")};
  TRY_VOID(add_tensors(parse_mlx_name, out, [&](std::string_view, AdapterMatrix& matrix) {
    matrix.transposed = true;
    matrix.rank = rank;
    matrix.alpha = scale;
  }));
  return out;
}

}  // namespace anabranch
