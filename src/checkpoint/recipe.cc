// Chooses the format of each module: parses targets and recipes that users write.
#include <algorithm>
#include <charconv>

#include "base/json.h"
#include "checkpoint/affine.h"
#include "checkpoint/convert.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr size_t kMaxRules = 1000;

Result<AffineFormat> checked(int64_t bits, int64_t group, const std::string& where) {
  if (!affine_bits_ok(bits))
    return make_error(ErrorKind::invalid, "{}: {} bits; 2, 3, 4, 5, 6 and 8 can be written", where, bits);
  if (!affine_group_ok(group) || group < 32)
    return make_error(ErrorKind::invalid, "{}: groups of {}; 32, 64 and 128 can be written", where, group);
  return AffineFormat{static_cast<int>(bits), static_cast<int>(group)};
}

std::optional<TargetKind> dense_target(std::string_view text) {
  if (text == "bf16") return TargetKind::bf16;
  if (text == "f16") return TargetKind::f16;
  if (text == "fp8") return TargetKind::fp8;
  if (text == "keep") return TargetKind::keep;
  return std::nullopt;
}

const char* dense_name(TargetKind kind) {
  for (const char* name : {"bf16", "f16", "fp8"})
    if (dense_target(name) == kind) return name;
  return "keep";
}

// {"bits": 6, "group": 64} or {"dtype": "bf16"}
Result<Target> read_target(const Json& object, const std::string& where) {
  if (!object.is_object()) return make_error(ErrorKind::invalid, "{} is not an object", where);
  for (const auto& item : object.items())
    if (item.key() != "match" && item.key() != "bits" && item.key() != "group" && item.key() != "dtype")
      return make_error(ErrorKind::invalid, "{}: \"{}\" is not known; match, bits, group and dtype are",
                        where, shown(item.key()));
  const auto bits = object.find("bits"), group = object.find("group"), dtype = object.find("dtype");
  if ((bits == object.end()) == (dtype == object.end()))
    return make_error(ErrorKind::invalid, "{} needs either \"bits\" or \"dtype\"", where);
  if (dtype != object.end()) {
    const auto kind = dtype->is_string() ? dense_target(dtype->get_ref<const std::string&>()) : std::nullopt;
    if (!kind || group != object.end())
      return make_error(ErrorKind::invalid,
                        "{}: \"dtype\" is \"bf16\", \"f16\", \"fp8\" or \"keep\", without \"group\"", where);
    return Target{*kind, {}};
  }
  const auto number = [](const Json& value) { return value.is_number_integer() ? value.get<int64_t>() : -1; };
  TRY(const auto format, checked(number(*bits), group == object.end() ? 64 : number(*group), where));
  return Target{TargetKind::affine, format};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
  if (const auto kind = dense_target(text)) return Target{*kind, {}};
  const auto bad = [&] {
    return make_error(ErrorKind::invalid,
                      "\"{}\" is not a format; write bits/group (4/64), bf16, f16, fp8 or keep", shown(text));
  };
  int64_t bits = 0, group = 64;
  const char* const end = text.data() + text.size();
  auto at = std::from_chars(text.data(), end, bits);
  if (at.ec == std::errc() && at.ptr != end && *at.ptr == '/') at = std::from_chars(at.ptr + 1, end, group);
  if (at.ec != std::errc() || at.ptr != end) return bad();
  TRY(const auto format, checked(bits, group, shown(text)));
  return Target{TargetKind::affine, format};
}

Result<void> parse_recipe(std::string_view text, const std::string& path, ConvertOptions& options) {
  auto parsed = parse_json(text);
  if (!parsed.ok()) return make_error(parsed.error().kind, "{}: {}", path, parsed.error().message);
  const Json& recipe = *parsed;
  if (!recipe.is_object()) return make_error(ErrorKind::invalid, "{} is not a JSON object", path);
  const auto rules = recipe.find("rules"), fallback = recipe.find("default");
  if (rules == recipe.end() || !rules->is_array() || rules->size() > kMaxRules)
    return make_error(ErrorKind::invalid, "{}: \"rules\" is not a list of at most {}", path, kMaxRules);
  if (fallback != recipe.end()) {
    TRY(options.fallback, read_target(*fallback, path + ": \"default\""));
  }
  for (size_t i = 0; i < rules->size(); i++) {
    const std::string where = fmt::format("{}: rule {}", path, i + 1);
    const Json& rule = (*rules)[i];
    TRY(const auto target, read_target(rule, where));
    const auto match = rule.find("match");
    if (match == rule.end() || !match->is_string())
      return make_error(ErrorKind::invalid, "{} has no \"match\"", where);
    options.rules.push_back({match->get<std::string>(), target});
  }
  return {};
}

Json recipe_json(const ConvertOptions& options) {
  const auto write = [](const Target& target, Json& out) {
    if (target.kind == TargetKind::affine) {
      out["bits"] = target.format.bits;
      out["group"] = target.format.group;
    } else {
      out["dtype"] = dense_name(target.kind);
    }
  };
  Json out = {{"default", Json::object()}, {"rules", Json::array()}};
  const bool fp8 = options.format == ConvertFormat::fp8;
  write(options.fallback.value_or(fp8 ? Target{TargetKind::fp8, {}} : Target{}), out["default"]);
  for (const QuantRule& rule : options.rules) {
    Json& json = out["rules"].emplace_back(Json{{"match", rule.pattern}});
    write(rule.target, json);
  }
  return out;
}

bool glob_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      p++;
      t++;
    } else if (star != std::string_view::npos) {  // let the last star take one more
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace anabranch
