// The JSON bodies of the generating routes. The first byte chooses the route.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/api/anthropic_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anabranch::server;
  static const RequestDefaults defaults{anabranch::SamplingParams{}, {}, 1000};
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ApiError* error = nullptr;
  if (data[0] & 1) {
    const auto result = parse_completion_request(body, defaults);
    error = std::get_if<ApiError>(&result);
    if (error && error_response(*error).body.empty()) std::abort();
  } else {
    const auto result = data[0] & 2 ? parse_messages_request(body, defaults, data[0] & 4)
                                    : parse_chat_request(body, defaults);
    error = std::get_if<ApiError>(&result);
    if (error && error_response(*error).body.empty()) std::abort();
    if (const auto* request = std::get_if<anabranch::ChatRequest>(&result)) {
      // What the template relies on.
      if (request->messages.empty()) std::abort();
      for (const auto& message : request->messages)
        if (!message.at("role").is_string() || !message.at("content").is_string()) std::abort();
      if (request->options.max_tokens == 0 || request->options.stop.size() > 16) std::abort();
    }
  }
  return 0;
}
