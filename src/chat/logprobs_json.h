// Log probabilities as JSON: in the formats of OpenAI's two routes, and as ids without texts.
#pragma once

#include <span>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

enum class LogprobsFormat { chat, completion, ids };

class LogprobsJson {
 public:
  // The tokenizer must outlive this object.
  LogprobsJson(LogprobsFormat format, const Tokenizer& tokenizer)
      : format_(format), tokenizer_(tokenizer), text_(tokenizer) {}

  // Adds tokens of the answer. logprobs: one entry for each token.
  void push(std::span<const int> tokens, std::span<const TokenLogprobs> logprobs);

  // Adds a prompt before the answer (text completions only). logprobs: one entry for each token from the
  // second on.
  void push_prompt(std::span<const int> tokens, std::span<const TokenLogprobs> logprobs);

  // JSON for the tokens pushed since the last call; null if there are none. Chat: {"content": [{"id",
  // "token", "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}. Text completions: {"tokens",
  // "token_logprobs", "top_logprobs": [{token: logprob}], "text_offset"}, offsets in code points from the
  // start of the answer. A prompt's first token has null instead of log probabilities. Ids: [{"token_id",
  // "logprob", "top_logprobs": [{"token_id", "logprob"}]}].
  Json take();

 private:
  Json chat() const;
  Json ids() const;
  Json completion();

  LogprobsFormat format_;
  const Tokenizer& tokenizer_;
  Detokenizer text_;   // the answer so far
  size_t offset_ = 0;  // code points of the answer so far
  std::vector<int> tokens_;
  std::vector<TokenLogprobs> logprobs_;
  bool unknown_first_ = false;  // the first of tokens_ begins a prompt, so it has no log probability
};

}  // namespace anabranch
