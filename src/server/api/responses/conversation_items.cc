#include "server/api/responses/conversation_items.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "server/api/request_images.h"
#include "server/api/responses/compaction.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxItems = 1024;                  // of one request
constexpr std::string_view kErrorMark = "Error: ";  // as mcp::text_for_model writes it

// The object under `key`; an empty one if there is none, because imported conversations may hold anything.
Json object_at(const Json& object, const std::string& key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return at != object.end() && at->is_object() ? *at : Json::object();
}

std::string text_of(const Json& arguments) {
  if (arguments.is_string()) return arguments.get<std::string>();
  return arguments.is_null() ? "{}" : dump_json(arguments);
}

Json text_part(const std::string& role, const std::string& text) {
  if (role != "assistant") return {{"type", "input_text"}, {"text", text}};
  return {
      {"type", "output_text"}, {"text", text}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

// The message's text, with its images in their places.
Json content_parts(const std::string& role, const Json& message) {
  Json parts = Json::array();
  for_each_part(
      message, [&](std::string text) { parts.push_back(text_part(role, std::move(text))); },
      [&](const Json& image) {
        parts.push_back({{"type", "input_image"},
                         {"image_url", string_at(image, "url")},
                         {"detail", image.value("detail", Json("auto"))}});
      });
  if (parts.empty()) parts.push_back(text_part(role, ""));
  return parts;
}

class ItemWriter {
 public:
  void add(const SessionMessage& message) {
    const std::string role = string_at(message.message, "role");
    if (role == "assistant")
      add_turn(message);
    else if (role == "tool")
      add_result(message);
    else
      add_text(message, role);
  }
  size_t size() const { return items_.size(); }
  Json take() { return std::move(items_); }

 private:
  // A call of an MCP tool that has no result yet. at: its index in items_; nothing: the call's item is added
  // when the result comes, because the request for its approval already stands there.
  struct McpCall {
    Json item;
    std::optional<size_t> at;
  };

  static const char* status_of(const SessionMessage& message) {
    return string_at(message.about, "status") == "incomplete" ? "incomplete" : "completed";
  }

  void add_text(const SessionMessage& message, const std::string& role) {
    if (const std::string sealed = string_at(message.message, kSealedSummary); !sealed.empty())
      return items_.push_back(
          {{"type", "compaction"}, {"id", fmt::format("cmp_{}", message.id)}, {"encrypted_content", sealed}});
    items_.push_back({{"type", "message"},
                      {"id", fmt::format("msg_{}", message.id)},
                      {"status", status_of(message)},
                      {"role", role},
                      {"content", content_parts(role, message.message)}});
  }

  void add_turn(const SessionMessage& message) {
    const std::string thought = string_at(message.message, "reasoning_content");
    const Json calls = message.message.value("tool_calls", Json::array());
    if (!thought.empty())
      items_.push_back({{"type", "reasoning"},
                        {"id", fmt::format("rs_{}", message.id)},
                        {"summary", Json::array()},
                        {"content", Json::array({{{"type", "reasoning_text"}, {"text", thought}}})},
                        {"status", status_of(message)}});
    if (!string_at(message.message, "content").empty() || (thought.empty() && calls.empty()))
      add_text(message, "assistant");
    const Json known = object_at(message.about, "mcp_calls");
    for (size_t i = 0; calls.is_array() && i < calls.size(); ++i) {
      const CallParts call = parts_of_call(calls[i]);
      const std::string place = fmt::format("{}_{}", message.id, i);
      if (const Json origin = object_at(known, call.id); !origin.empty())
        add_mcp_call(call, origin, place);
      else
        items_.push_back({{"type", "function_call"},
                          {"id", "fc_" + place},
                          {"call_id", call.id},
                          {"name", call.name},
                          {"arguments", text_of(call.arguments)},
                          {"status", "completed"}});
    }
  }

  // place: position of the call, for the item's id.
  void add_mcp_call(const CallParts& call, const Json& origin, const std::string& place) {
    Json request = {{"type", "mcp_approval_request"},
                    {"id", call_id_with("mcpr_", call.id)},
                    {"server_label", string_at(origin, "server_label")},
                    {"name", string_at(origin, "name")},
                    {"arguments", text_of(call.arguments)}};
    const bool asks = origin.contains("approval_request_id");
    if (asks && !requests_.insert(request["id"]).second) request["id"] = "mcpr_" + place;
    Json item = request;
    item.update({{"type", "mcp_call"},
                 {"id", "mcp_" + place},
                 {"output", nullptr},
                 {"error", nullptr},
                 {"approval_request_id", asks ? request["id"] : Json()},
                 {"status", "incomplete"}});
    items_.push_back(asks ? std::move(request) : item);
    waiting_.insert_or_assign(
        call.id, McpCall{std::move(item), asks ? std::nullopt : std::optional(items_.size() - 1)});
  }

  void add_result(const SessionMessage& message) {
    const std::string call = string_at(message.message, "tool_call_id");
    std::string text = string_at(message.message, "content");
    const auto known = waiting_.find(call);
    if (known == waiting_.end()) {
      items_.push_back({{"type", "function_call_output"},
                        {"id", fmt::format("fco_{}", message.id)},
                        {"call_id", call},
                        {"output", message.message.contains("images") ? content_parts("tool", message.message)
                                                                      : Json(std::move(text))},
                        {"status", "completed"}});
      return;
    }
    auto [item, at] = std::move(known->second);
    waiting_.erase(known);
    // A result without the server's note means that the user declined the call.
    const bool failed = !message.about.contains("mcp") || object_at(message.about, "mcp").contains("error");
    if (failed && text.starts_with(kErrorMark)) text.erase(0, kErrorMark.size());
    item[failed ? "error" : "output"] = std::move(text);
    item["status"] = failed ? "failed" : "completed";
    if (at)
      items_[*at] = std::move(item);
    else
      items_.push_back(std::move(item));
  }

  Json items_ = Json::array();
  std::map<std::string, McpCall> waiting_;  // by the call's id
  std::set<std::string> requests_;          // ids of requests for approval
};

// What the items say about calls of MCP tools beyond the messages, by the call's id: {"server_label", "name",
// "approval_request_id"?, "error"?}.
std::map<std::string, Json> origins_of(const Json& items) {
  std::map<std::string, Json> origins;
  for (const Json& item : items) {
    const std::string type = string_at(item, "type");
    if (type != "mcp_call" && type != "mcp_approval_request") continue;
    const std::string id = string_at(call_of(item), "id");
    Json& origin = origins[id];
    origin["server_label"] = string_at(item, "server_label");
    origin["name"] = string_at(item, "name");
    if (type == "mcp_approval_request") origin["approval_request_id"] = call_id_with("mcpr_", id);
    if (!string_at(item, "error").empty()) origin["error"] = true;
  }
  return origins;
}

void note_origins(NewMessage& message, const std::map<std::string, Json>& origins) {
  if (const auto at = origins.find(string_at(message.message, "tool_call_id")); at != origins.end()) {
    message.about["mcp"] = at->second;
    message.about["mcp"].erase("approval_request_id");
  }
  for (const Json& call : message.message.value("tool_calls", Json::array())) {
    const auto at = origins.find(string_at(call, "id"));
    if (at == origins.end()) continue;
    Json& origin = message.about["mcp_calls"][at->first] = at->second;
    // Do not take these from the client: only our own record says what was asked for approval and what
    // failed.
    for (const char* name : {"error", "approval_request_id"}) origin.erase(name);
  }
}

}  // namespace

Json conversation_items(std::span<const SessionMessage> path, MessageId from) {
  ItemWriter writer;
  size_t before = 0;
  for (const SessionMessage& message : path) {
    writer.add(message);
    if (message.id < from) before = writer.size();
  }
  Json items = writer.take();
  items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(before));
  return items;
}

std::vector<NewMessage> read_conversation_items(JsonFields& fields, ResponseContext& context,
                                                const std::string& owner) {
  std::vector<NewMessage> messages;
  const Json* items = fields.array("items");
  if (!items) return messages;
  if (items->size() > kMaxItems)
    fields.fail("items", "invalid_value", fmt::format("'items' has more than {} entries", kMaxItems));
  if (fields.error()) return messages;
  Json read = messages_of_items(fields, "items", *items, context, owner);
  if (fields.error()) return messages;
  const auto origins = origins_of(*items);
  for (Json& message : read) {
    messages.push_back({std::move(message)});
    note_origins(messages.back(), origins);
  }
  return messages;
}

}  // namespace anabranch::server
