#include "hub/weight_map.h"

#include <simdjson.h>

#include <cctype>
#include <map>
#include <set>

#include "hub/model_name.h"

namespace anabranch::hub {
namespace {

using Kinds = std::set<std::string, std::less<>>;

// "model.layers.12.mlp" -> "model.layers.#.mlp"
std::string kind_of(std::string_view tensor) {
  std::string kind;
  for (const char c : tensor) {
    if (!std::isdigit(static_cast<unsigned char>(c)))
      kind += c;
    else if (!kind.ends_with('#'))
      kind += '#';
  }
  return kind;
}

std::vector<std::string> telling_files(const std::map<std::string, Kinds, std::less<>>& files) {
  std::vector<std::string> telling;
  Kinds known;
  for (const auto& [file, kinds] : files) {
    const size_t before = known.size();
    known.insert(kinds.begin(), kinds.end());
    if (known.size() > before) telling.push_back(file);
  }
  return telling;
}

}  // namespace

Result<WeightMap> parse_weight_map(std::string_view json) {
  const auto invalid = [](std::string_view why) {
    return make_error(ErrorKind::invalid, "it is no index of safetensors files: {}", why);
  };
  simdjson::ondemand::parser parser;
  const simdjson::padded_string text(json);
  simdjson::ondemand::document document;
  simdjson::ondemand::object map;
  if (const auto error = parser.iterate(text).get(document)) return invalid(simdjson::error_message(error));
  if (const auto error = document["weight_map"].get_object().get(map))
    return invalid(simdjson::error_message(error));
  std::map<std::string, Kinds, std::less<>> files;
  std::set<std::string, std::less<>> mtp_files;
  for (auto field : map) {
    std::string_view tensor, file;
    if (const auto error = field.unescaped_key().get(tensor)) return invalid(simdjson::error_message(error));
    if (const auto error = field.value().get_string().get(file))
      return invalid(simdjson::error_message(error));
    if (!is_safe_path(file) || file.find('/') != file.npos || !file.ends_with(".safetensors"))
      return invalid("it names a file that is no .safetensors file beside it");
    auto at = files.find(file);
    if (at == files.end()) at = files.emplace(file, Kinds()).first;
    at->second.insert(kind_of(tensor));
    const bool mtp = tensor.starts_with("mtp.") || tensor.find(".mtp.") != tensor.npos;
    if (mtp && !mtp_files.contains(file)) mtp_files.emplace(file);
  }
  if (files.empty()) return invalid("it names no file");
  WeightMap out{{}, {mtp_files.begin(), mtp_files.end()}, telling_files(files)};
  for (const auto& [file, kinds] : files) out.files.push_back(file);
  return out;
}

}  // namespace anabranch::hub
