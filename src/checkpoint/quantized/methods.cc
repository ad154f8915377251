#include "checkpoint/quantized/methods.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "base/lower_case.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr int64_t kMaxGroup = 1 << 20;  // also of rows or columns of a block

struct Parser {
  const Json& object;
  const std::string& where;
  QuantizationConfig out;

  template <class... Args>
  Error invalid(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{ErrorKind::invalid, where + ": " + fmt::format(format, std::forward<Args>(args)...)};
  }

  Error unsupported(const std::string& what) const {
    return make_error(
        ErrorKind::unsupported,
        "{}: {} cannot be read; use the original weights, or an FP8, GPTQ, AWQ, MLX or GGUF conversion",
        where, what);
  }

  const Json* find(const char* key) const {
    const auto at = object.find(key);
    return at == object.end() || at->is_null() ? nullptr : &*at;
  }
  // The text under a key, or `otherwise`.
  std::string text(const char* key, const char* otherwise = "") const {
    const Json* value = find(key);
    if (!value) return otherwise;
    return value->is_string() ? shown(value->get_ref<const std::string&>()) : shown(dump_json(*value));
  }
  std::string lower_text(const char* key, const char* otherwise = "") const {
    return lower_case(text(key, otherwise));
  }
  bool truthy(const char* key) const {
    const Json* value = find(key);
    return value && *value != false && *value != 0 && *value != "" &&
           !(value->is_structured() && value->empty());
  }

  Result<int64_t> number(const Json& value, const char* key, int64_t least) const {
    if (!value.is_number_integer() || value < least || value > kMaxGroup)
      return invalid("\"{}\" is not a sensible number", key);
    return value.get<int64_t>();
  }

  Result<int> width(const Json& value) const {
    if (!value.is_number_integer() || value < 0 || value > 64)
      return unsupported(fmt::format("codes of {} bits", shown(dump_json(value), 40)));
    return value.get<int>();
  }

  // Fails unless the key's value is one of `known`, in any letter case, or the key is absent.
  Result<void> expect(const char* key, std::initializer_list<std::string_view> known) const {
    const Json* value = find(key);
    if (!value) return {};
    if (std::ranges::find(known, lower_text(key)) != known.end()) return {};
    return unsupported(fmt::format("{} \"{}\"", key, text(key)));
  }

  Result<void> read_bits(std::initializer_list<int> known) {
    const Json* value = find("bits");
    if (!value) value = find("w_bit");
    if (!value) return {};
    TRY(out.bits, width(*value));
    if (std::ranges::find(known, out.bits) != known.end()) return {};
    return unsupported(fmt::format("{} of {} bits", text("quant_method"), out.bits));
  }

  // -1 (and AWQ's 0) means a whole row.
  Result<void> read_group() {
    const Json* value = find("group_size");
    if (!value) value = find("q_group_size");
    if (!value) return {};
    TRY(const auto group, number(*value, "group_size", -1));
    out.group = std::max<int64_t>(group, 0);
    return {};
  }
};

Result<void> parse_block(Parser& p, const Json& value, const char* key) {
  if (!value.is_array() || value.size() != 2) return p.invalid("\"{}\" is not a pair of numbers", key);
  for (int i = 0; i < 2; i++) {
    TRY(p.out.block[i], p.number(value[i], key, 1));
  }
  return {};
}

Result<void> parse_fp8(Parser& p) {
  TRY_VOID(p.expect("fmt", {"e4m3", "e4m3fn", "float8_e4m3fn"}));
  TRY_VOID(p.expect("activation_scheme", {"dynamic", "static", "none"}));
  if (const Json* block = p.find("weight_block_size")) return parse_block(p, *block, "weight_block_size");
  return {};
}

Result<void> parse_gptq(Parser& p) {
  TRY_VOID(p.read_bits({2, 3, 4, 8}));
  TRY_VOID(p.expect("checkpoint_format", {"gptq", "gptq_v2"}));
  TRY_VOID(p.expect("format", {"gptq", "gptq_v2"}));
  TRY_VOID(p.expect("pack_dtype", {"int32", "torch.int32"}));
  if (p.truthy("is_marlin_format")) return p.unsupported("GPTQ in Marlin's layout");
  if (p.truthy("rotation")) return p.unsupported("GPTQ with rotated activations");
  p.out.zeros_minus_one = p.lower_text("checkpoint_format", p.lower_text("format").c_str()) != "gptq_v2";
  return p.read_group();
}

Result<void> parse_awq(Parser& p) {
  TRY_VOID(p.read_bits({4}));
  TRY_VOID(p.expect("version", {"gemm"}));
  TRY_VOID(p.expect("format", {"gemm"}));
  return p.read_group();
}

// AutoRound's packing_format is GPTQ's, AWQ's, or its own, which is GPTQ's with unmodified zero points.
Result<void> parse_auto_round(Parser& p) {
  const std::string packing = p.lower_text("packing_format", "auto_round:auto_gptq");
  TRY_VOID(p.expect("data_type", {"int"}));
  if (p.truthy("rotation_config") || p.truthy("hadamard_config"))
    return p.unsupported("AutoRound with rotated activations");
  for (const char* part : {"mx_fp", "nv_fp", "fp8", "fake", "llm_compressor", "mlx", "gguf"})
    if (packing.find(part) != std::string::npos)
      return p.unsupported(fmt::format("AutoRound's packing \"{}\"", packing));
  const bool awq = packing.find("awq") != std::string::npos;
  p.out.zeros_minus_one = packing.find("gptq") != std::string::npos;
  TRY_VOID(awq ? p.read_bits({4}) : p.read_bits({2, 3, 4, 8}));
  return p.read_group();
}

// "weights" of a config group of compressed-tensors.
Result<void> parse_config_group(Parser& p, const Json& group) {
  if (!group.is_object()) return p.invalid("an element of \"config_groups\" is not an object");
  const auto weights = group.find("weights");
  if (weights == group.end() || weights->is_null()) return {};
  if (!weights->is_object()) return p.invalid("\"weights\" of a config group is not an object");
  Parser own{*weights, p.where, {}};
  const std::string type = own.text("type", "int");
  if (const Json* value = own.find("num_bits")) {
    TRY(const int bits, own.width(*value));
    const bool known = type == "float" ? bits == 4 || bits == 8 : (bits >= 2 && bits <= 6) || bits == 8;
    if (!known) return p.unsupported(fmt::format("compressed-tensors of {} bits ({})", bits, type));
    p.out.bits = bits;
  }
  if (const Json* value = own.find("group_size")) {
    TRY(const auto size, own.number(*value, "group_size", -1));
    p.out.group = std::max<int64_t>(size, 0);
  }
  if (const Json* value = own.find("block_structure"); value && value->is_array())
    return parse_block(p, *value, "block_structure");
  return {};
}

Result<void> parse_compressed_tensors(Parser& p) {
  TRY_VOID(p.expect("format",
                    {"dense", "float-quantized", "naive-quantized", "int-quantized", "pack-quantized",
                     "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"}));
  if (const Json* sparsity = p.find("sparsity_config"); sparsity && sparsity->is_object()) {
    const std::string format = string_at(*sparsity, "format");
    if (!format.empty() && format != "dense") return p.unsupported("sparse compressed-tensors");
  }
  if (const Json* transform = p.find("transform_config"); transform && !transform->empty()) {
    const auto groups = transform->is_object() ? transform->find("config_groups") : transform->end();
    if (!transform->is_object() || (groups != transform->end() && !groups->empty()))
      return p.unsupported("compressed-tensors with transforms (rotated activations)");
  }
  const Json* groups = p.find("config_groups");
  if (!groups) return {};
  if (!groups->is_object()) return p.invalid("\"config_groups\" is not an object");
  for (const Json& group : *groups) TRY_VOID(parse_config_group(p, group));
  if (groups->size() > 1) p.out.bits = 0, p.out.group = 0;  // tensors tell them apart
  return {};
}

Result<void> expect_model_opt_algorithm(const Parser& p) {
  return p.expect("quant_algo", {"fp8", "fp8_per_channel_per_token", "fp8_pb_wo", "fp8_pb_real", "nvfp4",
                                 "w4a16_nvfp4", "mxfp4", "mxfp8", "mixed_precision"});
}

Result<void> parse_model_opt(Parser& p) {
  TRY_VOID(expect_model_opt_algorithm(p));
  const Json* layers = p.find("quantized_layers");
  if (!layers) return {};
  if (!layers->is_object()) return p.invalid("\"quantized_layers\" is not an object");
  for (const Json& layer : *layers)
    if (layer.is_object()) TRY_VOID(expect_model_opt_algorithm(Parser{layer, p.where, {}}));
  return {};
}

Result<void> parse_bitsandbytes(Parser& p) {
  return p.expect("bnb_4bit_quant_type", {"nf4", "fp4"});
}

struct Method {
  std::string_view name;
  Result<void> (*parse)(Parser& parser);
};
constexpr Method kMethods[] = {
    {"fp8", parse_fp8},
    {"fbgemm_fp8", parse_fp8},
    {"compressed-tensors", parse_compressed_tensors},
    {"modelopt", parse_model_opt},
    {"modelopt_fp4", parse_model_opt},
    {"gptq", parse_gptq},
    {"awq", parse_awq},
    {"auto-round", parse_auto_round},
    {"intel/auto-round", parse_auto_round},
    {"bitsandbytes", parse_bitsandbytes},
    {"mxfp4", [](Parser&) { return Result<void>(); }},
};

}  // namespace

bool names_quantization_method(const Json& object) {
  return object.contains("quant_method") || object.contains("quant_algo") ||
         object.contains("config_groups") || object.contains("load_in_4bit") ||
         object.contains("load_in_8bit");
}

Result<QuantizationConfig> parse_quantization_method(const Json& object, const std::string& where) {
  Parser parser{object, where, {}};
  std::string name = parser.text("quant_method", object.contains("quant_algo") ? "modelopt" : "");
  if (name.empty() && object.contains("config_groups")) name = "compressed-tensors";
  // Files of old bitsandbytes name no method.
  if (name.empty() && (parser.truthy("load_in_4bit") || parser.truthy("load_in_8bit"))) name = "bitsandbytes";
  const auto method = std::ranges::find(kMethods, name, &Method::name);
  if (method == std::end(kMethods)) return parser.unsupported("method " + (name.empty() ? "?" : name));
  parser.out.method = name;
  TRY_VOID(method->parse(parser));
  return std::move(parser.out);
}

}  // namespace anabranch
