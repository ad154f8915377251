// Reads the bodies of Ollama's /api/chat and /api/generate. Unsupported fields that would change the answer
// are refused by name. Reference: Ollama's docs/api.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/api/common_fields.h"

namespace anabranch::server {

struct OllamaRequest {
  // monostate: the request only loads or unloads the model.
  std::variant<std::monostate, ChatRequest, CompletionRequest> asks;
  bool stream = true;
  bool truncate = true;          // a conversation longer than the context loses its oldest part
  std::optional<double> keep_s;  // how long the model stays loaded after its last request; negative: for ever
};
// generate: the body is for /api/generate, otherwise for /api/chat.
ApiResult<OllamaRequest> parse_ollama_request(std::string_view body, bool generate,
                                              const RequestDefaults& defaults);

}  // namespace anabranch::server
