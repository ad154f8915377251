#include "server/api/request_model.h"

#include <simdjson.h>

namespace anabranch::server {

RequestHints read_hints(AnswerKind kind, std::string_view body) {
  const simdjson::padded_string text(body);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  RequestHints hints;
  std::string_view model;
  if (parser.iterate(text).get(document) == simdjson::SUCCESS &&
      document.find_field_unordered("model").get_string().get(model) == simdjson::SUCCESS)
    hints.model = model;
  // Parses again, because a document must not be used after an error.
  double timeout_s = 0;
  if (body.find("\"timeout\"") != body.npos && parser.iterate(text).get(document) == simdjson::SUCCESS &&
      document.find_field_unordered("timeout").get_double().get(timeout_s) == simdjson::SUCCESS &&
      timeout_s > 0)
    hints.timeout_s = timeout_s;
  std::string_view id;
  if (body.find("\"request_id\"") != body.npos && parser.iterate(text).get(document) == simdjson::SUCCESS &&
      document.find_field_unordered("request_id").get_string().get(id) == simdjson::SUCCESS)
    hints.request_id = id;
  hints.unknown = find_unknown_fields(kind, text);
  return hints;
}

}  // namespace anabranch::server
