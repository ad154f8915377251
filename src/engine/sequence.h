// One request on its way through the engine.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "decode/speculator.h"
#include "decode/think_control.h"
#include "engine/engine.h"
#include "state/sequence_state.h"
#include "text/stop_matcher.h"

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
  TokenHistory history;                 // of `tokens`, for penalties
  std::vector<TokenLogprobs> logprobs;  // of tokens not delivered yet
  text::Detokenizer detokenizer;
  text::StopMatcher stops;
  std::vector<int> keep_at;  // lengths still to come at which the state is kept, ascending
  Usage usage;

  Sequence(RequestId id, Request r, Sink sink, const text::Tokenizer& tokenizer)
      : id(id),
        request(std::move(r)),
        sink(std::move(sink)),
        submitted(now_seconds()),
        tokens(request.prompt),
        detokenizer(tokenizer),
        stops(request.stop) {
    usage.prompt_tokens = static_cast<int>(tokens.size());
  }
};

}  // namespace anabranch
