// The JSON bodies of /v1/chat/completions and /v1/completions as plain values, every field checked. What is
// not built is refused by name; fields that we do not know are ignored, as OpenAI ignores them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/sampling_params.h"
#include "chat/thinking.h"
#include "engine/engine.h"
#include "jinja/chat_template.h"
#include "server/api/constraints.h"
#include "server/api/continuation.h"
#include "server/api/json_fields.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// What a request is checked against and completed from.
struct RequestDefaults {
  SamplingParams sampling;                 // where the request says nothing
  std::vector<std::string> model_names;    // of the loaded model
  std::vector<DraftSource> draft_sources;  // accepted in "speculation"
  int vocab_size = 0;                      // ids accepted in "logit_bias"
  ThinkingWish thinking;                   // where the request says nothing
  bool strict_model_names = false;         // whether "model" must be one of model_names
  std::string draft_model;                 // its name; empty: none is loaded

  bool accepts_model(std::string_view name) const;
};

// The part that both routes share.
struct GenerationOptions {
  SamplingParams sampling;           // seed: see below
  std::optional<uint64_t> seed;      // unset: the caller draws one
  int max_tokens = -1;               // of answer; -1 = up to the context length
  int choices = 1;                   // answers to each prompt
  int logprobs = -1;                 // alternatives told beside each token; -1: no log probabilities
  ThinkingWish thinking;             // where it says nothing, the server decides
  LoopRule loops = LoopRule::exact;  // as of ThinkingOptions
  std::vector<std::string> stop;
  AnswerForm form;
  std::optional<SpecMode> speculation;  // unset: as the engine was started
  bool ignore_eos = false;
  int priority = 0;  // lower ones go first
  bool cache = true;
  std::string cache_salt;
  bool stream = false;
  bool include_usage = false;  // a last chunk with the usage (streams only)
};

struct ChatRequest {
  GenerationOptions options;
  Json messages = Json::array();             // checked and normalised for the template
  std::optional<Continuation> continuation;  // of a final message, which is not among the messages
  Json tools;                                // array; null: none, or tool_choice "none"
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  text::ChatOptions chat;  // enable_thinking is not set yet: options.thinking
};

using TextOrTokens = std::variant<std::string, std::vector<int>>;  // token ids are >= 0

struct CompletionRequest {
  GenerationOptions options;
  std::vector<TextOrTokens> prompts;  // one or more
};

inline constexpr int kMaxChoices = 16;  // of one prompt
inline constexpr int kMaxAnswers = 64;  // to all prompts of a request
inline constexpr size_t kMaxMessages = 65536;
inline constexpr size_t kMaxTools = 1024;

std::variant<ChatRequest, ApiError> parse_chat_request(std::string_view body,
                                                       const RequestDefaults& defaults);
std::variant<CompletionRequest, ApiError> parse_completion_request(std::string_view body,
                                                                   const RequestDefaults& defaults);

// Shared with the other API (anthropic_request.h). The body as an object.
std::variant<Json, ApiError> parse_body(std::string_view body);
// What is named alike everywhere: the model, sampling, penalties, speculation, the cache, "stream".
GenerationOptions read_common_options(JsonFields& fields, const RequestDefaults& defaults);
// A string or an array of strings.
void read_stop(JsonFields& fields, const char* name, std::vector<std::string>& stop);

}  // namespace anabranch::server
