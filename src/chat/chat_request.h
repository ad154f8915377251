// A client's request as plain values, independent of the API that it came by.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/sampling_params.h"
#include "chat/cache_mark.h"
#include "chat/constraints.h"
#include "chat/continuation.h"
#include "chat/image_input.h"
#include "chat/thinking.h"
#include "engine/engine.h"
#include "jinja/chat_template.h"

namespace anabranch {

// Options of chat requests and of text completions.
struct GenerationOptions {
  SamplingParams sampling;                // seed: see below
  std::optional<uint64_t> seed;           // unset: the caller draws one
  int max_tokens = -1;                    // -1: up to the context length
  TokenBound bound = TokenBound::answer;  // what max_tokens limits
  int choices = 1;                        // answers per prompt
  int logprobs = -1;                      // alternatives reported for each token; -1: no log probabilities
  ThinkingWish thinking;                  // if it says nothing, the server decides
  LoopRule loops = LoopRule::exact;       // see ThinkingOptions
  std::vector<std::string> stop;
  bool keep_stop = false;  // see OutputRules, as the next two
  int min_tokens = 0;
  std::vector<int> stop_tokens;
  ResponseFormat format;
  std::optional<SpecMode> speculation;  // unset: the engine's default
  bool ignore_eos = false;
  int priority = 0;         // requests with lower values run first
  bool background = false;  // see Request
  bool cache = true;
  std::string cache_salt;
  std::vector<AppliedAdapter> adapters;  // see Request; set by apply_adapters()
  int slot = 0;            // of llama-server's; only a name for the prompt (server/api/llama/slots.h)
  bool to_decode = false;  // another worker decodes from the states that this one caches (kv_transfer_params)
  StateOrigin state_from;  // see Request
  bool stream = false;
  bool progress = false;       // report prefill progress (streams only)
  bool include_usage = false;  // a last chunk with the usage (streams only)
};

// Has the request apply these adapters, and keeps its cached states and remembered turns apart from those of
// other adapters. To be called once, when cache_salt is complete.
inline void apply_adapters(GenerationOptions& options, std::vector<AppliedAdapter> adapters) {
  options.cache_salt.insert(0, adapter_salt(adapters));
  options.adapters = std::move(adapters);
}

struct ChatRequest {
  GenerationOptions options;
  // Checked and normalised for the template. "content" is a text or, with images, a list of parts: {"type":
  // "text", "text"} or {"type": "image"}.
  Json messages = Json::array();
  std::vector<ImageInput> images;            // for the parts {"type": "image"}, in order
  std::optional<Continuation> continuation;  // the final message to continue; not among the messages
  Json tools;                                // array; null: none
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  std::vector<std::string>
      left_out_tools;  // types of tools that are not in `tools`, because nobody here can run them
  std::vector<CacheMark> marks;
  TemplateOptions chat;  // enable_thinking is still unset; it follows from options.thinking
};

using TextOrTokens = std::variant<std::string, std::vector<int>>;  // token ids are >= 0

struct CompletionRequest {
  GenerationOptions options;
  std::vector<TextOrTokens> prompts;  // one or more
  std::string suffix;                 // the answer fills in between a text prompt and this; empty: none
  bool echo = false;                  // the answer begins with its prompt
  std::string field = "prompt";       // where the prompts stood, for errors
};

}  // namespace anabranch
