// Fields of a request that are needed before its whole body is read.
#pragma once

#include <string>
#include <string_view>

#include "server/api/field_names.h"

namespace anabranch::server {

struct RequestHints {
  std::string model;       // "": the body names none, or not as a string
  double timeout_s = 0;    // 0: absent, or not a number above 0
  std::string request_id;  // "": absent, or not a string
  UnknownFields unknown;
};
// Reads the hints from a JSON object with a request of this kind. Other fields are not checked.
RequestHints read_hints(AnswerKind kind, std::string_view body);

}  // namespace anabranch::server
