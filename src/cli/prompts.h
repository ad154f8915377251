// Prepares requests of the command line like the server does: the same input gives the same prompt, thinking
// policy and grammar, so that answers and cached states are the same, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "chat/preparer.h"
#include "cli/options.h"

namespace anabranch::cli {

// The model's recommended sampling, overridden by flags.
SamplingParams sampling_params(const SamplingOptions& options, const Engine& engine, uint64_t default_seed);
GenerationOptions generation_options(const SamplingOptions& options, const Engine& engine,
                                     uint64_t default_seed);
// Loads the adapters, for requests of this engine. Errors: those of Engine::load_adapter.
Result<std::vector<AppliedAdapter>> applied_adapters(Engine& engine, const AdapterFlags& paths);
ThinkingWish thinking_wish(const ThinkFlags& flags);

// body: {"messages", "tools"} as in /v1/chat/completions. Options come from the argument, not from the body.
// cancelled: see Preparer. Errors: unsupported (no chat template, or one that does not support the thinking
// flags); those of Preparer::chat and Preparer::compile, in the words of the command line.
Result<Prepared> prepare_chat(const Engine& engine, Preparer& preparer, const Json& body,
                              const ThinkFlags& thinking, GenerationOptions options,
                              const std::function<bool()>& cancelled = {});
// Prepares a text to continue, or its tokens, without a chat template.
Result<Prepared> prepare_text(Preparer& preparer, TextOrTokens text, GenerationOptions options);

}  // namespace anabranch::cli
