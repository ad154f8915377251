// What the bodies of all APIs share: the values that they are checked against, limits, and the fields with
// the same meaning everywhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_request.h"
#include "mcp/client.h"
#include "server/api/adapter_registry.h"
#include "server/api/json_fields.h"
#include "server/api/request_images.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// The values that requests are checked against, and the defaults for absent fields.
struct RequestDefaults {
  SamplingParams sampling;                 // used where the request says nothing
  std::vector<DraftSource> draft_sources;  // accepted in "speculation"
  int vocab_size = 0;                      // ids accepted in "logit_bias"
  ThinkingWish thinking;                   // used where the request says nothing
  std::string draft_model;                 // name of the loaded draft model; empty: none is loaded
  bool images = false;                     // whether prompts may contain images
  ImageFetch fetch_image;  // gets images that requests name by a web address; empty: they are refused
  // The key's name, if requests may reuse only prefixes that this key has sent; empty: they may reuse
  // everybody's.
  std::string cache_space = {};
  AvailableAdapters adapters = {};  // of the model
  // The tools of an MCP server; empty: the server is asked while the request is read.
  std::function<Result<std::vector<mcp::Tool>>(const std::string& server)> list_tools = {};
};
RequestDefaults request_defaults(const Engine& engine, const SamplingParams& sampling,
                                 const ThinkingWish& thinking);

inline constexpr int kMaxChoices = 16;  // answers to one prompt
inline constexpr int kMaxAnswers = 64;  // answers to all prompts of a request
inline constexpr size_t kMaxMessages = 65536;
inline constexpr size_t kMaxTools = 1024;

// Parses the body as a JSON object.
ApiResult<Json> parse_body(std::string_view body);
// Reads the fields with the same names in all APIs: model, sampling, penalties, speculation, cache, "stream".
// samplers: the object that has the fields of sampler_fields.h under the names there; in most APIs the same
// object as `fields`.
GenerationOptions read_common_options(JsonFields& fields, JsonFields& samplers,
                                      const RequestDefaults& defaults);
// Checks "timeout", whose value is read before the rest (request_model.h).
void check_timeout(JsonFields& fields);
// Reads "logprobs" and "top_logprobs". In a text completion "logprobs" may also be a number.
int read_logprobs(JsonFields& fields, bool chat);
// Reads a string or an array of strings.
void read_stop(JsonFields& fields, const char* name, std::vector<std::string>& stop);

}  // namespace anabranch::server
