// The span of an ended request, by OpenTelemetry's conventions for generative AI and HTTP.
#pragma once

#include <cstdint>
#include <optional>

#include "server/http/types.h"
#include "server/otlp/span.h"

namespace anabranch::server {

// One moment on both clocks.
struct Moment {
  int64_t unix_nanoseconds = 0;
  double seconds = 0;  // monotonic
};

// end: when the request ended. Nothing if the request was not for an answer, embeddings or a ranking, or if
// its client does not record the trace. The span contains no text of prompts or answers.
std::optional<Span> request_span(const EndedRequest& request, const Moment& end);

}  // namespace anabranch::server
