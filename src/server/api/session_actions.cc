#include "server/api/session_actions.h"

#include <atomic>
#include <charconv>
#include <span>
#include <utility>

#include "base/log.h"

#include "server/api/common_fields.h"
#include "server/api/json_fields.h"
#include "server/api/responses/format.h"
#include "server/api/session_json.h"
#include "server/http/target.h"
#include "sessions/session_text.h"

namespace anabranch::server {
namespace {

constexpr int kUsualLimit = 50;

using Answer = ApiResult<HttpResponse>;

// One request and what it works on.
struct Call {
  const HttpRequest& request;
  const std::string& id;
  const std::string& owner;
  SessionStore& store;
  const Json& body;  // an empty object for requests without a body
};

Answer answer(const Result<Session>& session) {
  if (!session) return session_error(session.error());
  return json_response(session_json(*session));
}

// The requested messages of a session: the last ones of a branch, or those before one of its messages.
struct Part {
  std::optional<MessageId> head = {};
  MessageId before = kNoMessage;
  int limit = SessionStore::kMaxListed;
};

Answer with_messages(const Call& call, const Part& part) {
  const auto session = call.store.find(call.owner, call.id);
  if (!session) return session_error(session.error());
  auto page = call.store.page(call.owner, call.id, part.head, part.before, part.limit);
  if (!page) return session_error(page.error());
  Json json = session_json(*session);
  json["messages"] = Json::array();
  json["has_more"] = page->more;
  for (SessionMessage& message : page->messages)
    json["messages"].push_back(message_json(std::exchange(message, {})));
  return json_response(json);
}

// Fails unless the query's "limit" is absent or a number from 1 to kMaxListed.
ApiResult<void> read_limit(const HttpRequest& request, int& limit) {
  const std::string text = query_value(request.target, "limit").value_or("");
  if (text.empty()) return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (error == std::errc() && end == text.data() + text.size() && limit >= 1 &&
      limit <= SessionStore::kMaxListed)
    return {};
  return ApiError{400, fmt::format("'limit' must be a number from 1 to {}", SessionStore::kMaxListed),
                  "limit", "invalid_value"};
}

Json list_json(const std::vector<Session>& sessions, bool more) {
  Json data = Json::array();
  for (const Session& session : sessions) data.push_back(session_json(session));
  Json list = {{"object", "list"}, {"has_more", more}};
  list["first_id"] = data.empty() ? Json() : data.front()["id"];
  list["last_id"] = data.empty() ? Json() : data.back()["id"];
  list["data"] = std::move(data);
  return list;
}

Answer list(const Call& call) {
  const auto parameter = [&](const char* name) {
    return query_value(call.request.target, name).value_or("");
  };
  SessionQuery query{call.owner, kUsualLimit, parameter("after"), parameter("query"),
                     parameter("all") == "true"};
  TRY_VOID(read_limit(call.request, query.limit));
  const auto found = call.store.list(query);
  if (!found) return session_error(found.error());
  return json_response(list_json(found->sessions, found->more));
}

// Reads the messages in the body.
std::vector<NewMessage> read_messages(JsonFields& fields, bool required) {
  std::vector<NewMessage> messages;
  const Json* list = fields.array("messages");
  if (!list && required && !fields.error())
    fields.fail("messages", "missing_required_parameter", "'messages' is missing");
  if (!list) return messages;
  for (size_t i = 0; i < list->size(); ++i) {
    auto message = message_from((*list)[i]);
    const std::string role = message ? string_at(message->message, "role") : "";
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
      fields.fail(
          "messages", "invalid_value",
          fmt::format("'messages[{}]' must have the role system, user, assistant or tool, and a text as "
                      "content, and 'tool_calls' only in the format of chat completions",
                      i));
      break;
    }
    messages.push_back(std::move(*message));
  }
  return messages;
}

std::optional<MessageId> read_message_id(JsonFields& fields, const char* name) {
  const std::string* text = fields.string(name);
  if (!text) return std::nullopt;
  const auto id = message_id(*text);
  if (!id)
    fields.fail(name, "invalid_value", fmt::format("'{}' must be a message's id, such as msg_12", name));
  return id;
}

template <class T>
void set_object(JsonFields& fields, const char* name, T& target) {
  if (const Json* value = fields.object(name)) target = *value;
}

Answer create(const Call& call) {
  JsonFields fields(call.body);
  NewSession session;
  session.owner = call.owner;
  if (const std::string* title = fields.string("title")) session.title = *title;
  set_object(fields, "settings", session.settings);
  set_object(fields, "metadata", session.metadata);
  session.messages = read_messages(fields, false);
  if (fields.error()) return *fields.error();
  return answer(call.store.create(session));
}

Answer change(const Call& call) {
  JsonFields fields(call.body);
  SessionChange change;
  if (const std::string* title = fields.string("title")) change.title = *title;
  set_object(fields, "settings", change.settings);
  set_object(fields, "metadata", change.metadata);
  change.head = read_message_id(fields, "head");
  if (fields.error()) return *fields.error();
  return answer(call.store.change(call.owner, call.id, change));
}

Answer branch(const Call& call) {
  JsonFields fields(call.body);
  fields.required_string("message");
  const auto message = read_message_id(fields, "message");
  const std::string* title = fields.string("title");
  if (fields.error()) return *fields.error();
  return answer(call.store.branch(call.owner, call.id, *message, title ? *title : ""));
}

Answer append(const Call& call) {
  JsonFields fields(call.body);
  const auto messages = read_messages(fields, true);
  auto parent = read_message_id(fields, "parent");
  if (call.body.contains("parent") && call.body["parent"].is_null()) parent = kNoMessage;
  if (fields.error()) return *fields.error();
  const auto ids = call.store.append(call.owner, call.id, parent, messages);
  if (!ids) return session_error(ids.error());
  return with_messages(call, {});
}

Answer export_text(const Call& call) {
  const std::string format = query_value(call.request.target, "format").value_or("jsonl");
  if (format != "jsonl" && format != "markdown")
    return ApiError{400, "'format' must be jsonl or markdown", "format", "invalid_value"};
  const auto session = call.store.find(call.owner, call.id);
  if (!session) return session_error(session.error());
  const bool lines = format == "jsonl";
  const auto text_of = [&](std::span<const SessionMessage> messages) {
    return lines ? to_json_lines(*session, messages) : to_markdown(*session, messages);
  };
  const std::string head = text_of({});
  // Page by page, because messages in memory take a multiple of their text's size.
  std::vector<std::string> pages;  // the last one first
  MessageId before = kNoMessage;
  for (bool more = true; more;) {
    const auto page = call.store.page(call.owner, call.id, session->head, before, SessionStore::kMaxListed);
    if (!page) return session_error(page.error());
    pages.push_back(text_of(page->messages).substr(head.size()));
    more = page->more;
    if (more) before = page->messages.front().id;
  }
  HttpResponse response;
  response.content_type = lines ? "application/jsonl; charset=utf-8" : "text/markdown; charset=utf-8";
  response.headers.emplace_back(
      "Content-Disposition", fmt::format("attachment; filename=\"{}.{}\"", call.id, lines ? "jsonl" : "md"));
  response.body = head;
  for (; !pages.empty(); pages.pop_back()) response.body += pages.back();
  return response;
}

Answer import(const Call& call) {
  JsonFields fields(call.body);
  const std::string text = fields.required_string("jsonl");
  if (fields.error()) return *fields.error();
  auto read = from_json_lines(text);
  if (!read) return ApiError{400, read.error().message, "jsonl", "invalid_value"};
  for (NewSession& session : *read) session.owner = call.owner;
  const auto made = call.store.create_all(*read);
  if (!made) return session_error(made.error());
  return json_response(list_json(*made, false));
}

Answer erase(const Call& call) {
  if (const auto erased = call.store.erase(call.owner, call.id); !erased)
    return session_error(erased.error());
  return json_response({{"id", call.id}, {"object", "session"}, {"deleted", true}});
}

Answer read(const Call& call) {
  Part part;
  for (const char* parameter : {"head", "before"}) {
    const auto name = query_value(call.request.target, parameter);
    if (!name) continue;
    const auto id = message_id(*name);
    if (!id)
      return ApiError{400, fmt::format("'{}' must be a message's id, such as msg_12", parameter), parameter,
                      "invalid_value"};
    parameter == std::string_view("head") ? void(part.head = id) : void(part.before = *id);
  }
  TRY_VOID(read_limit(call.request, part.limit));
  return with_messages(call, part);
}

Answer run(SessionAction action, const Call& call) {
  switch (action) {
    case SessionAction::list:
      return list(call);
    case SessionAction::create:
      return create(call);
    case SessionAction::import:
      return import(call);
    case SessionAction::export_text:
      return export_text(call);
    case SessionAction::branch:
      return branch(call);
    case SessionAction::append:
      return append(call);
    case SessionAction::read:
      return read(call);
    case SessionAction::change:
      return change(call);
    case SessionAction::erase:
      return erase(call);
  }
  return ApiError{};
}

Answer run(SessionAction action, const HttpRequest& request, const std::string& id, const std::string& owner,
           SessionStores& stores) {
  Json body = Json::object();
  if (request.method == "POST") {
    TRY(auto parsed, parse_body(request.body));
    body = std::move(parsed);
  }
  const auto store = stores.kept();
  if (!store) {
    ApiError error = session_error(store.error());
    if (error.status == 404) error.code = "sessions_off";
    return error;
  }
  return run(action, {request, id, owner, **store, body});
}

// Jobs of a worker must not throw.
template <class Work>
Answer safely_run(Work work) {
  try {
    return work();
  } catch (const std::exception& e) {
    log_error("a request for conversations failed: {}", e.what());
    return ApiError{500, "Internal error while conversations were read", "", "internal_error"};
  }
}

// A stored response: as JSON, or with "?stream=true" as events, perhaps only those after "starting_after".
Answer tell_response(const Json& response, const std::string& target) {
  if (query_value(target, "stream").value_or("") != "true") return json_response(response);
  int64_t after = -1;
  if (const auto text = query_value(target, "starting_after")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), after);
    if (error != std::errc() || end != text->data() + text->size() || after < 0)
      return ApiError{400, "'starting_after' must be the number of an event", "starting_after",
                      "invalid_value"};
  }
  return HttpResponse{.content_type = "text/event-stream; charset=utf-8",
                      .headers = {},
                      .body = stored_events(response, after)};
}

// Handles a request about a stored response. target: of the request.
Answer run(Page page, const std::string& id, const std::string& owner, const std::string& target,
           SessionStores& stores) {
  const auto problem = [&](const Error& error) {
    ApiError answer = session_error(error);
    if (answer.status == 404) answer.param = "response_id", answer.code = "response_not_found";
    return answer;
  };
  const auto store = stores.of_response(owner, id);
  if (!store) return problem(store.error());
  if (page == Page::forget) {
    if (const auto erased = (*store)->erase_response(owner, id); !erased) return problem(erased.error());
    return json_response({{"id", id}, {"object", "response"}, {"deleted", true}});
  }
  const auto stored = (*store)->find_response(owner, id);
  if (!stored) return problem(stored.error());
  if (page == Page::response) return tell_response(stored->response, target);
  const Json& items = stored->input_items;
  Json list = {{"object", "list"}, {"data", items}, {"has_more", false}};
  list["first_id"] = items.empty() ? Json() : items.front()["id"];
  list["last_id"] = items.empty() ? Json() : items.back()["id"];
  return json_response(list);
}

}  // namespace

SessionActions::SessionActions(std::shared_ptr<ResponseContext> context, Post post, TraceEraser& traces)
    : context_(std::move(context)), post_(std::move(post)), traces_(traces) {
  context_->stores->tell_upkeep([this] { upkeep(); });
}

SessionActions::~SessionActions() {
  context_->stores->tell_upkeep({});
}

void SessionActions::upkeep() {
  scrubber_.submit([this] {
    context_->stores->upkeep();
    traces_.erase();
  });
}

void SessionActions::submit(const std::string& owner, Effect effect, std::function<Answer()> work,
                            std::shared_ptr<ResponseStream> out) {
  const auto left = std::make_shared<std::atomic<bool>>(false);
  if (effect == Effect::reads) out->on_client_left([left] { *left = true; });
  workers_.submit({owner}, [this, effect, work = std::move(work), out = std::move(out), left] {
    auto answer = std::make_shared<Answer>(*left ? ApiError{} : work());
    const bool erased = effect == Effect::erases && answer->ok();
    if (erased) upkeep();
    const auto respond = [answer, out] {
      out->respond(answer->ok() ? std::move(**answer) : error_response(answer->error()));
    };
    if (erased) return traces_.erase(respond);
    post_(respond);
    if (effect != Effect::reads) traces_.erase();
  });
}

void SessionActions::start(SessionAction action, HttpRequest request, std::string id, std::string owner,
                           std::shared_ptr<ResponseStream> out) {
  const bool reads =
      action == SessionAction::list || action == SessionAction::read || action == SessionAction::export_text;
  const Effect effect = action == SessionAction::erase ? Effect::erases
                        : reads                        ? Effect::reads
                                                       : Effect::writes;
  submit(
      owner, effect,
      [action, request = std::move(request), id = std::move(id), owner, stores = context_->stores] {
        return safely_run([&] { return run(action, request, id, owner, *stores); });
      },
      std::move(out));
}

void SessionActions::start(Page page, std::string id, std::string owner, std::string target,
                           std::shared_ptr<ResponseStream> out) {
  submit(
      owner, page == Page::forget ? Effect::erases : Effect::reads,
      [page, id = std::move(id), owner, target = std::move(target), stores = context_->stores] {
        return safely_run([&] { return run(page, id, owner, target, *stores); });
      },
      std::move(out));
}

void SessionActions::start(ConversationCall call, std::shared_ptr<ResponseStream> out) {
  const bool erases =
      call.action == ConversationAction::erase || call.action == ConversationAction::erase_item;
  const bool reads = call.request.method != "POST" && !erases;
  const std::string owner = call.owner;
  submit(
      owner,
      erases  ? Effect::erases
      : reads ? Effect::reads
              : Effect::writes,
      [call = std::move(call), context = context_] {
        return safely_run([&] { return run_conversation_call(call, *context); });
      },
      std::move(out));
}

}  // namespace anabranch::server
