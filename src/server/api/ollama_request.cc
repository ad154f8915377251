#include "server/api/ollama_request.h"

#include <algorithm>
#include <charconv>
#include <climits>

namespace anabranch::server {
namespace {

// The number at the start of the text, which it is taken from.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::optional<double> take_unit(std::string_view& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                                                            {"s", 1},     {"m", 60},    {"h", 3600}};
  for (const auto& [name, seconds] : kUnits)
    if (text.starts_with(name)) {
      text.remove_prefix(name.size());
      return seconds;
    }
  return std::nullopt;
}

// "1h30m"; a number alone is one of seconds.
std::optional<double> parse_duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.front() == '-') return std::nullopt;
  double seconds = 0;
  bool first = true;
  while (!text.empty()) {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    const auto unit = text.empty() && first ? std::optional(1.0) : take_unit(text);
    if (!unit) return std::nullopt;
    seconds += *number * *unit;
    first = false;
  }
  return negative ? -seconds : seconds;
}

// Ollama's names of "options" that have another name here.
constexpr std::pair<const char*, const char*> kRenamed[] = {{"repeat_penalty", "repetition_penalty"},
                                                            {"repeat_last_n", "repetition_context_size"},
                                                            {"num_predict", "max_tokens"}};
constexpr const char* kSameNames[] = {
    "temperature", "top_p", "top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty"};
// Fields of this server that /api/chat and /api/generate take, too.
constexpr const char* kOurs[] = {"model",
                                 "format",
                                 "think",
                                 "speculation",
                                 "cache",
                                 "cache_salt",
                                 "priority",
                                 "timeout",
                                 "break_loops",
                                 "tools",
                                 "tool_choice",
                                 "thinking_budget",
                                 "chat_template_kwargs",
                                 "logprobs",
                                 "top_logprobs"};

void copy_options(JsonFields& fields, Json& to) {
  const Json* options = fields.object("options");
  if (!options) return;
  JsonFields inner(*options, "options.");
  for (const char* name : kSameNames)
    if (const Json* value = inner.find(name)) to[name] = *value;
  for (const auto& [theirs, ours] : kRenamed)
    if (const Json* value = inner.find(theirs)) to[ours] = *value;
  // -1 and -2: no limit. -1 of the penalty's window: the whole context.
  if (to.contains("max_tokens") && to["max_tokens"].is_number() && to["max_tokens"] < 0)
    to.erase("max_tokens");
  if (to.contains("repetition_context_size") && to["repetition_context_size"] == -1)
    to["repetition_context_size"] = INT_MAX;
  for (const char* name : {"mirostat"}) inner.only(name, {0}, "mirostat is not built");
  inner.only("typical_p", {1, 1.0}, "typical sampling is not built");
  inner.only("tfs_z", {1, 1.0}, "tail-free sampling is not built");
  if (inner.error()) fields.fail(*inner.error());
}

Json common_fields(JsonFields& fields) {
  Json to = Json::object();
  for (const char* name : kOurs)
    if (const Json* value = fields.find(name)) to[name] = *value;
  copy_options(fields, to);
  fields.only("template", {""},
              "the model's own template is used; `serve --chat-template-file` names another");
  return to;
}

// "images" of a message: files in base64, which stand before its text. Noted as request_images.h says; null:
// there are none. where: the message's path, with a period, or "".
Json read_images(JsonFields& fields, const std::string& where, const std::string& role, ImageReader& images) {
  const Json* list = fields.array("images");
  if (list && !list->empty() && role != "user" && role != "tool")
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

// Puts the images of each message, or null, into the chat.
ApiResult<ChatRequest> with_images(ApiResult<ChatRequest> parsed, std::vector<Json> images) {
  if (!parsed) return parsed;
  ChatRequest& chat = *parsed;
  for (size_t i = 0; i < std::min(images.size(), chat.messages.size()); ++i)
    if (!images[i].is_null()) chat.messages[i]["images"] = std::move(images[i]);
  const Json none = Json::object();
  JsonFields fields(none);
  take_images(fields, "messages", chat.messages, chat.images);
  if (fields.error()) return *fields.error();
  return parsed;
}

// Ollama's messages name no calls by ids: results belong to the calls before them, in their order.
class MessageReader {
 public:
  explicit MessageReader(const RequestDefaults& defaults)
      : image_reader_(defaults.fetch_image, defaults.images) {}

  Json read(JsonFields& request, const Json& message, size_t index) {
    const std::string where = fmt::format("messages[{}]", index);
    if (!message.is_object()) {
      request.fail(where, "invalid_type",
                   fmt::format("'{}' must be an object, not {}", where, json_type(message)));
      return nullptr;
    }
    JsonFields fields(message, where + ".");
    images_.push_back(read_images(fields, where + ".", string_at(message, "role"), image_reader_));
    Json out = message;
    out.erase("images");
    if (const std::string* thought = fields.string("thinking")) out["reasoning_content"] = *thought;
    if (const Json* calls = fields.array("tool_calls")) out["tool_calls"] = name_calls(*calls);
    if (out.value("role", Json()) == "tool") name_result(fields, out);
    if (fields.error()) request.fail(*fields.error());
    return out;
  }
  // Of each message that was read; null: none.
  std::vector<Json> take_noted_images() { return std::move(images_); }

 private:
  Json name_calls(const Json& calls) {
    first_open_ = calls_;
    Json out = calls;
    for (Json& call : out) {
      const std::string id = fmt::format("call_{}", calls_++);
      if (!call.is_object()) continue;  // refused by OpenAI's rules
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

  ImageReader image_reader_;
  std::vector<Json> images_;
  size_t calls_ = 0, first_open_ = 0;
  std::vector<std::string> ids_;
};

OllamaRequest read_envelope(JsonFields& fields) {
  OllamaRequest request;
  request.stream = fields.boolean("stream").value_or(true);
  request.keep_s = read_keep_alive(fields);
  return request;
}

template <class Parsed>
ApiResult<OllamaRequest> finish(OllamaRequest request, ApiResult<Parsed> parsed) {
  TRY(auto asks, std::move(parsed));
  asks.options.stream = request.stream;
  request.asks = std::move(asks);
  return request;
}

ApiResult<OllamaRequest> read_chat(JsonFields& fields, const RequestDefaults& defaults) {
  OllamaRequest request = read_envelope(fields);
  Json chat = common_fields(fields);
  const Json* messages = fields.array("messages");
  if (!fields.error() && (!messages || messages->empty())) return request;
  chat["messages"] = Json::array();
  MessageReader reader(defaults);
  for (size_t i = 0; messages && i < messages->size() && !fields.error(); ++i)
    chat["messages"].push_back(reader.read(fields, (*messages)[i], i));
  if (fields.error()) return *fields.error();
  return finish(std::move(request),
                with_images(read_chat_request(chat, defaults), reader.take_noted_images()));
}

// With "raw" the prompt as it is, else as a user's message.
ApiResult<OllamaRequest> read_generate(JsonFields& fields, const RequestDefaults& defaults) {
  OllamaRequest request = read_envelope(fields);
  Json body = common_fields(fields);
  fields.only("suffix", {""}, "filling in the middle is built as /infill");
  const std::string* prompt = fields.string("prompt");
  const std::string* system = fields.string("system");
  const bool raw = fields.boolean("raw").value_or(false);
  ImageReader reader(defaults.fetch_image, defaults.images);
  Json images = read_images(fields, "", "user", reader);
  if (raw && !images.is_null())
    fields.fail("images", "unsupported_value", "'images' beside 'raw' is not built");
  if (fields.error()) return *fields.error();
  if (!prompt || prompt->empty()) return request;
  if (raw) {
    body["prompt"] = *prompt;
    if (body.contains("logprobs") && body["logprobs"] == true)
      body["logprobs"] = body.value("top_logprobs", Json(0));
    return finish(std::move(request), read_completion_request(body, defaults));
  }
  body["messages"] = Json::array();
  if (system && !system->empty()) body["messages"].push_back({{"role", "system"}, {"content", *system}});
  body["messages"].push_back({{"role", "user"}, {"content", *prompt}});
  std::vector<Json> noted(body["messages"].size());
  noted.back() = std::move(images);
  return finish(std::move(request), with_images(read_chat_request(body, defaults), std::move(noted)));
}

}  // namespace

std::optional<double> read_keep_alive(JsonFields& fields) {
  const Json* value = fields.find("keep_alive");
  if (!value) return std::nullopt;
  const auto seconds = value->is_number()   ? std::optional(value->get<double>())
                       : value->is_string() ? parse_duration(value->get_ref<const std::string&>())
                                            : std::nullopt;
  if (!seconds)
    fields.fail("keep_alive", "invalid_value",
                fmt::format("'keep_alive' must be a number of seconds or a duration such as \"5m\", not {}",
                            value->dump()));
  return seconds;
}

ApiResult<OllamaRequest> parse_ollama_request(std::string_view body, bool generate,
                                              const RequestDefaults& defaults) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  return generate ? read_generate(fields, defaults) : read_chat(fields, defaults);
}

}  // namespace anabranch::server
