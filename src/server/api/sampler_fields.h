// The fields that choose tokens and end answers, beyond OpenAI's own. Every API takes all of them, under
// every name that clients of vLLM, llama-server and Ollama use.
#pragma once

#include <span>
#include <variant>

#include "chat/chat_request.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// A number of SamplingParams.
struct SamplerField {
  const char* name;
  const char* other;  // a second name; null: none
  double least, most;
  std::variant<float*, int*> (*value)(SamplingParams&);
  const char* help;  // of its flag in the command line (--name, with dashes); null: it has none

  bool whole() const;
  double get(const SamplingParams& params) const;
  // Values that mean "off" in another way than ours become ours.
  void set(SamplingParams& params, double number) const;
};
std::span<const SamplerField> sampler_fields();

// Reads them, and refuses fields of this kind that are not built. vocab_size: ids accepted in
// "stop_token_ids".
void read_samplers(JsonFields& fields, int vocab_size, GenerationOptions& options);
// Refuses more "min_tokens" than options.max_tokens, which must have been read.
void check_min_tokens(JsonFields& fields, const GenerationOptions& options);
// Reads an array of at most `most` token ids.
std::vector<int> read_token_ids(JsonFields& fields, const char* name, int vocab_size, size_t most);

}  // namespace anabranch::server
