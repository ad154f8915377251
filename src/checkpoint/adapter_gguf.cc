// Adapters of llama.cpp.
#include <limits>
#include <utility>

#include "checkpoint/adapter_parts.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/gguf_split.h"

namespace anabranch {

namespace {

constexpr const char* kAlphaKey = "adapter.lora.alpha";
constexpr const char* kTokensKey = "adapter.alora.invocation_tokens";

Result<void> check_metadata(const Json& metadata, const std::string& path) {
  const std::string general = string_at(metadata, "general.type"), type = string_at(metadata, "adapter.type");
  if (general != "adapter")
    return make_error(ErrorKind::invalid, "{} is not an adapter: its \"general.type\" is \"{}\"", path,
                      shown(general));
  if (type != "lora")
    return make_error(ErrorKind::unsupported, "{}: \"adapter.type\" is \"{}\"; only \"lora\" can be applied",
                      path, shown(type));
  if (metadata.contains(kTokensKey))
    return make_error(ErrorKind::unsupported,
                      "{}: it begins only after certain tokens (metadata \"{}\"), which is not supported",
                      path, kTokensKey);
  return {};
}

// A number of the base model's heads, or their size.
Result<int64_t> head_number(const Json& config, const char* key, const std::string& path) {
  constexpr int64_t kMost = 1 << 20;
  const auto at = config.find(key);
  if (at == config.end() || !at->is_number_integer() || *at < 1 || *at > kMost)
    return make_error(ErrorKind::invalid,
                      "{}: the order of its rows depends on \"{}\", which the base model's config lacks",
                      path, key);
  return at->get<int64_t>();
}

// The facts about the base model that gguf_change() needs.
Result<GgufModel> model_of(GgufArch arch, const Json& base_config, const std::string& path) {
  const auto text = base_config.find("text_config");
  const Json& config = text != base_config.end() && text->is_object() ? *text : base_config;
  GgufModel out;
  out.arch = arch;
  if (turns_rows(arch)) {
    TRY(out.heads, head_number(config, "num_attention_heads", path));
    const bool grouped = config.contains("num_key_value_heads") && !config["num_key_value_heads"].is_null();
    TRY(out.kv_heads, head_number(config, grouped ? "num_key_value_heads" : "num_attention_heads", path));
  }
  if (arch == GgufArch::qwen35) {
    TRY(out.linear_key_heads, head_number(config, "linear_num_key_heads", path));
    TRY(out.linear_value_heads, head_number(config, "linear_num_value_heads", path));
    TRY(out.linear_key_dim, head_number(config, "linear_key_head_dim", path));
    TRY(out.linear_value_dim, head_number(config, "linear_value_head_dim", path));
    if (out.linear_value_heads % out.linear_key_heads != 0)
      return make_error(ErrorKind::invalid, "{}: the base model has {} value heads for {} key heads", path,
                        out.linear_value_heads, out.linear_key_heads);
  }
  return out;
}

// The module of "blk.0.attn_q.weight"; nullopt: the base model has none of this name.
std::optional<std::string> module_of(GgufArch arch, const std::string& weight) {
  GgufConfig config;
  config.arch = arch;
  config.layers = std::numeric_limits<int64_t>::max();
  std::string name = hf_name(config, weight);
  constexpr std::string_view kWeight = ".weight";
  if (name == weight || !name.ends_with(kWeight)) return std::nullopt;
  name.resize(name.size() - kWeight.size());
  return name;
}

// Shapes alone do not show that an adapter is of another family, whose rows have another order.
Result<void> check_family(const std::string& arch, const Json& base_config, const std::string& path) {
  const std::string type = string_at(base_config, "model_type");
  for (const char* family : {"qwen", "gemma"})
    if (!type.empty() && type.starts_with(family) != arch.starts_with(family))
      return make_error(ErrorKind::invalid, "{} is an adapter of {} models, but the model is of type {}",
                        path, arch, type);
  return {};
}

}  // namespace

Result<AdapterParts> read_gguf_adapter(const std::string& path, const Json& base_config) {
  TRY(auto parts, open_gguf_parts(path));
  const GgufFile& file = parts.joined;
  if (!file.unread.empty()) return file.unread.front().why;
  TRY_VOID(check_metadata(file.metadata, path));
  TRY_VOID(check_family(string_at(file.metadata, "general.architecture"), base_config, path));
  TRY(const GgufArch arch, read_gguf_arch(file, path));
  const GgufMetadata metadata(file, path, "");
  // Without alpha, or with zero, llama.cpp does not scale.
  double alpha = 0;
  if (const Json* stated = metadata.find_whole(kAlphaKey)) {
    if (!stated->is_number())
      return make_error(ErrorKind::invalid, "{}: metadata \"{}\" is not a number", path, kAlphaKey);
    alpha = stated->get<double>();
  }
  AdapterParts out{path, string_at(file.metadata, "general.base_model.0.name")};
  out.scale = alpha == 0 ? AdapterScale::alpha : AdapterScale::alpha_over_rank;
  TRY(out.gguf, model_of(arch, base_config, path));
  std::vector<std::string> foreign;
  for (const GgufTensor& tensor : file.tensors) {
    std::string_view weight = tensor.name;
    const auto up = strip_lora_half(weight);
    const auto module = up ? module_of(arch, std::string(weight)) : std::nullopt;
    if (!module) {
      foreign.push_back(tensor.name);
      continue;
    }
    const WeightKind kind = tensor.type->kind;
    // Only this matrix has its vocabulary first.
    const bool transposed = !*up && weight == "token_embd.weight";
    out.matrices.push_back({tensor.name, *module, *up, transposed, tensor.type->name,
                            is_coded(kind) ? std::nullopt : std::optional(kind), tensor.shape, tensor.data, 0,
                            alpha == 0 ? 1 : alpha});
  }
  if (!foreign.empty()) return foreign_tensors(path, foreign);
  out.files = std::move(parts.files);
  return out;
}

}  // namespace anabranch
