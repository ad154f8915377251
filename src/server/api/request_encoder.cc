#include "server/api/request_encoder.h"

#include <fmt/format.h>

namespace anabranch::server {

ApiError RequestEncoder::error(const std::string& field) const {
  if (limit_.cancelled()) return {400, "The client has left", field, "cancelled"};
  if (context_ == 0)
    return {
        400,
        fmt::format("'{}' has more than {} tokens, which is the most that one request may have; send it in "
                    "parts",
                    field, limit_.most_tokens()),
        field, "limit_exceeded"};
  ApiError error{400,
                 fmt::format("This model's maximum context length is {} tokens, but '{}' has more than {}. "
                             "Shorten it",
                             context_, field, limit_.most_tokens()),
                 field, "context_length_exceeded"};
  error.prompt_tokens = limit_.most_tokens() + 1;
  error.context = context_;
  return error;
}

}  // namespace anabranch::server
