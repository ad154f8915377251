// Log probabilities as OpenAI's two routes write them, and as ids without texts.
#pragma once

#include <span>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

enum class LogprobsForm { chat, completion, ids };

class LogprobsJson {
 public:
  // The tokenizer outlives it.
  LogprobsJson(LogprobsForm form, const Tokenizer& tokenizer)
      : form_(form), tokenizer_(tokenizer), text_(tokenizer) {}

  // One entry per token.
  void push(std::span<const int> tokens, std::span<const TokenLogprobs> logprobs);

  // A prompt before the answer (text completions only). logprobs: of its second token and all after it.
  void push_prompt(std::span<const int> tokens, std::span<const TokenLogprobs> logprobs);

  // Of the tokens pushed since the last call; null if there are none. Chat: {"content": [{"id", "token",
  // "logprob", "bytes", "top_logprobs": [...]}], "refusal": null}. Text completions: {"tokens",
  // "token_logprobs", "top_logprobs": [{token: logprob}], "text_offset"}, offsets in code points from the
  // start of the answer. A prompt's first token has null in place of its log probabilities. Ids:
  // [{"token_id", "logprob", "top_logprobs": [{"token_id", "logprob"}]}].
  Json take();

 private:
  Json chat() const;
  Json ids() const;
  Json completion();

  LogprobsForm form_;
  const Tokenizer& tokenizer_;
  Detokenizer text_;   // of the answer so far
  size_t offset_ = 0;  // its code points
  std::vector<int> tokens_;
  std::vector<TokenLogprobs> logprobs_;
  bool unknown_first_ = false;  // of tokens_: nothing is before it
};

}  // namespace anabranch
