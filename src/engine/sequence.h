// One request on its way through the engine.
#pragma once

#include <climits>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "decode/answer_grammar.h"
#include "decode/speculator.h"
#include "decode/think_control.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "output/output_text.h"
#include "state/sequence_state.h"

namespace anabranch {

// Touched only by the engine thread once it was submitted.
struct Sequence {
  RequestId id;
  Request request;
  Sink sink;
  double submitted = 0, started = 0, first_token = 0;
  std::vector<int> tokens;             // prompt, then what was sampled
  std::optional<SequenceState> state;  // made when the sequence first runs, as is the speculator
  std::optional<Speculator> speculator;
  std::optional<ThinkControl> control;
  std::optional<AnswerGrammar> grammar;
  TokenHistory history;                  // of `tokens`, for penalties
  std::vector<TokenLogprobs> logprobs;   // of tokens not delivered yet
  std::optional<text::OutputText> text;  // where what the answer says can end it
  std::vector<int> keep_at;              // lengths still to come at which the state is kept, ascending
  Usage usage;

  Sequence(RequestId id, Request r, Sink sink, const text::Tokenizer& tokenizer)
      : id(id),
        request(std::move(r)),
        sink(std::move(sink)),
        submitted(now_seconds()),
        tokens(request.prompt) {
    if (!request.stop.empty() || request.output.max_calls < INT_MAX)
      text.emplace(tokenizer, request.stop, request.output);
    usage.prompt_tokens = static_cast<int>(tokens.size());
  }
};

// One sequence's part of a step.
struct StepPart {
  Piece piece;
  Sequence* sequence;
  bool decodes = false;        // one token, and perhaps a draft after it
  bool forced = false;         // the draft is what must come
  Draft draft;                 // on trial in the pass
  std::vector<Snapshot> kept;  // states within the piece's tokens; lengths first
  int begin = 0;               // tokens that the state had seen
  int row = 0, rows = 0;       // of the batch
  size_t logit = 0;            // its first row of logits
  std::vector<int> sampled;
  bool right = false;  // all of the draft, and what was sampled ends inside it
  FinishReason reason = FinishReason::none;
  std::exception_ptr failure;  // of sampling
  int applied() const;
};

}  // namespace anabranch
