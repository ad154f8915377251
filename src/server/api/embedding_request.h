// Reads the bodies of /v1/embeddings, of Ollama's /api/embed and /api/embeddings, and of /v1/rerank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api/json_fields.h"
#include "server/api/request_encoder.h"

namespace anabranch::server {

// The last two: as Jina's and llama-server's /rerank, and as Text Embeddings Inference's.
enum class EmbeddingForm : uint8_t { floats, base64, ollama, ollama_one, ranking, tei_ranking };

struct EmbeddingRequest {
  std::vector<std::vector<int>> prompts;  // one or more, none of them empty. Of a ranking: the query's and
                                          // the documents', or with `classes` one for each document
  std::vector<int> classes;               // of a reranker: its tokens "yes" and "no"
  std::vector<std::string> documents;     // of a ranking, if the answer shall repeat them
  size_t most = SIZE_MAX;                 // of a ranking: only the so many best
  int dimensions = 0;                     // the first so many values of each embedding; 0: all
  EmbeddingForm form = EmbeddingForm::floats;
};

// Errors: 400 (also for models that make no embeddings, and for texts beyond the context; Ollama's routes cut
// these unless told not to).
enum class EmbeddingApi : uint8_t { openai, ollama, ollama_one, rerank };
ApiResult<EmbeddingRequest> parse_embedding_request(std::string_view body, EmbeddingApi api,
                                                    const ModelInfo& info, RequestEncoder& texts);

}  // namespace anabranch::server
