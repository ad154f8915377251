// Reads the bodies of /v1/embeddings and of Ollama's /api/embed and /api/embeddings.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

enum class EmbeddingForm : uint8_t { floats, base64, ollama, ollama_one };

struct EmbeddingRequest {
  std::vector<std::vector<int>> prompts;  // one or more, none of them empty
  int dimensions = 0;                     // the first so many values of each embedding; 0: all
  EmbeddingForm form = EmbeddingForm::floats;
  double timeout_s = 0;  // as of GenerationOptions
};

// Errors: 400 (also for models that make no embeddings, and for texts beyond the context; Ollama's routes cut
// these unless told not to).
enum class EmbeddingApi : uint8_t { openai, ollama, ollama_one };
std::variant<EmbeddingRequest, ApiError> parse_embedding_request(std::string_view body, EmbeddingApi api,
                                                                 const ModelInfo& info,
                                                                 const Tokenizer& tokenizer);

}  // namespace anabranch::server
