// What a request must be treated by before its whole body is read.
#pragma once

#include <string>
#include <string_view>

#include "server/api/field_names.h"

namespace anabranch::server {

struct RequestHints {
  std::string model;       // "": the body names none, or not as a string
  double timeout_s = 0;    // 0: it has none, or not as a number above 0
  std::string request_id;  // "": it has none, or not as a string
  UnknownFields unknown;
};
// Of a JSON object with a request of this kind. What else the body holds is not checked.
RequestHints read_hints(AnswerKind kind, std::string_view body);

}  // namespace anabranch::server
