#include "hub/weight_map.h"

#include <simdjson.h>

#include <set>

#include "hub/model_name.h"

namespace anabranch::hub {

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
  std::set<std::string, std::less<>> files, mtp_files;
  for (auto field : map) {
    std::string_view tensor, file;
    if (const auto error = field.unescaped_key().get(tensor)) return invalid(simdjson::error_message(error));
    if (const auto error = field.value().get_string().get(file))
      return invalid(simdjson::error_message(error));
    if (!is_safe_path(file) || file.find('/') != file.npos || !file.ends_with(".safetensors"))
      return invalid("it names a file that is no .safetensors file beside it");
    if (!files.contains(file)) files.emplace(file);
    const bool mtp = tensor.starts_with("mtp.") || tensor.find(".mtp.") != tensor.npos;
    if (mtp && !mtp_files.contains(file)) mtp_files.emplace(file);
  }
  if (files.empty()) return invalid("it names no file");
  return WeightMap{{files.begin(), files.end()}, {mtp_files.begin(), mtp_files.end()}};
}

}  // namespace anabranch::hub
