#include "server/api/responses/request.h"

#include <algorithm>
#include <set>

#include "server/api/chat_fields.h"
#include "server/api/content_parts.h"
#include "server/api/format_fields.h"
#include "server/api/responses/client_tools.h"
#include "server/api/responses/compaction.h"
#include "server/api/responses/decisions.h"
#include "server/api/responses/items.h"
#include "server/api/sampler_fields.h"
#include "server/api/session_json.h"
#include "server/api/shorten.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxMetadata = 64 << 10;  // bytes of JSON

bool is_compaction(const Json& item) {
  const std::string type = string_at(item, "type");
  return type == "compaction" || type == "compaction_summary";
}

// Adds items to a conversation of chat messages. The items of one assistant turn become one message.
class ItemReader {
 public:
  ItemReader(JsonFields& request, ResponseContext& context, const std::string& owner, ImageReader& images,
             Json& messages)
      : request_(request), context_(context), owner_(owner), images_(images), messages_(messages) {}

  // kept: see kept_messages().
  void read(const Json& item, bool kept, const std::string& where) {
    kept_ = kept;
    images_.set_kept(kept);
    if (!item.is_object())
      return request_.fail(where, "invalid_type",
                           fmt::format("'{}' must be an object, not {}", where, json_type(item)));
    JsonFields fields(item, where + ".");
    const std::string* given = fields.string("type");
    const std::string type = given ? *given : "message";
    if (type == "message")
      read_message(fields, where);
    else if (type == "mcp_approval_response")
      read_approval(fields);
    else if (type == "mcp_call")
      read_run_call(item);
    else if (type == "reasoning")
      read_reasoning(fields);
    else if (const Json call = call_of(item); !call.is_null())
      assistant(false)["tool_calls"].push_back(call);
    else if (type.ends_with("_output"))
      read_output(fields, item, where);
    else if (type == "item_reference")
      fields.fail(
          "id", "unsupported_value",
          "only the 'input' of a request for an answer may refer to items: send the items themselves");
    else if (is_compaction(item))
      messages_.push_back(message_of_compaction(item, context_.sealer, owner_));
    // Other items (web_search_call, image_generation_call, ...) belong to tools that only OpenAI's servers
    // run.
    if (fields.error()) request_.fail(*fields.error());
  }

  const Decisions& decisions() const { return decisions_; }

 private:
  void read_approval(JsonFields& fields) {
    const std::string id = fields.required_string("approval_request_id");
    const auto approve = fields.boolean("approve");
    const std::string* reason = fields.string("reason");
    if (!approve) fields.fail("approve", "missing_required_parameter", "'approve' must be true or false");
    if (fields.error()) return;
    auto& decision = decisions_[call_id_with("call_", id)];
    if (!*approve) decision = reason ? *reason : "";
  }

  // A call that this server has run, with its result. The calls of one turn follow each other.
  void read_run_call(const Json& item) {
    const Json call = call_of(item);
    size_t at = messages_.size();
    while (at > 0 && messages_[at - 1]["role"] == "tool" &&
           run_here_.contains(messages_[at - 1]["tool_call_id"]))
      --at;
    const bool first = at == messages_.size() || at == 0;
    Json& calls = (first ? assistant(false) : messages_[at - 1])["tool_calls"];
    // A request for its approval, which may come before it, is the same call.
    if (std::ranges::none_of(calls, [&](const Json& other) { return other["id"] == call["id"]; }))
      calls.push_back(call);
    const std::string error = string_at(item, "error");
    messages_.push_back(
        {{"role", "tool"},
         {"content", mcp::text_for_model(!error.empty(), error.empty() ? string_at(item, "output") : error)},
         {"tool_call_id", call["id"]}});
    run_here_.insert(call["id"]);
  }

  // The assistant message that is being built. fresh: it must have no answer yet.
  Json& assistant(bool fresh) {
    const bool open =
        !messages_.empty() && messages_.back()["role"] == "assistant" &&
        !(fresh && (messages_.back()["content"] != "" || messages_.back().contains("tool_calls")));
    if (!open) messages_.push_back({{"role", "assistant"}, {"content", ""}});
    return messages_.back();
  }

  // {"role", "content"}, with the images beside the text.
  Json read_parts(JsonFields& fields, const std::string& role, const Json& content,
                  const std::string& where) {
    Json message = {{"role", role}, {"content", content.is_string() ? content : Json("")}};
    if (content.is_string()) return message;
    if (!content.is_array())
      fields.fail(
          "content", "invalid_type",
          fmt::format("'{}' must be a string or an array of parts, not {}", where, json_type(content)));
    const bool takes_images =
        (role == "user" && !kept_) || ((role == "user" || role == "tool") && images_.in_results());
    const auto add_text = [&](const std::string& text) {
      message["content"].get_ref<std::string&>() += text;
    };
    for (size_t i = 0; content.is_array() && i < content.size() && !fields.error(); ++i) {
      const Json& part = content[i];
      const std::string type = part.is_object() ? string_at(part, "type") : "";
      if (type == "input_text" || type == "output_text" || type == "text" || type == "summary_text")
        add_text(string_at(part, "text"));
      else if (type == "refusal")
        add_text(string_at(part, "refusal"));
      else if (type == "input_image" && takes_images && !(kept_ && JsonFields(part).find("file_id")))
        read_image(fields, part, fmt::format("{}[{}]", where, i), message);
      else if (kept_)
        add_text(shown_text(part));
      else
        fields.fail("content", "unsupported_value",
                    fmt::format("'{}[{}]': only parts of type {} are supported (no audio or files)", where, i,
                                role == "assistant" ? "\"output_text\""
                                : takes_images      ? "\"input_text\" and \"input_image\""
                                                    : "\"input_text\""));
    }
    return message;
  }

  void read_image(JsonFields& fields, const Json& part, const std::string& where, Json& message) {
    if (JsonFields(part).find("file_id"))
      return fields.fail(
          ApiError{400,
                   fmt::format("'{}.file_id': files are not kept here: send the image itself as "
                               "'image_url' (data:image/png;base64,...)",
                               where),
                   where + ".file_id", "unsupported_value"});
    images_.add_part(fields, where, part, message);
  }

  void read_message(JsonFields& fields, const std::string& where) {
    std::string role = fields.required_string("role");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      fields.fail(
          "role", "invalid_value",
          fmt::format("'{}.role' is '{}', but must be user, assistant, system or developer", where, role));
    const Json* content = fields.find("content");
    if (!content && !kept_ && role == "user")
      fields.fail("content", "missing_required_parameter", fmt::format("'{}.content' is missing", where));
    if (fields.error()) return;
    Json message = read_parts(fields, role, content ? *content : Json(""), where + ".content");
    if (role == "assistant")
      assistant(true)["content"] = std::move(message["content"]);
    else
      messages_.push_back(std::move(message));
  }

  // A thought that this server sealed, or its plain text. Summaries are for people and not read.
  void read_reasoning(JsonFields& fields) {
    std::string thought;
    if (const Json* content = fields.array("content"))
      for (const Json& part : *content)
        if (part.is_object()) thought += string_at(part, "text");
    if (thought.empty())
      if (const std::string* sealed = fields.string("encrypted_content"))
        thought = context_.sealer.open(*sealed, kSealedThought, owner_).value_or("");
    if (!thought.empty()) assistant(true)["reasoning_content"] = std::move(thought);
  }

  void read_output(JsonFields& fields, const Json& item, const std::string& where) {
    Json message = {{"role", "tool"}, {"content", ""}};
    const bool shell = string_at(item, "type") == "local_shell_call_output" && !fields.find("call_id");
    message["tool_call_id"] = fields.required_string(shell ? "id" : "call_id");
    const Json* output = fields.find("output");
    if (auto text = client_result(item))
      message["content"] = std::move(*text);
    else if (output && output->is_object())
      message["content"] = dump_json(*output);
    else if (output)
      message.update(read_parts(fields, "tool", *output, where + ".output"));
    messages_.push_back(std::move(message));
  }

  JsonFields& request_;
  ResponseContext& context_;
  const std::string& owner_;
  ImageReader& images_;
  Json& messages_;
  bool kept_ = false;
  Decisions decisions_;
  std::set<std::string> run_here_;  // ids of calls
};

void refuse_what_is_not_built(JsonFields& fields) {
  fields.only("background", {false}, "answers in the background are not built; ask for a stream");
  fields.only("prompt", {}, "stored prompts are not built; send the text as 'instructions' and 'input'");
  fields.only("truncation", {"auto", "disabled"}, "it must be auto or disabled");
}

// The place in a stored conversation from which the request continues.
struct Place {
  SessionStore* store = nullptr;  // null: a new conversation
  std::string session;
  MessageId parent = kNoMessage;
};

ApiError no_response(const std::string& id) {
  return {404, fmt::format("There is no stored response '{}' here", id), "previous_response_id",
          "previous_response_not_found"};
}

Place place_of_response(JsonFields& fields, ResponseContext& context, const std::string& owner,
                        const std::string& id) {
  const auto store = context.stores->of_response(owner, id);
  const auto response = store ? (*store)->find_response(owner, id) : store.error();
  if (!response) {
    fields.fail(response.error().kind == ErrorKind::not_found ? no_response(id)
                                                              : session_error(response.error()));
    return {};
  }
  return {*store, response->session, response->message};
}

// "conversation": a session's id, or {"id", "parent"} to continue from another message than its head.
Place place_of_conversation(JsonFields& fields, ResponseContext& context, const std::string& owner,
                            const Json& given) {
  const std::string id = given.is_string() ? given.get<std::string>() : string_at(given, "id");
  if (id.empty()) {
    fields.fail("conversation", "invalid_type", "'conversation' must be an id, or an object with one");
    return {};
  }
  const auto store = context.stores->of_session(owner, id);
  const auto session = store ? (*store)->find(owner, id) : store.error();
  if (!session) {
    ApiError error = session_error(session.error());
    if (error.status == 404) error.code = "conversation_not_found";
    error.param = "conversation";
    fields.fail(error);
    return {};
  }
  Place place{*store, id, session->head};
  const auto parent = given.find("parent");
  if (!given.is_object() || parent == given.end()) return place;
  const auto message = parent->is_null()     ? std::optional(kNoMessage)
                       : parent->is_string() ? message_id(parent->get<std::string>())
                                             : std::nullopt;
  if (!message)
    fields.fail("conversation", "invalid_value",
                "'conversation.parent' must be a message's id, such as msg_12");
  place.parent = message.value_or(kNoMessage);
  return place;
}

Place find_place(JsonFields& fields, ResponseContext& context, const std::string& owner,
                 ResponsesRequest& request) {
  const std::string* previous = fields.string("previous_response_id");
  const Json* conversation = fields.find("conversation");
  if (previous && conversation)
    fields.fail("conversation", "invalid_value",
                "'conversation' and 'previous_response_id' exclude each other");
  if (fields.error()) return {};
  if (previous) return place_of_response(fields, context, owner, *previous);
  if (!conversation) return {};
  Place place = place_of_conversation(fields, context, owner, *conversation);
  request.conversation = place.session;
  return place;
}

// The messages before those of this request, read page by page, because a conversation may be far longer than
// any prompt.
Json earlier_messages(JsonFields& fields, const Place& place, const std::string& owner) {
  constexpr size_t kMostText = SessionStore::kMaxMessageBytes;
  Json messages = Json::array();
  if (!place.store || place.parent == kNoMessage) return messages;
  std::vector<SessionPage> pages;  // the last one first
  size_t text = 0;
  for (MessageId before = kNoMessage; pages.empty() || pages.back().more;) {
    auto page = place.store->page(owner, place.session, place.parent, before, SessionStore::kMaxListed);
    for (size_t i = 0; page && i < page->messages.size(); ++i)
      text += page->messages[i].message["content"].get_ref<const std::string&>().size();
    if (page && text <= kMostText) {
      if (page->more) before = page->messages.front().id;
      pages.push_back(std::move(*page));
      continue;
    }
    ApiError error =
        page ? ApiError{400,
                        fmt::format("The conversation has more than {} MiB of text: begin a new one",
                                    kMostText >> 20),
                        "", "context_length_exceeded"}
             : session_error(page.error());
    error.param = "conversation";
    fields.fail(error);
    return messages;
  }
  for (; !pages.empty(); pages.pop_back())
    for (SessionMessage& one : pages.back().messages) messages.push_back(std::move(one.message));
  return messages;
}

// Checks the images of messages that are left out of the prompt, because the conversation stores them.
void check_images(JsonFields& fields, Json& messages, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    Json one = Json::array({std::move(messages[i])});
    std::vector<ImageInput> checked;
    take_images(fields, "input", one, checked);
  }
}

// Leaves out what a summary of the whole conversation replaces. own: index of the request's first message.
void leave_out_summarized(JsonFields& fields, size_t& own, Json& messages) {
  const size_t summary = last_whole_summary(messages);
  if (summary == 0) return;
  Json left = from_whole_summary(messages, summary);
  const size_t before = messages.size() - left.size();
  check_images(fields, messages, own, summary);
  own -= std::min(own, before);
  messages = std::move(left);
}

// Leaves out as few of the oldest turns as needed for the images to be within a prompt's limits. own: index
// of the request's first message.
void leave_out_images(JsonFields& fields, size_t own, Json& messages) {
  const size_t turn = first_turn_within_limits(messages);
  if (turn == 0) return;
  Json left = from_turn(messages, turn);
  check_images(fields, messages, own, begin_of_turn(messages, turn).value_or(0));
  messages = std::move(left);
}

// The system prompt of this request, which later ones do not inherit, and then the conversation.
void read_conversation(JsonFields& fields, const RequestDefaults& defaults, ResponseContext& context,
                       const std::string& owner, ResponsesRequest& request) {
  const Place place = find_place(fields, context, owner, request);
  Json messages = earlier_messages(fields, place, owner), added = Json::array();
  if (fields.error()) return;
  request.input_items = read_input_items(fields, *context.stores, owner);
  const bool leaves_out = request.shorten || std::ranges::any_of(request.input_items, is_compaction);
  ImageReader images(defaults.fetch_image, defaults.images, leaves_out ? kMaxImagesToShorten : kMaxImages);
  ItemReader reader(fields, context, owner, images, added);
  const std::vector<bool> kept = kept_messages(request.input_items);
  for (size_t i = 0; i < kept.size() && !fields.error(); ++i)
    reader.read(request.input_items[i], kept[i], fmt::format("input[{}]", i));
  size_t own = messages.size();
  for (Json& message : messages) {
    show_summary(message, context.sealer, owner);
    if (!defaults.images) hide_images(message);
    if (request.shorten && string_at(message, "role") == "user")
      request.earlier_users.push_back({{"role", "user"}, {"content", message["content"]}});
  }
  for (Json& message : added) messages.push_back(std::move(message));
  if (fields.error()) return;
  const auto declined = decide_calls(fields, reader.decisions(), request, messages, own);
  if (fields.error()) return;
  for (const std::string& call : declined) context.consent->decline(owner, call);
  sort_results(messages);
  for (size_t i = own; i < messages.size(); ++i) {
    request.added.push_back({messages[i]});
    drop_image_fields(request.added.back().message);
    hide_summary(request.added.back().message);
    messages[i].erase(kSealedSummary);
  }
  request.begins = std::ranges::none_of(messages, [](const Json& m) { return m["role"] == "assistant"; });
  if (messages.empty())
    return fields.fail("input", "missing_required_parameter", "'input' is missing or empty");
  if (request.store || !request.conversation.empty())
    request.keeper = std::make_shared<ConversationKeeper>(
        place.store ? *place.store : context.stores->usual(), owner, place.session, place.parent);
  leave_out_summarized(fields, own, messages);
  if (request.shorten) leave_out_images(fields, own, messages);
  const std::string* instructions = fields.string("instructions");
  if (instructions && !instructions->empty())
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", *instructions}});
  take_images(fields, fields.find("conversation") ? "conversation" : "previous_response_id", messages,
              request.chat.images);
  request.chat.messages = std::move(messages);
}

// Reads OpenAI's "include": further contents of the answer.
void read_include(JsonFields& fields, ResponsesRequest& request) {
  GenerationOptions& options = request.chat.options;
  const auto top = fields.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && *top > 0) options.logprobs = static_cast<int>(*top);
  const Json* include = fields.array("include");
  if (!include) return;
  for (const Json& name : *include) {
    if (name == "reasoning.encrypted_content") request.sealed_thoughts = true;
    if (name == "message.output_text.logprobs") options.logprobs = static_cast<int>(top.value_or(0));
  }
}

// The fields of the request that the answer repeats, with their actual values.
Json echo_of(JsonFields& fields, const ResponsesRequest& request) {
  const auto given = [&](const char* name, Json otherwise) {
    const Json* value = fields.find(name);
    return value ? *value : std::move(otherwise);
  };
  const GenerationOptions& options = request.chat.options;
  Json text = given("text", Json::object());
  if (!text.contains("format")) text["format"] = {{"type", "text"}};
  Json reasoning = given("reasoning", Json::object());
  for (const char* name : {"effort", "summary"})
    if (!reasoning.contains(name)) reasoning[name] = nullptr;
  Json tools = given("tools", Json::array());
  for (Json& tool : tools)
    if (tool.is_object() && string_at(tool, "type") == "function")
      for (const char* name : {"description", "parameters", "strict"})
        if (!tool.contains(name)) tool[name] = nullptr;
  return {{"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"max_tool_calls", given("max_tool_calls", nullptr)},
          {"parallel_tool_calls", request.chat.parallel_tool_calls},
          {"previous_response_id", given("previous_response_id", nullptr)},
          {"reasoning", std::move(reasoning)},
          {"text", std::move(text)},
          {"tools", std::move(tools)},
          {"tool_choice", given("tool_choice", "auto")},
          {"truncation", given("truncation", "disabled")},
          {"temperature", options.sampling.temperature},
          {"top_p", options.sampling.top_p},
          {"presence_penalty", options.sampling.presence_penalty},
          {"frequency_penalty", options.sampling.frequency_penalty},
          {"top_logprobs", std::max(0, options.logprobs)},
          {"store", request.store},
          {"background", false},
          {"service_tier", "default"},
          {"safety_identifier", given("safety_identifier", nullptr)},
          {"prompt_cache_key", given("prompt_cache_key", nullptr)},
          {"user", given("user", nullptr)},
          {"metadata", given("metadata", Json::object())},
          {"conversation", request.conversation.empty() ? Json() : Json{{"id", request.conversation}}}};
}

}  // namespace

ApiResult<ResponsesRequest> parse_responses_request(std::string_view body, const RequestDefaults& defaults,
                                                    ResponseContext& context, const std::string& owner,
                                                    const mcp::Cancelled& cancelled, bool may_use_tools) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  ResponsesRequest request;
  request.owner = owner;
  ChatRequest& chat = request.chat;
  chat.options = read_common_options(fields, fields, defaults);
  refuse_what_is_not_built(fields);
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key", "service_tier"})
    fields.string(name);
  for (const char* name : {"metadata", "stream_options", "text", "reasoning"}) fields.object(name);
  if (const Json* metadata = fields.object("metadata");
      metadata && dump_json(*metadata).size() > kMaxMetadata)
    fields.fail("metadata", "invalid_value",
                fmt::format("'metadata' has more than {} KiB", kMaxMetadata >> 10));
  chat.options.format = read_response_format(fields);
  if (const auto most = fields.integer("max_output_tokens", 1, INT_MAX)) {
    chat.options.max_tokens = static_cast<int>(*most);
    chat.options.bound = TokenBound::shared;
  }
  check_min_tokens(fields, chat.options);
  request.max_tool_calls = static_cast<int>(fields.integer("max_tool_calls", 0, INT_MAX).value_or(INT_MAX));
  request.store = fields.boolean("store").value_or(true);
  request.shorten = fields.find("truncation") && *fields.find("truncation") == "auto";
  request.compact_above = read_context_management(fields);
  chat.parallel_tool_calls = read_parallel_calls(fields);
  read_include(fields, request);
  AgentTools agent{.servers = context.servers,
                   .consent = context.consent,
                   .owner = owner,
                   .allowed = may_use_tools,
                   .list = defaults.list_tools};
  request.tools = read_response_tools(fields, chat.tool_choice, std::move(agent), cancelled);
  if (!request.tools.functions.empty()) chat.tools = request.tools.functions;
  if (!fields.error()) read_conversation(fields, defaults, context, owner, request);
  if (fields.error()) return *fields.error();
  request.echo = echo_of(fields, request);
  return request;
}

Json messages_of_items(JsonFields& fields, const char* where, const Json& items, ResponseContext& context,
                       const std::string& owner) {
  Json messages = Json::array();
  // Stored conversations may be used with any model.
  const ImageFetch no_fetch = [](const std::string&, size_t) {
    return Result<std::string>(make_error(
        ErrorKind::unsupported, "that is done for an answer only: send the image itself, as a data URL"));
  };
  ImageReader images(no_fetch, true);
  ItemReader reader(fields, context, owner, images, messages);
  const std::vector<bool> kept = kept_messages(items);
  for (size_t i = 0; i < kept.size() && !fields.error(); ++i)
    reader.read(items[i], kept[i], fmt::format("{}[{}]", where, i));
  if (!reader.decisions().empty())
    fields.fail(where, "unsupported_value",
                "An 'mcp_approval_response' belongs into the 'input' of a request for an answer");
  sort_results(messages);
  std::vector<ImageInput> checked;
  Json copy = messages;
  take_images(fields, where, copy, checked);
  for (Json& message : messages) {
    drop_image_fields(message);
    hide_summary(message);
  }
  return messages;
}

}  // namespace anabranch::server
