// Prompts made as the server makes them of the same request, so that answers and kept states are the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "chat/preparer.h"
#include "cli/conversation.h"

namespace anabranch::cli {

// body: of a request for a chat completion. Sampling and stop texts are those given, whatever it says.
Result<Prepared> prepare_as_server(const Engine& engine, Preparer& preparer, const Json& body,
                                   const SamplingParams& sampling, const ThinkFlags& thinking,
                                   const std::vector<std::string>& stop,
                                   const std::function<bool()>& cancelled);
// Its only prompt, which it then has no more.
Prompt take_prompt(Prepared& prepared);

}  // namespace anabranch::cli
