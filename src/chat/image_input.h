// An image of a request, as the client sent it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace anabranch {

struct ImageInput {
  std::string bytes;                   // the file's content: PNG, JPEG, ...
  std::optional<int64_t> most_pixels;  // from "detail": "low"; unset: the model's own limit
  std::string field;                   // the request's field, for errors: "messages[3].content[1]"
};

}  // namespace anabranch
