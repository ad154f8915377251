// Requests of the command line, prepared as the server prepares them: the same input gives the same prompt,
// the same thinking policy and the same grammar, so that answers and kept states are the same, too.
#pragma once

#include <functional>
#include <string>

#include "chat/preparer.h"
#include "cli/options.h"

namespace anabranch::cli {

// Flags over the model's recommendation.
SamplingParams sampling_params(const SamplingOptions& options, const Engine& engine, uint64_t default_seed);
GenerationOptions generation_options(const SamplingOptions& options, const Engine& engine,
                                     uint64_t default_seed);
ThinkingWish thinking_wish(const ThinkFlags& flags);

// body: {"messages", "tools"} as of /v1/chat/completions. The options are those given, whatever it says.
// cancelled: see Preparer. Errors: unsupported (no chat template, or one that cannot be told to think as
// the flags say); as of Preparer::chat and Preparer::compile, in the words of the command line.
Result<Prepared> prepare_chat(const Engine& engine, Preparer& preparer, const Json& body,
                              const ThinkFlags& thinking, GenerationOptions options,
                              const std::function<bool()>& cancelled = {});
// A text to go on with, or its tokens, without a chat template.
Result<Prepared> prepare_text(Preparer& preparer, TextOrTokens text, GenerationOptions options);

}  // namespace anabranch::cli
