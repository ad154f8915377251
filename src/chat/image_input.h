// An image of a request, as the client sent it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace anabranch {

struct ImageInput {
  std::string bytes;                   // of its file: PNG, JPEG, ...
  std::optional<int64_t> most_pixels;  // that the model may see ("detail": "low"); unset: as many as it takes
  std::string field;                   // of the request, for errors: "messages[3].content[1]"
};

}  // namespace anabranch
