#include "chat/engine_request.h"

namespace anabranch {

Request engine_request(const Prepared& prepared, size_t prompt, uint64_t seed) {
  const GenerationOptions& options = prepared.options;
  Request request;
  request.prompt = prepared.prompts[prompt];
  request.images = prepared.images;
  request.keep_at = prepared.keep_at;
  request.begun = prepared.begun;
  request.output = prepared.rules;
  request.thinking = prepared.thinking;
  request.grammar = prepared.grammar;
  request.sampling = options.sampling;
  request.sampling.seed = seed;
  request.adapters = options.adapters;
  request.logprobs = options.logprobs;
  request.max_tokens = options.max_tokens;
  request.bound = options.bound;
  request.stop = options.stop;
  request.ignore_eos = options.ignore_eos;
  request.speculation = options.speculation;
  request.priority = options.priority;
  request.background = options.background;
  request.progress = options.progress;
  request.cache = options.cache;
  request.cache_salt = options.cache_salt;
  request.state_from = options.state_from;
  return request;
}

}  // namespace anabranch
