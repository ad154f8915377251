#include "server/api/request_model.h"

#include <simdjson.h>

namespace anabranch::server {

std::string model_named_in(std::string_view body) {
  const simdjson::padded_string text(body);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  std::string_view model;
  if (parser.iterate(text).get(document) != simdjson::SUCCESS ||
      document.find_field_unordered("model").get_string().get(model) != simdjson::SUCCESS)
    return "";
  return std::string(model);
}

}  // namespace anabranch::server
