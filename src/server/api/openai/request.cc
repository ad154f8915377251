#include "server/api/openai/request.h"

#include <algorithm>
#include <climits>

#include "base/lower_case.h"
#include "server/api/chat_blocks.h"
#include "server/api/chat_fields.h"
#include "server/api/content_parts.h"
#include "server/api/format_fields.h"
#include "server/api/sampler_fields.h"

namespace anabranch::server {
namespace {

// Refuses unsupported fields that would change the answer.
void refuse_what_is_not_built(JsonFields& fields) {
  fields.only("adapters", {}, "name an adapter of the server as 'model' (GET /v1/models lists them)");
  fields.only("role_mapping", {}, "roles are written as the model's chat template has them");
  fields.only("functions", {Json::array()}, "use 'tools' instead of the deprecated 'functions'");
  fields.only("function_call", {"auto", "none"}, "use 'tools' instead of the deprecated 'functions'");
  fields.only("modalities", {Json::array({"text"})}, "only text is built");
  fields.only("audio", {}, "only text is built");
  fields.only("web_search_options", {}, "searching the web is not built");
}

// Checks the types of fields that have no effect: hints to other servers.
void check_what_is_ignored(JsonFields& fields) {
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key", "service_tier", "verbosity"})
    fields.string(name);
  for (const char* name : {"metadata", "prediction"}) fields.object(name);
  fields.boolean("store");
}

// The number of answers. best_of above n is not supported.
int read_choices(JsonFields& fields) {
  const int64_t n = fields.integer("n", 1, kMaxChoices).value_or(1);
  if (fields.integer("best_of", 1, INT_MAX).value_or(n) != n)
    fields.fail("best_of", "unsupported_value", "'best_of' other than 'n' is not built");
  return static_cast<int>(n);
}

void read_stream_options(JsonFields& fields, GenerationOptions& options) {
  const Json* stream_options = fields.object("stream_options");
  if (!stream_options) return;
  JsonFields inner(*stream_options, "stream_options.");
  options.include_usage = inner.boolean("include_usage").value_or(false);
  if (inner.error()) fields.fail(*inner.error());
  if (!options.stream)
    fields.fail("stream_options", "invalid_value", "'stream_options' needs 'stream': true");
}

// vLLM's "kv_transfer_params", with which routers let one worker read the prompt and another one answer.
void read_transfer(JsonFields& fields, GenerationOptions& options) {
  constexpr size_t kMaxHost = 255, kMaxKeys = 128;
  const Json* transfer = fields.object("kv_transfer_params");
  if (!transfer) return;
  JsonFields inner(*transfer, "kv_transfer_params.");
  options.to_decode = inner.boolean("do_remote_decode").value_or(false);
  const bool from_other = inner.boolean("do_remote_prefill").value_or(false);
  const std::string* host = inner.string("remote_host");
  const auto port = inner.integer("remote_port", 0, 65535);
  const Json* keys = inner.array("remote_block_ids");
  if (inner.error()) return fields.fail(*inner.error());
  if (!from_other) return;
  if (host && port && host->size() <= kMaxHost)
    options.state_from.host = fmt::format("{}:{}", lower_case(*host), *port);
  for (size_t i = 0; keys && i < std::min(keys->size(), kMaxKeys); i++)
    if ((*keys)[i].is_string()) options.state_from.keys.push_back((*keys)[i].get<std::string>());
}

GenerationOptions read_options(JsonFields& fields, const RequestDefaults& defaults, bool chat) {
  GenerationOptions options = read_common_options(fields, fields, defaults);
  refuse_what_is_not_built(fields);
  options.format = read_response_format(fields);
  check_what_is_ignored(fields);
  options.choices = read_choices(fields);
  options.logprobs = read_logprobs(fields, chat);
  read_stop(fields, "stop", options.stop);
  if (const auto most = fields.integer("max_tokens", -1, INT_MAX))
    options.max_tokens = static_cast<int>(*most);
  if (const auto all = fields.integer("max_completion_tokens", -1, INT_MAX)) {
    options.max_tokens = static_cast<int>(*all);
    options.bound = TokenBound::shared;
  }
  check_min_tokens(fields, options);
  read_stream_options(fields, options);
  options.progress = fields.boolean("return_progress").value_or(false);
  read_transfer(fields, options);
  return options;
}

void read_messages(JsonFields& fields, ImageReader& images, Json& messages) {
  const Json* list = fields.array("messages");
  if (!list || list->empty() || list->size() > kMaxMessages) {
    const char* code = list ? "invalid_value" : "missing_required_parameter";
    fields.fail("messages", code,
                fmt::format("'messages' {}must be an array of 1 to {} messages",
                            list ? "" : "is missing: it ", kMaxMessages));
    return;
  }
  const std::vector<bool> kept = kept_messages(*list);
  for (size_t i = 0; i < list->size() && !fields.error(); ++i) {
    if (!has_call_blocks((*list)[i])) {
      messages.push_back(read_message(fields, (*list)[i], i, kept[i], images));
      continue;
    }
    for (const Json& message : without_call_blocks((*list)[i])) {
      if (messages.size() >= kMaxMessages)
        return fields.fail("messages", "invalid_value",
                           fmt::format("'messages' stand for more than {} messages", kMaxMessages));
      messages.push_back(read_message(fields, message, i, kept[i], images));
    }
  }
}

// A string or a list of token ids; nothing for any other value.
std::optional<TextOrTokens> text_or_tokens(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return std::nullopt;
  std::vector<int> ids;
  for (const Json& id : value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT_MAX) return std::nullopt;
    ids.push_back(id.get<int>());
  }
  return ids;
}

// Reads one prompt, or a list of prompts.
void read_prompts(JsonFields& fields, int choices, std::vector<TextOrTokens>& prompts) {
  const Json* value = fields.find("prompt");
  if (!value) return fields.fail("prompt", "missing_required_parameter", "'prompt' is missing");
  const bool list = value->is_array() && !value->empty() && !value->front().is_number();
  const size_t count = list ? value->size() : 1;
  if (count * choices > kMaxAnswers)
    return fields.fail("prompt", "invalid_value",
                       fmt::format("'prompt' asks for {} answers, but a request may ask for {}",
                                   count * choices, kMaxAnswers));
  for (size_t i = 0; i < count; ++i) {
    auto prompt = text_or_tokens(list ? (*value)[i] : *value);
    if (!prompt)
      return fields.fail(list ? fmt::format("prompt[{}]", i) : "prompt", "invalid_type",
                         "'prompt' must be a string, an array of token ids, or an array of these");
    prompts.push_back(std::move(*prompt));
  }
}

}  // namespace

ApiResult<ChatRequest> parse_chat_request(std::string_view body, const RequestDefaults& defaults,
                                          CustomTools* custom) {
  TRY(auto json, parse_body(body));
  return read_chat_request(json, defaults, custom);
}

ApiResult<ChatRequest> read_chat_request(const Json& body, const RequestDefaults& defaults,
                                         CustomTools* custom) {
  JsonFields fields(body);
  ChatRequest request;
  request.options = read_options(fields, defaults, true);
  ImageReader images(defaults.fetch_image, defaults.images);
  read_messages(fields, images, request.messages);
  return finish_chat(fields, std::move(request), custom);
}

ApiResult<CompletionRequest> parse_completion_request(std::string_view body,
                                                      const RequestDefaults& defaults) {
  TRY(auto json, parse_body(body));
  return read_completion_request(json, defaults);
}

ApiResult<CompletionRequest> read_completion_request(const Json& body, const RequestDefaults& defaults) {
  JsonFields fields(body);
  CompletionRequest request;
  request.options = read_options(fields, defaults, false);
  read_prompts(fields, request.options.choices, request.prompts);
  if (const std::string* suffix = fields.string("suffix")) request.suffix = *suffix;
  request.echo = fields.boolean("echo").value_or(false);
  if (request.echo && !request.suffix.empty())
    fields.fail("echo", "unsupported_value", "'echo' beside 'suffix' is not built");
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace anabranch::server
