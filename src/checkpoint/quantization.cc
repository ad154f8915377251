#include "checkpoint/quantization.h"

#include "checkpoint/affine.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr AffineFormat kMlxDefaults{4, 64};

// Absent keys keep the defaults. Null is MLX's own default, whatever stands above.
Result<AffineFormat> parse_format(const Json& object, const AffineFormat& defaults,
                                  const std::string& where) {
  if (const auto mode = object.find("mode"); mode != object.end() && !mode->is_null()) {
    if (!mode->is_string()) return make_error(ErrorKind::invalid, "{}: \"mode\" is not a string", where);
    if (*mode != "affine")
      return make_error(ErrorKind::unsupported,
                        "{}: quantisation mode \"{}\" cannot be read; only \"affine\" can", where,
                        shown(mode->get_ref<const std::string&>()));
  }
  AffineFormat format = defaults;
  const auto read = [&](const char* key, int& out, int of_null) -> Result<void> {
    const auto value = object.find(key);
    if (value == object.end()) return {};
    if (value->is_null()) {
      out = of_null;
      return {};
    }
    if (!value->is_number_integer() || *value < 0 || *value > 4096)
      return make_error(ErrorKind::invalid, "{}: \"{}\" is not a sensible number", where, key);
    out = value->get<int>();
    return {};
  };
  TRY_VOID(read("bits", format.bits, kMlxDefaults.bits));
  TRY_VOID(read("group_size", format.group, kMlxDefaults.group));
  if (!affine_bits_ok(format.bits))
    return make_error(ErrorKind::invalid, "{}: {} bits; 2, 3, 4, 5, 6 and 8 can be read", where, format.bits);
  if (!affine_group_ok(format.group) || format.group < 32)
    return make_error(ErrorKind::invalid, "{}: group_size {}; 32, 64 and 128 can be read", where,
                      format.group);
  return format;
}

bool is_setting(std::string_view key) {
  return key == "bits" || key == "group_size" || key == "mode" || key == "quant_method" ||
         key == "linear_class" || key == "quantize_input";
}

}  // namespace

Result<std::optional<QuantizationConfig>> parse_quantization(const Json& config, const std::string& path) {
  if (!config.is_object()) return make_error(ErrorKind::invalid, "{} is not a JSON object", path);
  auto found = config.find("quantization");
  if (found == config.end() || found->is_null()) found = config.find("quantization_config");
  if (found == config.end() || found->is_null()) return std::optional<QuantizationConfig>();
  const std::string where = path + ": quantization";
  if (!found->is_object()) return make_error(ErrorKind::invalid, "{} is not an object", where);
  if (const auto method = found->find("quant_method"); method != found->end())
    return make_error(
        ErrorKind::unsupported,
        "{}: method {} cannot be read; convert the original weights, or use an MLX or GGUF conversion", where,
        method->is_string() ? shown(method->get_ref<const std::string&>()) : "?");
  QuantizationConfig out;
  TRY(out.defaults, parse_format(*found, kMlxDefaults, where));
  for (const auto& item : found->items()) {
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
  return std::optional(std::move(out));
}

}  // namespace anabranch
