#include "server/api/openai/request.h"

#include "base/lower_case.h"
#include "chat/call_arguments.h"
#include "server/api/adapter_fields.h"
#include "server/api/content_parts.h"
#include "server/api/continuation_fields.h"
#include "server/api/format_fields.h"
#include "server/api/sampler_fields.h"
#include "server/api/thinking_fields.h"
#include "server/http/target.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>

namespace anabranch::server {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 4096;

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

void read_sampling(JsonFields& fields, GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  if (auto v = fields.number("temperature", 0, 100)) sampling.temperature = static_cast<float>(*v);
  if (auto v = fields.number("top_p", 0, 1)) sampling.top_p = static_cast<float>(*v);
  if (auto v = fields.number("min_p", 0, 1)) sampling.min_p = static_cast<float>(*v);
  if (auto v = fields.integer("top_k", -1, INT_MAX)) sampling.top_k = std::max(0, static_cast<int>(*v));
  if (sampling.top_p <= 0) {  // keep the most likely token only
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  if (auto v = fields.integer("seed", INT64_MIN, INT64_MAX)) options.seed = static_cast<uint64_t>(*v);
}

void read_penalties(JsonFields& fields, SamplingParams& sampling) {
  if (auto v = fields.number("presence_penalty", -2, 2)) sampling.presence_penalty = static_cast<float>(*v);
  if (auto v = fields.number("frequency_penalty", -2, 2)) sampling.frequency_penalty = static_cast<float>(*v);
}

// Reads "logit_bias": {"token id": bias}.
void read_logit_bias(JsonFields& fields, int vocab_size, SamplingParams& sampling) {
  const Json* map = fields.object("logit_bias");
  if (!map) return;
  for (const auto& [key, value] : map->items()) {
    int id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab_size)
      return fields.fail("logit_bias", "invalid_value",
                         fmt::format("'logit_bias' names {}, which is no token id: they go from 0 to {}",
                                     Json(key).dump(), vocab_size - 1));
    const double bias = value.is_number() ? value.get<double>() : NAN;
    if (!(bias >= -100 && bias <= 100))
      return fields.fail(
          fmt::format("logit_bias.{}", key), value.is_number() ? "invalid_value" : "invalid_type",
          fmt::format("'logit_bias.{}' must be a number between -100 and 100, not {}", key, value.dump()));
    for (const auto& other : sampling.logit_bias)
      if (other.first == id)  // "7" and "007"
        return fields.fail("logit_bias", "invalid_value",
                           fmt::format("'logit_bias' names token {} twice", id));
    sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
}

// "speculation": "auto", "off" or a draft source; or {"source": one of these, "depth": tokens to draft per
// round (with "auto": at most)}.
void read_speculation(JsonFields& fields, const std::vector<DraftSource>& sources,
                      std::optional<SpecMode>& mode) {
  const Json* value = fields.find("speculation");
  if (!value) return;
  const auto fail = [&](const std::string& message) {
    fields.fail("speculation", "invalid_value", "'speculation': " + message);
  };
  const Json object = value->is_object() ? *value : Json{{"source", *value}};
  JsonFields inner(object, "speculation.");
  const std::string* name = inner.string("source");
  const auto depth = inner.integer("depth", 1, kMaxDraft);
  if (inner.error()) return fields.fail(*inner.error());
  const auto parsed = parse_spec_mode(name ? *name : "auto", static_cast<int>(depth.value_or(0)));
  if (!parsed) return fail(parsed.error().message);
  mode = *parsed;
  if (mode->automatic || mode->source == DraftSource::none) return;
  if (std::find(sources.begin(), sources.end(), mode->source) == sources.end())
    fail(fmt::format("the model was not loaded with what \"{}\" needs", *name));
}

// mlx_lm.server's fields "draft_model" and "num_draft_tokens". There is at most one loaded draft model.
void read_draft_model(JsonFields& fields, const std::string& loaded, std::optional<SpecMode>& mode) {
  const std::string* name = fields.string("draft_model");
  if (name && *name != "default_model" && (loaded.empty() || *name != loaded))
    fields.fail("draft_model", "unsupported_value",
                fmt::format("'draft_model' is {}, but {}", Json(*name).dump(),
                            loaded.empty() ? "none is loaded (serve --draft)" : loaded + " is loaded"));
  const auto depth = fields.integer("num_draft_tokens", 0, INT_MAX);
  if (!depth || mode) return;
  mode = SpecMode{};
  mode->automatic = *depth > 0;
  mode->depth = static_cast<int>(std::min<int64_t>(*depth, kMaxDraft));
}

LoopRule read_loops(JsonFields& fields) {
  const Json* value = fields.find("break_loops");
  if (value && *value == "near") return LoopRule::near;
  if (value && !value->is_boolean())
    fields.fail("break_loops", "invalid_value", "'break_loops' must be true, false or \"near\"");
  return value && *value == false ? LoopRule::none : LoopRule::exact;
}

// space: see RequestDefaults.
void read_cache(JsonFields& fields, const std::string& space, GenerationOptions& options) {
  constexpr size_t kMaxSalt = 1024;
  options.cache = fields.boolean("cache").value_or(true);
  // JSON is UTF-8, which has no byte 0xFF: no client can send a salt that equals one made here.
  if (!space.empty()) options.cache_salt = fmt::format("\xff{}\xff", space);
  const std::string* salt = fields.string("cache_salt");
  if (!salt) return;
  if (salt->size() > kMaxSalt)
    fields.fail("cache_salt", "invalid_value",
                fmt::format("'cache_salt' has {} bytes, but may have {}", salt->size(), kMaxSalt));
  options.cache_salt += *salt;
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

// Adds the content to `result` as one string; text parts of an array are joined, and null or no content is an
// empty string. An assistant's refusal counts as text. Images are noted beside the text. Other parts of a
// kept message become placeholders.
void read_content(JsonFields& message, const Json* content, const std::string& where, const std::string& role,
                  bool kept, ImageReader& images, Json& result) {
  result["content"] = content && content->is_string() ? *content : Json("");
  if (!content || content->is_string()) return;
  if ((role == "tool" || kept) && !content->is_array()) {
    result["content"] = dump_json(*content);
    return;
  }
  if (!content->is_array())
    return message.fail(
        "content", "invalid_type",
        fmt::format("'{}content' must be a string or an array of parts, not {}", where, json_type(*content)));
  const bool takes_images =
      (role == "user" && !kept) || ((role == "user" || role == "tool") && images.in_results());
  const auto add_text = [&](const std::string& text) { result["content"].get_ref<std::string&>() += text; };
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    const std::string name = fmt::format("content[{}]", i);
    if (!part.is_object())
      return message.fail(name, "invalid_type",
                          fmt::format("'{}{}' must be an object, not {}", where, name, json_type(part)));
    JsonFields fields(part, where + name + ".");
    const std::string* type = fields.string("type");
    if (type && (*type == "text" || (role == "assistant" && *type == "refusal"))) {
      add_text(fields.required_string(type->c_str()));  // the field has the same name as the type
    } else if (type && *type == "image_url" && takes_images) {
      images.add_part(fields, where + name, part, result);
    } else if (type && kept) {
      add_text(shown_text(part));
    } else if (!fields.error()) {
      fields.fail("type", type ? "unsupported_value" : "missing_required_parameter",
                  fmt::format("'{}{}': only parts of type {} are supported (no audio or files)", where, name,
                              takes_images ? "\"text\" and \"image_url\"" : "\"text\""));
    }
    if (fields.error()) return message.fail(*fields.error());
  }
}

// Names of roles from other times of the API.
std::string usual_role(const std::string& role) {
  if (role == "developer") return "system";
  return role == "function" ? "tool" : role;
}

Json read_tool_calls(JsonFields& message, const Json& calls, const std::string& where) {
  Json result = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string name = fmt::format("tool_calls[{}]", i);
    const Json call = as_function_call(calls[i]);
    const Json* function = call.is_object() ? JsonFields(call).find("function") : nullptr;
    const Json* called = function && function->is_object() ? JsonFields(*function).find("name") : nullptr;
    if (!called || !called->is_string()) {
      message.fail(name, "invalid_value",
                   fmt::format("'{}{}' must be {{\"id\", \"type\": \"function\", \"function\": {{\"name\", "
                               "\"arguments\"}}}}",
                               where, name));
      return result;
    }
    const Json* arguments = JsonFields(*function).find("arguments");
    Json copy = Json::object();
    if (call.contains("id")) copy["id"] = call["id"];
    copy["type"] = "function";
    copy["function"] = {{"name", *called}, {"arguments", read_arguments(arguments ? *arguments : Json())}};
    result.push_back(std::move(copy));
  }
  return result;
}

}  // namespace

Json read_message(JsonFields& request, const Json& message, size_t index, bool kept, ImageReader& images) {
  const std::string where = fmt::format("messages[{}].", index);
  Json result = Json::object();
  if (!message.is_object()) {
    request.fail(fmt::format("messages[{}]", index), "invalid_type",
                 fmt::format("'messages[{}]' must be an object, not {}", index, json_type(message)));
    return result;
  }
  JsonFields fields(message, where);
  const std::string* role = fields.string("role");
  if (!role && !fields.error())
    fields.fail("role", "missing_required_parameter", fmt::format("'{}role' is missing", where));
  if (role) {
    const std::string name = usual_role(*role);
    if (name != "system" && name != "user" && name != "assistant" && name != "tool")
      fields.fail("role", "invalid_value",
                  fmt::format("'{}role' is '{}', but must be system, developer, user, assistant or tool",
                              where, *role));
    result["role"] = name;
  }
  const Json* content = fields.find("content");
  const Json* calls = fields.array("tool_calls");
  if (!kept) fields.only("audio", {}, "only text is built");
  if (!content && !kept && role && *role == "user")
    fields.fail("content", "missing_required_parameter", fmt::format("'{}content' is missing", where));
  images.set_kept(kept);
  read_content(fields, content, where, string_at(result, "role"), kept, images, result);
  const bool assistant = role && *role == "assistant";
  if (const std::string* refusal = assistant ? fields.string("refusal") : nullptr; refusal && !content)
    result["content"] = *refusal;
  const std::string* reasoning = fields.string("reasoning_content");
  if (!reasoning) reasoning = fields.string("reasoning");
  if (reasoning) result["reasoning_content"] = *reasoning;
  for (const char* name : {"name", "tool_call_id"})
    if (const std::string* text = fields.string(name)) result[name] = *text;
  if (calls && !calls->empty()) result["tool_calls"] = read_tool_calls(fields, *calls, where);
  if (const Json* call = fields.object("function_call"); call && !result.contains("tool_calls"))
    result["tool_calls"] = read_tool_calls(fields, Json::array({{{"function", *call}}}), where);
  if (fields.error()) request.fail(*fields.error());
  return result;
}

namespace {

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
  for (size_t i = 0; i < list->size() && !fields.error(); ++i)
    messages.push_back(read_message(fields, (*list)[i], i, kept[i], images));
}

void read_template_options(JsonFields& fields, TemplateOptions& chat) {
  if (const Json* extra = fields.object("chat_template_kwargs")) {
    for (const auto& [key, value] : extra->items()) {
      if (key == "messages" || key == "tools" || key == "bos_token" || key == "eos_token")
        fields.fail("chat_template_kwargs." + key, "invalid_value",
                    fmt::format("'chat_template_kwargs' cannot replace '{}'", key));
      else if (key != "enable_thinking" && key != "add_generation_prompt")
        chat.extra.push_back({key, value});
    }
    JsonFields inner(*extra, "chat_template_kwargs.");
    chat.add_generation_prompt = inner.boolean("add_generation_prompt").value_or(true);
    if (inner.error()) fields.fail(*inner.error());
  }
  if (const auto opening = fields.boolean("add_generation_prompt")) chat.add_generation_prompt = *opening;
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

RequestDefaults request_defaults(const Engine& engine, const SamplingParams& sampling,
                                 const ThinkingWish& thinking) {
  const ModelInfo& info = engine.info();
  return {sampling, info.draft_sources, engine.tokenizer().vocab_size(),
          thinking, info.draft_model,   info.images,
          {}};
}

ApiResult<Json> parse_body(std::string_view body) {
  auto parsed = parse_json(body, {.bytes = body.size()});  // the HTTP server limits the body's size
  if (!parsed.ok())
    return ApiError{400, "The request body is not valid: " + parsed.error().message, "", "invalid_json"};
  if (!parsed.value().is_object())
    return ApiError{400,
                    fmt::format("The request body must be a JSON object, not {}", json_type(parsed.value())),
                    "", "invalid_type"};
  return std::move(parsed).value();
}

void check_timeout(JsonFields& fields) {
  constexpr double kLeast = 1e-3, kMost = 86400;
  fields.number("timeout", kLeast, kMost);
}

GenerationOptions read_common_options(JsonFields& fields, JsonFields& samplers,
                                      const RequestDefaults& defaults) {
  GenerationOptions options;
  options.sampling = defaults.sampling;
  fields.string("model");  // only checked: the model was chosen before (model_pool.h)
  read_sampling(fields, options);
  read_penalties(fields, options.sampling);
  read_samplers(samplers, defaults.vocab_size, options);
  if (samplers.error()) fields.fail(*samplers.error());
  read_logit_bias(fields, defaults.vocab_size, options.sampling);
  options.thinking = complete(read_thinking(fields), defaults.thinking);
  options.loops = read_loops(fields);
  read_speculation(fields, defaults.draft_sources, options.speculation);
  read_draft_model(fields, defaults.draft_model, options.speculation);
  options.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  options.priority = static_cast<int>(fields.integer("priority", INT_MIN, INT_MAX).value_or(0));
  check_timeout(fields);
  read_cache(fields, defaults.cache_space, options);
  apply_adapters(options, read_adapters(fields, defaults.adapters));
  // -1: any slot.
  options.slot = static_cast<int>(std::max<int64_t>(0, fields.integer("id_slot", -1, INT_MAX).value_or(0)));
  options.stream = fields.boolean("stream").value_or(false);
  return options;
}

// "logprobs" is a boolean with "top_logprobs" beside it (mlx_lm.server's default for that is -1: none). In
// text completions "logprobs" may also be the number of alternatives.
int read_logprobs(JsonFields& fields, bool chat) {
  const Json* value = fields.find("logprobs");
  if (!chat && value && !value->is_boolean())
    return static_cast<int>(fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1));
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = std::max<int64_t>(0, fields.integer("top_logprobs", -1, kMaxLogprobs).value_or(0));
  if (top > 0 && !wanted)
    fields.fail("top_logprobs", "invalid_value", "'top_logprobs' needs 'logprobs': true");
  return wanted ? static_cast<int>(top) : -1;
}

void read_stop(JsonFields& fields, const char* name, std::vector<std::string>& stop) {
  const Json* value = fields.find(name);
  if (!value) return;
  if (!value->is_string() && !value->is_array()) {
    fields.fail(name, "invalid_type",
                fmt::format("'{}' must be a string or an array of strings, not {}", fields.named(name),
                            json_type(*value)));
    return;
  }
  if (*value == "") return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxStops)
    fields.fail(name, "invalid_value",
                fmt::format("'{}' has {} entries, but at most {} are allowed", fields.named(name),
                            list.size(), kMaxStops));
  size_t index = 0;
  for (const Json& entry : list) {
    if (fields.error()) return;
    const std::string where = fmt::format("{}[{}]", name, index++);
    if (!entry.is_string()) {
      fields.fail(where, "invalid_type",
                  fmt::format("'{}' must be a string, not {}", fields.named(where), json_type(entry)));
      return;
    }
    const auto& text = entry.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes)
      fields.fail(where, "invalid_value",
                  fmt::format("'{}' has {} bytes, but must have 1 to {}", fields.named(where), text.size(),
                              kMaxStopBytes));
    stop.push_back(text);
  }
}

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

ApiResult<ChatRequest> finish_chat(JsonFields& fields, ChatRequest request, CustomTools* custom) {
  read_chat_tools(fields, request, custom);
  check_tool_choice(fields, request.tool_choice, request.tools);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  read_template_options(fields, request.chat);
  if (fields.error()) return *fields.error();
  request.continuation = read_continuation(fields, request.messages, request.tool_choice);
  if (request.continuation) request.chat.add_generation_prompt = true;
  take_images(fields, "messages", request.messages, request.images);
  if (fields.error()) return *fields.error();
  return request;
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
