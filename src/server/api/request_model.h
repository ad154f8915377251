// The model that a request names, read before the whole body is.
#pragma once

#include <string>
#include <string_view>

namespace anabranch::server {

// The value of "model" in a JSON object; "" when there is none, or when it is no string. What else the body
// holds is not checked.
std::string model_named_in(std::string_view body);

}  // namespace anabranch::server
