// From a request's body to what the engine takes: parse, render the template, tokenise. Slow for long
// prompts, so it runs on a worker thread.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "server/api_request.h"
#include "server/openai_format.h"
#include "text/output_parser.h"
#include "text/prompt_compiler.h"
#include "text/volatile_text.h"

namespace anabranch::server {

struct Prepared {
  GenerationOptions options;
  std::vector<int> prompt;
  std::vector<int> keep_at;  // as of Request
  text::OutputRules rules;   // how to take the answer apart (chat only)
};

// Thread-safe. The engine must outlive it.
class Preparer {
 public:
  // volatile_text: of system prompts.
  Preparer(const Engine& engine, std::vector<text::VolatileRule> volatile_text);
  std::variant<Prepared, ApiError> prepare(AnswerKind kind, std::string_view body);
  // What requests are checked against.
  const RequestDefaults& defaults() const { return defaults_; }

 private:
  std::variant<Prepared, ApiError> prepare_chat(ChatRequest request);
  std::variant<Prepared, ApiError> prepare_completion(CompletionRequest request) const;
  std::variant<Prepared, ApiError> check(Prepared prepared, const char* param) const;

  const Engine& engine_;
  const RequestDefaults defaults_;
  const text::OutputFormat format_;
  const std::vector<text::VolatileRule> volatile_text_;
  std::optional<text::PromptCompiler> compiler_;  // none: the model brings no chat template
};

}  // namespace anabranch::server
