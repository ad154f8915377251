// Names of request fields, so that a misspelt one does not go unnoticed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer_writer.h"
#include "server/http/api_error.h"

namespace simdjson {
struct padded_string;
}

namespace anabranch::server {

struct UnknownFields {
  // Fields that this API does not read, in the body's order: 16 of them at most, as one line for a header.
  std::string names;
  // The first one that is nearly the name of a field that it reads, and that name; "": none is.
  std::string misspelt, meant;
};

// The fields that an API reads, and those of its original without an effect here.
const std::vector<std::string>& known_fields(AnswerKind kind);

// Of a JSON object with a request of this kind. Fields of the API's original without an effect here are
// known.
UnknownFields find_unknown_fields(AnswerKind kind, const simdjson::padded_string& body);
UnknownFields find_unknown_fields(AnswerKind kind, std::string_view body);

// For a misspelt field where the API's original refuses unknown ones: OpenAI's and Anthropic's do.
std::optional<ApiError> refuse_misspelt(AnswerKind kind, const UnknownFields& unknown);

}  // namespace anabranch::server
