// A request while the engine processes it.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "decode/answer_grammar.h"
#include "decode/speculator.h"
#include "decode/think_control.h"
#include "engine/engine.h"
#include "state/prompt_images.h"
#include "state/sequence_state.h"

namespace anabranch {

// Used only by the engine thread after submit(); during StepRunner::collect(), by one thread of the device's
// pool at a time.
struct Sequence {
  RequestId id;
  Request request;
  Sink sink;
  double submitted = 0, started = 0, first_token = 0;
  bool begun = false;                  // the `started` event was sent
  std::vector<int> tokens;             // the prompt, then the sampled tokens
  std::optional<SequenceState> state;  // made when the sequence first runs, as is the speculator
  std::optional<Speculator> speculator;
  ConstraintList constraints;                  // made when the sequence first runs (EngineModel::constrain)
  ThinkControl* thinking = nullptr;            // the first constraint
  AnswerGrammar* grammar = nullptr;            // one of the constraints, or null
  TokenHistory history;                        // of `tokens`, for penalties
  std::vector<TokenLogprobs> logprobs;         // of tokens that are not delivered yet
  std::vector<TokenLogprobs> prompt_logprobs;  // so far, until they are delivered
  std::vector<float> embedding;                // so far: the chosen hidden state, or the sum of all
  std::vector<int> keep_at;                    // lengths still ahead at which to cache the state, ascending
  std::vector<int> kept_at;                    // lengths at which states were reused or cached
  std::unique_ptr<PromptImages> images;        // of the prompt; null: it has none
  Usage usage;

  Sequence(RequestId id, Request r, Sink sink)
      : id(id),
        request(std::move(r)),
        sink(std::move(sink)),
        submitted(now_seconds()),
        tokens(request.prompt) {
    usage.prompt_tokens = static_cast<int>(tokens.size());
  }
  // Whether tokens follow the prompt.
  bool generates() const { return !request.pooling && request.max_tokens > 0; }
};

}  // namespace anabranch
