#include "checkpoint/quantization.h"

#include <utility>

#include "checkpoint/affine.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/quantized/methods.h"

namespace anabranch {

namespace {

struct ModeRow {
  const char* name;
  MlxMode mode;
  AffineFormat defaults;  // the only format of all but affine
};
constexpr ModeRow kModes[] = {{"affine", MlxMode::affine, {4, 64}},
                              {"mxfp4", MlxMode::mxfp4, {4, 32}},
                              {"mxfp8", MlxMode::mxfp8, {8, 32}},
                              {"nvfp4", MlxMode::nvfp4, {4, 16}}};

Result<const ModeRow*> parse_mode(const Json& object, const std::string& where) {
  const auto mode = object.find("mode");
  if (mode == object.end() || mode->is_null()) return &kModes[0];
  if (!mode->is_string()) return make_error(ErrorKind::invalid, "{}: \"mode\" is not a string", where);
  for (const ModeRow& row : kModes)
    if (*mode == row.name) return &row;
  return make_error(
      ErrorKind::unsupported,
      "{}: quantisation mode \"{}\" cannot be read; \"affine\", \"mxfp4\", \"mxfp8\" and \"nvfp4\" can",
      where, shown(mode->get_ref<const std::string&>()));
}

// An absent key takes its value from `defaults` if that has the same mode, otherwise from the mode; null
// means the mode's value.
Result<MlxFormat> parse_format(const Json& object, const MlxFormat& defaults, const std::string& where) {
  TRY(const ModeRow* row, parse_mode(object, where));
  MlxFormat format{defaults.mode == row->mode ? AffineFormat(defaults) : row->defaults, row->mode};
  const auto read = [&](const char* key, int otherwise, int& out) -> Result<void> {
    const auto value = object.find(key);
    if (value == object.end()) return {};
    if (value->is_null()) {
      out = otherwise;
      return {};
    }
    if (!value->is_number_integer() || *value < 0 || *value > 4096)
      return make_error(ErrorKind::unsupported, "{}: \"{}\" is {}, which is not a sensible number", where,
                        key, shown(dump_json(*value), 40));
    out = value->get<int>();
    return {};
  };
  TRY_VOID(read("bits", row->defaults.bits, format.bits));
  TRY_VOID(read("group_size", row->defaults.group, format.group));
  if (row->mode != MlxMode::affine && AffineFormat(format) != row->defaults)
    return make_error(ErrorKind::unsupported, "{}: {} has {} bits in groups of {}, not {} in groups of {}",
                      where, row->name, row->defaults.bits, row->defaults.group, format.bits, format.group);
  if (row->mode != MlxMode::affine) return format;
  if (!affine_bits_ok(format.bits))
    return make_error(ErrorKind::unsupported, "{}: {} bits; 2, 3, 4, 5, 6 and 8 can be read", where,
                      format.bits);
  if (!affine_group_ok(format.group) || format.group < 32)
    return make_error(ErrorKind::unsupported, "{}: group_size {}; 32, 64 and 128 can be read", where,
                      format.group);
  return format;
}

bool is_setting(std::string_view key) {
  return key == "bits" || key == "group_size" || key == "mode" || key == "quant_method" ||
         key == "linear_class" || key == "quantize_input";
}

Result<QuantizationConfig> parse_mlx(const Json& object, const std::string& where) {
  QuantizationConfig out;
  out.defaults = MlxFormat{AffineFormat{4, 64}};
  TRY(out.defaults, parse_format(object, out.defaults, where));
  for (const auto& item : object.items()) {
    if (is_setting(item.key())) continue;
    const Json& value = item.value();
    const std::string module = where + " of \"" + shown(item.key()) + "\"";
    if (value.is_boolean()) {
      out.overrides[item.key()] = value.get<bool>() ? std::optional(out.defaults) : std::nullopt;
    } else if (value.is_object()) {
      TRY(out.overrides[item.key()], parse_format(value, out.defaults, module));
    } else {
      return make_error(ErrorKind::invalid, "{} is neither an object nor false", module);
    }
  }
  return out;
}

// The object in which a config states its quantisation, or null.
const Json* find_quantization(const Json& config) {
  for (const char* key : {"quantization", "quantization_config", "compression_config"})
    if (const auto found = config.find(key); found != config.end() && !found->is_null()) return &*found;
  return nullptr;
}

}  // namespace

Result<std::optional<QuantizationConfig>> parse_quantization(const Json& config, const std::string& path) {
  if (!config.is_object()) return make_error(ErrorKind::invalid, "{} is not a JSON object", path);
  const Json* found = find_quantization(config);
  const auto text = config.find("text_config");  // some multimodal models state it there
  if (!found && text != config.end() && text->is_object()) found = find_quantization(*text);
  if (!found) return std::optional<QuantizationConfig>();
  const std::string where = path + ": quantization";
  if (!found->is_object()) return make_error(ErrorKind::invalid, "{} is not an object", where);
  if (names_quantization_method(*found)) {
    TRY(auto out, parse_quantization_method(*found, where));
    return std::optional(std::move(out));
  }
  TRY(auto out, parse_mlx(*found, where));
  return std::optional(std::move(out));
}

Result<Json> with_model_opt_config(Json config, std::string_view text, const std::string& path) {
  if (!config.is_object() || find_quantization(config)) return config;
  auto file = parse_json(text);
  if (!file.ok()) return make_error(ErrorKind::invalid, "{}: {}", path, file.error().message);
  const auto quantization = file->is_object() ? file->find("quantization") : file->end();
  if (!file->is_object() || quantization == file->end() || !quantization->is_object())
    return make_error(ErrorKind::invalid, "{} has no \"quantization\" object", path);
  Json out = *quantization;
  out["quant_method"] = "modelopt";
  config["quantization_config"] = std::move(out);
  return config;
}

}  // namespace anabranch
