// Reads the bodies of /v1/embeddings, of Ollama's /api/embed and /api/embeddings, and of /v1/rerank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api/json_fields.h"
#include "server/api/request_encoder.h"

namespace anabranch::server {

// ranking: the format of Jina's and llama-server's /rerank. tei_ranking: that of Text Embeddings Inference.
enum class EmbeddingFormat : uint8_t { floats, base64, ollama, ollama_one, ranking, tei_ranking };

struct EmbeddingRequest {
  std::vector<std::vector<int>> prompts;  // none of them empty. For a ranking: the query's and the
                                          // documents', or with `classes` one for each document. None: a
                                          // request of Ollama's API that only loads the model
  std::vector<int> classes;               // for a reranker: its tokens "yes" and "no"
  std::vector<std::string> documents;     // for a ranking, if the answer is to repeat them
  size_t most = SIZE_MAX;                 // for a ranking: return only this many of the best
  int dimensions = 0;                     // number of leading values of each embedding to return; 0: all
  Pooling pooling = Pooling::last;
  EmbeddingFormat format = EmbeddingFormat::floats;
  std::optional<double> keep_s;  // see OllamaRequest
};

// Errors: 400 (also for models that make no embeddings, except by Ollama's routes, which take the state at
// the last token for them, and for texts longer than the context, which Ollama's routes truncate unless the
// request says otherwise).
enum class EmbeddingApi : uint8_t { openai, ollama, ollama_one, rerank };
ApiResult<EmbeddingRequest> parse_embedding_request(std::string_view body, EmbeddingApi api,
                                                    const ModelInfo& info, RequestEncoder& texts);

}  // namespace anabranch::server
