#include "server/api/ollama/request.h"

#include <algorithm>
#include <climits>

#include "server/api/chat_fields.h"
#include "server/api/content_parts.h"
#include "server/api/format_fields.h"
#include "server/api/keep_alive.h"
#include "server/api/sampler_fields.h"

namespace anabranch::server {
namespace {

// Ollama's own fields, those of "options", and fields of this server that /api/chat and /api/generate also
// take.
constexpr FieldName kNames[] = {{"messages", "messages"},
                                {"prompt", "prompt"},
                                {"system", "system"},
                                {"suffix", "suffix"},
                                {"raw", "raw"},
                                {"images", "images"},
                                {"template", "template"},
                                {"keep_alive", "keep_alive"},
                                {"stream", "stream"},
                                {"truncate", "truncate"},
                                {"options", "options"},
                                {"model", "model"},
                                {"format", "format"},
                                {"think", "think"},
                                {"tools", "tools"},
                                {"logprobs", "logprobs"},
                                {"top_logprobs", "top_logprobs"},
                                {"temperature", "options.temperature"},
                                {"top_p", "options.top_p"},
                                {"top_k", "options.top_k"},
                                {"min_p", "options.min_p"},
                                {"seed", "options.seed"},
                                {"stop", "options.stop"},
                                {"presence_penalty", "options.presence_penalty"},
                                {"frequency_penalty", "options.frequency_penalty"},
                                {"max_tokens", "options.num_predict"},
                                {"speculation", "speculation"},
                                {"cache", "cache"},
                                {"cache_salt", "cache_salt"},
                                {"lora", "lora"},
                                {"priority", "priority"},
                                {"timeout", "timeout"},
                                {"break_loops", "break_loops"},
                                {"tool_choice", "tool_choice"},
                                {"thinking_budget", "thinking_budget"},
                                {"chat_template_kwargs", "chat_template_kwargs"}};

GenerationOptions read_options(JsonFields& fields, const RequestDefaults& defaults) {
  static const Json none = Json::object();
  const Json* given = fields.object("options");
  JsonFields inner(given ? *given : none, "options.");
  GenerationOptions options = read_common_options(fields, inner, defaults);
  options.format = read_response_format(fields);
  options.logprobs = read_logprobs(fields, true);
  read_stop(fields, "stop", options.stop);
  // Negative: no limit.
  if (const auto most = fields.integer("max_tokens", INT_MIN, INT_MAX)) {
    options.max_tokens = std::max(-1, static_cast<int>(*most));
    options.bound = TokenBound::shared;
  }
  check_min_tokens(inner, options);
  if (inner.error()) fields.fail(*inner.error());
  fields.only("template", {""},
              "the model's own template is used; `serve --chat-template-file` names another");
  return options;
}

// "images" of a message: files in base64, placed before its text. Noted as request_images.h says; null: there
// are none. where: the message's path, with a period, or "". kept: see kept_messages().
Json read_images(JsonFields& fields, const std::string& where, const std::string& role, bool kept,
                 ImageReader& images) {
  const Json* list = fields.array("images");
  const bool placed = role == "user" || role == "tool";
  if (kept && !(placed && images.in_results())) return nullptr;
  if (list && !list->empty() && !placed)
    fields.fail("images", "unsupported_value",
                fmt::format("'{}images': only messages of the roles user and tool have images", where));
  Json noted = {{"content", ""}};
  for (size_t i = 0; list && i < list->size() && !fields.error(); ++i) {
    const std::string field = fmt::format("{}images[{}]", where, i);
    const auto* base64 = (*list)[i].get_ptr<const std::string*>();
    if (base64)
      images.add_base64(fields, field, "image/*", *base64, noted);
    else
      fields.fail(ApiError{400, fmt::format("'{}' must be a string", field), field, "invalid_type"});
  }
  return noted.value("images", Json());
}

// images: from read_images(). They are put before the message's other images.
void add_images(Json& message, Json images) {
  if (images.is_null() || !message.is_object()) return;
  if (message.contains("images"))
    for (Json& image : message["images"]) images.push_back(std::move(image));
  message["images"] = std::move(images);
}

// Ollama's messages have no call ids: results belong to the calls before them, in order.
class MessageReader {
 public:
  explicit MessageReader(ImageReader& images) : images_(images) {}

  Json read(JsonFields& request, const Json& message, size_t index, bool kept) {
    const std::string where = fmt::format("messages[{}]", index);
    if (!message.is_object()) {
      request.fail(where, "invalid_type",
                   fmt::format("'{}' must be an object, not {}", where, json_type(message)));
      return nullptr;
    }
    JsonFields fields(message, where + ".");
    Json images = read_images(fields, where + ".", string_at(message, "role"), kept, images_);
    Json out = message;
    out.erase("images");
    if (!fields.find("content")) out["content"] = "";
    if (kept && images.is_null()) name_images(message, out);
    if (const std::string* thought = fields.string("thinking")) out["reasoning_content"] = *thought;
    if (const Json* calls = fields.array("tool_calls")) out["tool_calls"] = name_calls(*calls);
    if (out.value("role", Json()) == "tool") name_result(fields, out);
    if (fields.error()) request.fail(*fields.error());
    out = read_message(request, out, index, kept, images_);
    add_images(out, std::move(images));
    return out;
  }

 private:
  // Puts a placeholder before the text for each image that is not read.
  static void name_images(const Json& message, Json& out) {
    const auto list = message.find("images");
    if (list == message.end() || !list->is_array() || list->empty()) return;
    std::string text;
    for (size_t i = 0; i < list->size(); ++i) add_line(text, shown_text({{"type", "image"}}));
    if (const std::string own = string_at(message, "content"); !own.empty()) add_line(text, own);
    out["content"] = std::move(text);
  }

  Json name_calls(const Json& calls) {
    first_open_ = calls_;
    Json out = calls;
    for (Json& call : out) {
      const std::string id = fmt::format("call_{}", calls_++);
      if (!call.is_object()) continue;  // read_message() refuses it
      if (string_at(call, "id").empty()) call["id"] = id;
      ids_.push_back(string_at(call, "id"));
    }
    return out;
  }
  void name_result(JsonFields& fields, Json& out) {
    if (const std::string* name = fields.string("tool_name")) out["name"] = *name;
    if (!string_at(out, "tool_call_id").empty()) return;
    out["tool_call_id"] = first_open_ < ids_.size() ? ids_[first_open_] : "";
    first_open_++;
  }

  ImageReader& images_;
  size_t calls_ = 0, first_open_ = 0;
  std::vector<std::string> ids_;
};

OllamaRequest read_envelope(JsonFields& fields) {
  OllamaRequest request;
  request.stream = fields.boolean("stream").value_or(true);
  request.truncate = fields.boolean("truncate").value_or(true);
  request.keep_s = read_keep_alive(fields);
  return request;
}

ApiResult<OllamaRequest> finish(JsonFields& fields, OllamaRequest request, ChatRequest chat) {
  chat.options.stream = request.stream;
  TRY(request.asks, finish_chat(fields, std::move(chat)));
  return request;
}

ApiResult<OllamaRequest> read_chat(JsonFields& fields, const RequestDefaults& defaults) {
  OllamaRequest request = read_envelope(fields);
  ChatRequest chat;
  chat.options = read_options(fields, defaults);
  const Json* messages = fields.array("messages");
  if (messages && messages->size() > kMaxMessages)
    fields.fail("messages", "invalid_value",
                fmt::format("'messages' must have at most {} messages", kMaxMessages));
  ImageReader images(defaults.fetch_image, defaults.images);
  MessageReader reader(images);
  const std::vector<bool> kept = messages ? kept_messages(*messages) : std::vector<bool>();
  for (size_t i = 0; i < kept.size() && !fields.error(); ++i)
    chat.messages.push_back(reader.read(fields, (*messages)[i], i, kept[i]));
  if (fields.error()) return *fields.error();
  if (chat.messages.empty()) return request;
  return finish(fields, std::move(request), std::move(chat));
}

// Reads the body of /api/generate. With "raw" the prompt is used as it is, otherwise as a user's message.
ApiResult<OllamaRequest> read_generate(JsonFields& fields, const RequestDefaults& defaults) {
  OllamaRequest request = read_envelope(fields);
  GenerationOptions options = read_options(fields, defaults);
  fields.only("suffix", {""}, "filling in the middle is built as /infill");
  const std::string* prompt = fields.string("prompt");
  const std::string* system = fields.string("system");
  const bool raw = fields.boolean("raw").value_or(false);
  ImageReader reader(defaults.fetch_image, defaults.images);
  Json images = read_images(fields, "", "user", false, reader);
  if (raw && !images.is_null())
    fields.fail("images", "unsupported_value", "'images' beside 'raw' is not built");
  if (fields.error()) return *fields.error();
  if (!prompt || prompt->empty()) return request;
  if (raw) {
    CompletionRequest completion;
    completion.options = std::move(options);
    completion.options.stream = request.stream;
    completion.prompts.emplace_back(*prompt);
    request.asks = std::move(completion);
    return request;
  }
  ChatRequest chat;
  chat.options = std::move(options);
  if (system && !system->empty()) chat.messages.push_back({{"role", "system"}, {"content", *system}});
  Json message = {{"role", "user"}, {"content", *prompt}};
  add_images(message, std::move(images));
  chat.messages.push_back(std::move(message));
  return finish(fields, std::move(request), std::move(chat));
}

}  // namespace

ApiResult<OllamaRequest> parse_ollama_request(std::string_view body, bool generate,
                                              const RequestDefaults& defaults) {
  TRY(const auto json, parse_body(body));
  JsonFields fields(json, kNames);
  return generate ? read_generate(fields, defaults) : read_chat(fields, defaults);
}

}  // namespace anabranch::server
