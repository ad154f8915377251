// Reads the JSON bodies of /v1/chat/completions and /v1/completions and checks every field. Features that are
// not supported are refused by name; unknown fields are ignored, as OpenAI ignores them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_request.h"
#include "mcp/session.h"
#include "server/api/json_fields.h"
#include "server/api/request_images.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// The values that requests are checked against, and the defaults for absent fields.
struct RequestDefaults {
  SamplingParams sampling;                 // where the request says nothing
  std::vector<DraftSource> draft_sources;  // accepted in "speculation"
  int vocab_size = 0;                      // ids accepted in "logit_bias"
  ThinkingWish thinking;                   // where the request says nothing
  std::string draft_model;                 // its name; empty: none is loaded
  bool images = false;                     // whether prompts may contain images
  ImageFetch fetch_image;                  // of images that requests name by a web address; empty: refused
  // The key's name, if requests may find only what this key has sent; empty: they find everybody's.
  std::string cache_space = {};
  // What an MCP server offers; empty: the server is asked on the spot.
  std::function<Result<std::vector<mcp::Tool>>(const std::string& server)> list_tools = {};
};
RequestDefaults request_defaults(const Engine& engine, const SamplingParams& sampling,
                                 const ThinkingWish& thinking);

inline constexpr int kMaxChoices = 16;  // of one prompt
inline constexpr int kMaxAnswers = 64;  // to all prompts of a request
inline constexpr size_t kMaxMessages = 65536;
inline constexpr size_t kMaxTools = 1024;

ApiResult<ChatRequest> parse_chat_request(std::string_view body, const RequestDefaults& defaults);
ApiResult<CompletionRequest> parse_completion_request(std::string_view body, const RequestDefaults& defaults);
// The same of a parsed body, which must be an object.
ApiResult<ChatRequest> read_chat_request(const Json& body, const RequestDefaults& defaults);
ApiResult<CompletionRequest> read_completion_request(const Json& body, const RequestDefaults& defaults);

// The following are shared by the APIs. Parses the body as a JSON object.
ApiResult<Json> parse_body(std::string_view body);
// Fields with the same names in both APIs: model, sampling, penalties, speculation, cache, "stream".
GenerationOptions read_common_options(JsonFields& fields, const RequestDefaults& defaults);
// One of OpenAI's messages, as the template takes it; its images are noted (request_images.h). index: its
// place among the messages.
Json read_message(JsonFields& request, const Json& message, size_t index, ImageReader& images);
// What a chat has beside options and messages: tools, what the template takes, whether the last message is
// continued, and the noted images.
ApiResult<ChatRequest> finish_chat(JsonFields& fields, ChatRequest request);
// "timeout", which is read before the rest (request_model.h).
void check_timeout(JsonFields& fields);
// "logprobs" and "top_logprobs" of a chat; of a text completion "logprobs" may be a number, too.
int read_logprobs(JsonFields& fields, bool chat);
// A string or an array of strings.
void read_stop(JsonFields& fields, const char* name, std::vector<std::string>& stop);

}  // namespace anabranch::server
