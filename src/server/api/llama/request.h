// Reads the bodies of llama-server's own routes: /completion, /infill, /tokenize and /detokenize.
// Reference: llama.cpp's tools/server/README.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/api/common_fields.h"
#include "server/api/request_encoder.h"

namespace anabranch::server {

struct LlamaRequest {
  CompletionRequest completion;
  bool list = false;               // the prompts came as a list, so the answers are a list, too
  bool return_tokens = false;      // in a whole answer
  bool timings_per_token = false;  // in each part of a stream
  std::vector<std::string>
      response_fields;  // fields of the last object, such as "timings/prompt_n"; empty: all
  Json settings;        // "generation_settings"
  int slot = 0;
};
ApiResult<LlamaRequest> parse_llama_request(std::string_view body, const RequestDefaults& defaults,
                                            RequestEncoder& texts);
// Builds the prompt with the fill-in-the-middle tokens. Error: 400 if the tokenizer lacks these tokens.
ApiResult<LlamaRequest> parse_infill_request(std::string_view body, const RequestDefaults& defaults,
                                             RequestEncoder& texts);
// The answers of /tokenize (for a text, in "content" as llama-server has it or in "prompt" as vLLM does) and
// of /detokenize. context: the model's context length.
ApiResult<Json> tokenize(const Json& body, RequestEncoder& texts, int context);
// vLLM's answer of /tokenize for the tokens of a prompt.
ApiResult<Json> vllm_tokens_json(const Json& body, const std::vector<int>& ids, const Tokenizer& tokenizer,
                                 int context);
ApiResult<Json> detokenize(std::string_view body, const Tokenizer& tokenizer);

}  // namespace anabranch::server
