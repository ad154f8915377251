// Names of request fields, used to notice misspelt ones.
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
  // Fields that this API does not read, in the body's order: at most 16, as one line for a header.
  std::string names;
  // The first unknown field whose name is close to that of a known field, and the known name; "": none.
  std::string misspelt, meant;
};

// The fields that an API reads, and fields of the original API that have no effect here.
const std::vector<std::string>& known_fields(AnswerKind kind);

// The unknown fields of a JSON object with a request of this kind. Fields of the original API that have no
// effect here count as known.
UnknownFields find_unknown_fields(AnswerKind kind, const simdjson::padded_string& body);
UnknownFields find_unknown_fields(AnswerKind kind, std::string_view body);

// The error for a misspelt field, if the original API refuses unknown fields, as OpenAI's and Anthropic's do.
std::optional<ApiError> refuse_misspelt(AnswerKind kind, const UnknownFields& unknown);

}  // namespace anabranch::server
