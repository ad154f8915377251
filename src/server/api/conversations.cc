#include "server/api/conversations.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "server/api/common_fields.h"
#include "server/api/responses/conversation_items.h"
#include "server/api/session_json.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr size_t kUsualLimit = 20, kMaxLimit = 100;

using Answer = ApiResult<HttpResponse>;

// A request to a conversation that exists.
struct Work {
  const ConversationCall& call;
  SessionStore& store;
  ResponseContext& context;
  const Json& body;  // an empty object for requests without a body
};

ApiError conversation_error(const Error& error) {
  ApiError answer = session_error(error);
  if (answer.status == 404) answer.code = "conversation_not_found";
  return answer;
}

Answer answer(const Result<Session>& session) {
  if (!session) return conversation_error(session.error());
  return json_response({{"id", session->id},
                        {"object", "conversation"},
                        {"created_at", session->created_at},
                        {"metadata", session->metadata}});
}

Answer list_of(Json items, bool more) {
  Json list = {{"object", "list"}, {"has_more", more}};
  list["first_id"] = items.empty() ? Json() : items.front()["id"];
  list["last_id"] = items.empty() ? Json() : items.back()["id"];
  list["data"] = std::move(items);
  return json_response(list);
}

// The items of the conversation's current branch.
Result<Json> items_of(const Work& work, MessageId from = kNoMessage) {
  TRY(const auto path, work.store.path(work.call.owner, work.call.id));
  return conversation_items(path, from);
}

Json::const_iterator find_item(const Json& items, const std::string& id) {
  return std::find_if(items.begin(), items.end(), [&](const Json& item) { return item["id"] == id; });
}

ApiError no_item(const std::string& id, const char* param) {
  return {404, fmt::format("There is no item '{}' in this conversation", id), param, "item_not_found"};
}

Answer list_items(const Work& work) {
  const auto parameter = [&](const char* name) {
    return query_value(work.call.request.target, name).value_or("");
  };
  size_t limit = kUsualLimit;
  if (const std::string text = parameter("limit"); !text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
    if (error != std::errc() || end != text.data() + text.size() || limit < 1 || limit > kMaxLimit)
      return ApiError{400, fmt::format("'limit' must be a number from 1 to {}", kMaxLimit), "limit",
                      "invalid_value"};
  }
  const std::string order = parameter("order"), after = parameter("after");
  if (!order.empty() && order != "asc" && order != "desc")
    return ApiError{400, "'order' must be asc or desc", "order", "invalid_value"};
  auto items = items_of(work);
  if (!items) return conversation_error(items.error());
  if (order != "asc") std::reverse(items->begin(), items->end());
  Json::const_iterator begin = items->begin();
  if (!after.empty()) {
    begin = find_item(*items, after);
    if (begin == items->cend()) return no_item(after, "after");
    ++begin;
  }
  const auto rest = static_cast<size_t>(items->cend() - begin);
  Json page = Json::array();
  for (size_t i = 0; i < std::min(limit, rest); ++i) page.push_back(*begin++);
  return list_of(std::move(page), rest > limit);
}

Answer read_item(const Work& work) {
  const auto items = items_of(work);
  if (!items) return conversation_error(items.error());
  const auto found = find_item(*items, work.call.item);
  if (found == items->cend()) return no_item(work.call.item, "");
  return json_response(*found);
}

// Removes the last message, if the item is its only one. Others cannot be removed: earlier messages have
// messages below them, and a message is only removed together with all of its items.
Answer erase_item(const Work& work) {
  const auto& [action, request, id, item, owner] = work.call;
  const auto path = work.store.path(owner, id);
  if (!path) return conversation_error(path.error());
  const Json items = conversation_items(*path);
  if (find_item(items, item) == items.end()) return no_item(item, "");
  const MessageId last = path->back().id;
  const Json of_last = conversation_items(*path, last);
  const ApiError refused{400, "Only the last item can be removed, and only if its message has no other", "",
                         "unsupported_value"};
  if (of_last.size() != 1 || of_last[0]["id"] != item) return refused;
  if (const auto done = work.store.take_back(id, std::span(&last, 1), path->back().parent); !done)
    return conversation_error(done.error());
  if (work.store.path(owner, id, last)) return refused;  // something was added below it meanwhile
  return answer(work.store.find(owner, id));
}

Answer add_items(const Work& work) {
  JsonFields fields(work.body);
  const auto messages = read_conversation_items(fields, work.context, work.call.owner);
  if (!fields.find("items")) fields.fail("items", "missing_required_parameter", "'items' is missing");
  if (fields.error()) return *fields.error();
  const auto ids = work.store.append(work.call.owner, work.call.id, std::nullopt, messages);
  if (!ids) return conversation_error(ids.error());
  if (ids->empty()) return list_of(Json::array(), false);
  auto items = items_of(work, ids->front());
  if (!items) return conversation_error(items.error());
  return list_of(std::move(*items), false);
}

Answer change(const Work& work) {
  JsonFields fields(work.body);
  SessionChange change;
  if (const Json* metadata = fields.object("metadata")) change.metadata = *metadata;
  if (fields.error()) return *fields.error();
  return answer(work.store.change(work.call.owner, work.call.id, change));
}

Answer erase(const Work& work) {
  if (const auto erased = work.store.erase(work.call.owner, work.call.id); !erased)
    return conversation_error(erased.error());
  return json_response({{"id", work.call.id}, {"object", "conversation.deleted"}, {"deleted", true}});
}

Answer create(const ConversationCall& call, ResponseContext& context, const Json& body) {
  JsonFields fields(body);
  NewSession session;
  session.owner = call.owner;
  if (const Json* metadata = fields.object("metadata")) session.metadata = *metadata;
  session.messages = read_conversation_items(fields, context, call.owner);
  if (fields.error()) return *fields.error();
  return answer(context.stores->usual().create(session));
}

Answer run(const Work& work) {
  switch (work.call.action) {
    case ConversationAction::create:
      break;  // there is no conversation yet
    case ConversationAction::read:
      return answer(work.store.find(work.call.owner, work.call.id));
    case ConversationAction::change:
      return change(work);
    case ConversationAction::erase:
      return erase(work);
    case ConversationAction::list_items:
      return list_items(work);
    case ConversationAction::add_items:
      return add_items(work);
    case ConversationAction::read_item:
      return read_item(work);
    case ConversationAction::erase_item:
      return erase_item(work);
  }
  return ApiError{};
}

}  // namespace

ApiResult<HttpResponse> run_conversation_call(const ConversationCall& call, ResponseContext& context) {
  Json body = Json::object();
  if (call.request.method == "POST") {
    TRY(auto parsed, parse_body(call.request.body));
    body = std::move(parsed);
  }
  if (call.action == ConversationAction::create) return create(call, context, body);
  const auto store = context.stores->of_session(call.owner, call.id);
  if (!store) return conversation_error(store.error());
  return run({call, **store, context, body});
}

}  // namespace anabranch::server
