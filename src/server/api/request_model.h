// What a request must be treated by before its whole body is read.
#pragma once

#include <string>
#include <string_view>

namespace anabranch::server {

struct RequestHints {
  std::string model;       // "": the body names none, or not as a string
  double timeout_s = 0;    // 0: it has none, or not as a number above 0
  std::string request_id;  // "": it has none, or not as a string
};
// Of a JSON object. What else the body holds is not checked.
RequestHints read_hints(std::string_view body);

}  // namespace anabranch::server
