// From a request's body to what the engine takes: parse, render the template, tokenise. Slow for long
// prompts, so it runs on a worker thread.
#pragma once

#include <optional>
#include <string_view>
#include <variant>

#include "engine/engine.h"
#include "server/api_request.h"
#include "server/openai_format.h"
#include "text/prompt_compiler.h"
#include "text/reasoning.h"

namespace anabranch::server {

struct Prepared {
  GenerationOptions options;
  std::vector<int> prompt;
  std::vector<int> keep_at;                 // as of Request
  std::optional<text::ReasoningTags> tags;  // of the blocks to keep apart from the content (chat only)
  bool thinking_open = false;               // the prompt ends inside such a block
};

// What requests to this engine are checked against.
RequestDefaults request_defaults(const Engine& engine);

// compiler: null when the model brings no chat template.
std::variant<Prepared, ApiError> prepare(AnswerKind kind, std::string_view body, const Engine& engine,
                                         text::PromptCompiler* compiler, const RequestDefaults& defaults);

}  // namespace anabranch::server
