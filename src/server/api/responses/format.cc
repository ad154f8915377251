#include "server/api/responses/format.h"

#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "chat/speculation_json.h"
#include "server/api/session_json.h"

namespace anabranch::server {
namespace {

using Kind = OutputEvent::Kind;

// The type and the fields of an event.
using CallEvent = std::pair<std::string, Json>;

// The commands of a "shell_call".
std::vector<CallEvent> command_events(const Json& item, size_t index) {
  std::vector<CallEvent> events;
  const Json& commands = item["action"]["commands"];
  for (size_t i = 0; i < commands.size(); ++i)
    for (const auto& [type, name, text] : {std::tuple("added", "command", Json("")),
                                           {"delta", "delta", commands[i]},
                                           {"done", "command", commands[i]}})
      events.emplace_back(std::string("response.shell_call_command.") + type,
                          Json{{"output_index", index}, {"command_index", i}, {name, text}});
  return events;
}

// The events that fill a call's item, which is complete.
std::vector<CallEvent> call_events(const Json& item, size_t index) {
  const std::string type = string_at(item, "type");
  if (type == "shell_call") return command_events(item, index);
  const bool custom = type == "custom_tool_call", mcp = type == "mcp_call";
  if (!custom && !mcp && type != "function_call") return {};
  const char* field = custom ? "input" : "arguments";
  const std::string stem = custom ? "response.custom_tool_call_input"
                           : mcp  ? "response.mcp_call_arguments"
                                  : "response.function_call_arguments";
  Json delta = {{"item_id", item["id"]}, {"output_index", index}}, whole = delta;
  delta["delta"] = whole[field] = string_at(item, field);
  if (!custom && !mcp) whole["name"] = item["name"];
  return {{stem + ".delta", std::move(delta)}, {stem + ".done", std::move(whole)}};
}

// Whether the item has nothing to show before the call is complete: which operation it is would be unknown.
bool comes_whole(const Json& item) {
  return string_at(item, "type") == "apply_patch_call";
}

// The events of a stored response, numbered.
class StoredEvents {
 public:
  explicit StoredEvents(int64_t after) : after_(after) {}

  // always: also if the client has seen as many events. A live stream has more of them than a stored one, so
  // a client that reads one on must at least learn how it ended.
  void add(const char* type, Json fields, bool always = false) {
    Json json = {{"type", type}, {"sequence_number", number_}};
    json.update(fields);
    if (number_++ > after_ || always) out_ += fmt::format("event: {}\ndata: {}\n\n", type, dump_json(json));
  }

  // The parts of a message or a thought.
  void add_parts(const Json& item, size_t index) {
    const Json content = item.value("content", Json::array());
    for (size_t i = 0; content.is_array() && i < content.size(); ++i) {
      const Json& part = content[i];
      const bool thought = string_at(part, "type") == "reasoning_text";
      const Json place = {{"item_id", item["id"]}, {"output_index", index}, {"content_index", i}};
      const auto about = [&](Json more) {
        Json fields = place;
        fields.update(more);
        return fields;
      };
      Json empty = part;
      empty["text"] = "";
      add("response.content_part.added", about({{"part", std::move(empty)}}));
      const std::string text = string_at(part, "text");
      Json delta = about({{"delta", text}}), whole = about({{"text", text}});
      if (!thought) delta["logprobs"] = whole["logprobs"] = part.value("logprobs", Json::array());
      add(thought ? "response.reasoning_text.delta" : "response.output_text.delta", std::move(delta));
      add(thought ? "response.reasoning_text.done" : "response.output_text.done", std::move(whole));
      add("response.content_part.done", about({{"part", part}}));
    }
  }

  void add_call(const Json& item, size_t index) {
    if (string_at(item, "type") == "mcp_call") return;
    for (auto& [type, fields] : call_events(item, index)) add(type.c_str(), std::move(fields));
  }

  std::string take() { return std::move(out_); }

 private:
  const int64_t after_;
  int64_t number_ = 0;
  std::string out_;
};

}  // namespace

Json responses_usage(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"speculation", speculation_json(usage.speculation)}};
}

std::string stored_events(const Json& response, int64_t after) {
  StoredEvents events(after);
  Json begun = response;
  begun["status"] = "in_progress";
  begun["output"] = Json::array();
  for (const char* name : {"completed_at", "incomplete_details", "usage"}) begun[name] = nullptr;
  events.add("response.created", {{"response", begun}});
  events.add("response.in_progress", {{"response", begun}});
  const Json output = response.value("output", Json::array());
  for (size_t i = 0; i < output.size(); ++i) {
    Json added = output[i];
    if (added.contains("status")) added["status"] = "in_progress";
    if (added.contains("content")) added["content"] = Json::array();
    for (const char* name : {"arguments", "input"})
      if (added.contains(name)) added[name] = "";
    if (string_at(added, "type") == "shell_call") added["action"]["commands"] = Json::array();
    events.add("response.output_item.added", {{"output_index", i}, {"item", std::move(added)}});
    events.add_parts(output[i], i);
    events.add_call(output[i], i);
    events.add("response.output_item.done", {{"output_index", i}, {"item", output[i]}});
  }
  const bool whole = string_at(response, "status") == "completed";
  events.add(whole ? "response.completed" : "response.incomplete", {{"response", response}}, true);
  return events.take();
}

ResponsesWriter::ResponsesWriter(bool stream, ResponsesRequest request,
                                 std::shared_ptr<ResponseContext> context)
    : AnswerWriter(stream), request_(std::move(request)), context_(std::move(context)) {}

// One event of the stream; "" for an answer that is sent whole.
std::string ResponsesWriter::emit(const char* type, Json fields) {
  if (!is_stream()) return "";
  Json json = {{"type", type}, {"sequence_number", sequence_++}};
  json.update(fields);
  return fmt::format("event: {}\ndata: {}\n\n", type, dump_json(json));
}

// usage: null while the answer is under way.
Json ResponsesWriter::response(const char* status, const Usage* usage) const {
  Json json = {{"id", head_.id}, {"object", "response"}, {"created_at", head_.created}, {"status", status}};
  json["completed_at"] = std::string_view(status) == "completed" ? Json(unix_seconds()) : Json();
  json["error"] = problem_;
  json["incomplete_details"] = cut_ ? Json{{"reason", cut_}} : Json();
  json["model"] = head_.model;
  json["output"] = output_;
  json.update(request_.echo);
  json["usage"] = usage ? responses_usage(*usage) : Json();
  if (usage) json["anabranch"] = extension(head_, *usage);
  if (usage && !request_.tools.left_out.empty())
    json["anabranch"]["left_out_tools"] = request_.tools.left_out;
  if (!stopped_.empty()) json["anabranch"]["stopped"] = stopped_;
  if (!not_kept_.empty()) json["anabranch"]["not_kept"] = not_kept_;
  if (usage && !request_.conversation.empty())
    for (const MessageId id : request_.keeper->messages())
      json["anabranch"]["message_ids"].push_back(message_name(id));
  return json;
}

std::string ResponsesWriter::begin(AnswerHead head, size_t) {
  head_ = std::move(head);
  std::string out = emit("response.created", {{"response", response("in_progress", nullptr)}});
  out += emit("response.in_progress", {{"response", response("in_progress", nullptr)}});
  for (const McpList& list : request_.tools.lists) out += list_tools(list);
  return out;
}

// An event about an item of MCP's types.
std::string ResponsesWriter::about_call(const char* event, const Json& item, size_t index, Json more) {
  Json fields = {{"item_id", item["id"]}, {"output_index", index}};
  fields.update(more);
  return emit(event, std::move(fields));
}

// Lists the tools of a server when a conversation begins; later only if listing them failed.
std::string ResponsesWriter::list_tools(const McpList& list) {
  if (!request_.begins && list.error.empty()) return "";
  Json item = {{"type", "mcp_list_tools"}, {"id", random_id("mcpl_")}, {"server_label", list.server}};
  item["tools"] = Json::array();
  const size_t index = output_.size();
  std::string out = emit("response.output_item.added", {{"output_index", index}, {"item", item}});
  out += about_call("response.mcp_list_tools.in_progress", item, index);
  item["tools"] = list.tools;
  if (!list.error.empty()) item["error"] = list.error;
  out +=
      about_call(list.error.empty() ? "response.mcp_list_tools.completed" : "response.mcp_list_tools.failed",
                 item, index);
  out += emit("response.output_item.done", {{"output_index", index}, {"item", item}});
  output_.push_back(std::move(item));
  return out;
}

std::string ResponsesWriter::call_started(const AgentCall& call) {
  const std::string arguments =
      call.arguments.is_string() ? call.arguments.get<std::string>() : dump_json(call.arguments);
  Json item = {{"type", "mcp_call"},
               {"id", call_id_with("mcp_", call.id)},
               {"server_label", call.tool.server},
               {"name", call.tool.name},
               {"arguments", arguments},
               {"output", nullptr},
               {"error", nullptr},
               {"approval_request_id", call_id_with("mcpr_", call.id)},
               {"status", "in_progress"}};
  const size_t index = output_.size();
  std::string out = emit("response.output_item.added", {{"output_index", index}, {"item", item}});
  out += about_call("response.mcp_call.in_progress", item, index);
  out += about_call("response.mcp_call_arguments.done", item, index, {{"arguments", arguments}});
  output_.push_back(std::move(item));
  return out;
}

std::string ResponsesWriter::call_finished(const AgentCall& call, const mcp::CallResult& result) {
  const std::string id = call_id_with("mcp_", call.id);
  for (size_t index = 0; index < output_.size(); ++index) {
    Json& item = output_[index];
    if (item["id"] != id) continue;
    item[result.is_error ? "error" : "output"] = result.text;
    item["status"] = result.is_error ? "failed" : "completed";
    std::string out =
        about_call(result.is_error ? "response.mcp_call.failed" : "response.mcp_call.completed", item, index);
    return out += emit("response.output_item.done", {{"output_index", index}, {"item", item}});
  }
  return "";
}

std::string ResponsesWriter::compacted(const Json& item) {
  std::string out = added(item);
  out += emit("response.output_item.done", {{"output_index", output_.size()}, {"item", item}});
  output_.push_back(item);
  return out;
}

// Which item, and which part of it, an event is about.
Json ResponsesWriter::place() const {
  Json place = {{"item_id", item_->json["id"]}, {"output_index", output_.size()}};
  if (item_->kind != Kind::call_begin) place["content_index"] = 0;
  return place;
}

Json ResponsesWriter::part_of(const Item& item) const {
  if (item.kind == Kind::reasoning) return {{"type", "reasoning_text"}, {"text", item.text}};
  return {{"type", "output_text"},
          {"text", item.text},
          {"annotations", Json::array()},
          {"logprobs", item.logprobs}};
}

std::string ResponsesWriter::open(Kind kind, const std::string& call_id, const std::string& name) {
  item_ = Item{kind, Json::object(), "", call_id, name};
  Json& json = item_->json;
  if (kind == Kind::reasoning) {
    json = {{"type", "reasoning"},
            {"id", random_id("rs_")},
            {"summary", Json::array()},
            {"content", Json::array()}};
  } else if (kind == Kind::content) {
    json = {
        {"type", "message"}, {"id", random_id("msg_")}, {"role", "assistant"}, {"content", Json::array()}};
  } else {
    json = call_item(request_.tools, name, call_id, "");
    if (!json.contains("id")) json["id"] = random_id("fc_");
  }
  const bool asks = string_at(json, "type") == "mcp_approval_request";
  if (!asks) json["status"] = "in_progress";
  std::string out = comes_whole(json) ? "" : added(json);
  if (string_at(json, "type") == "mcp_call")
    out += about_call("response.mcp_call.in_progress", json, output_.size());
  if (kind == Kind::call_begin) return out;
  Json part = place();
  part["part"] = part_of(*item_);
  return out + emit("response.content_part.added", std::move(part));
}

std::string ResponsesWriter::add_text(const std::string& text, const TakeLogprobs& logprobs) {
  item_->text += text;
  Json fields = place();
  fields["delta"] = text;
  if (item_->kind == Kind::reasoning) return emit("response.reasoning_text.delta", std::move(fields));
  fields["logprobs"] = Json::array();
  if (Json told = logprobs(); told.is_object() && told["content"].is_array()) {
    for (Json& one : told["content"]) item_->logprobs.push_back(one);
    fields["logprobs"] = std::move(told["content"]);
  }
  return emit("response.output_text.delta", std::move(fields));
}

std::string ResponsesWriter::event(size_t, const OutputEvent& event, const std::string& call_id,
                                   const TakeLogprobs& logprobs) {
  std::string out;
  if (event.kind == Kind::call_begin) {
    out = close("completed");
    return out += open(event.kind, call_id, event.text);
  }
  if (event.kind == Kind::call_arguments) {
    item_->text += event.text;
    // The other kinds of calls are made from the whole arguments.
    if (string_at(item_->json, "type") != "function_call") return "";
    Json fields = place();
    fields["delta"] = event.text;
    return emit("response.function_call_arguments.delta", std::move(fields));
  }
  if (event.kind == Kind::call_end) return close("completed");
  if (!item_ || item_->kind != event.kind) {
    out = close("completed");
    out += open(event.kind, "", "");
  }
  return out += add_text(event.text, logprobs);
}

std::string ResponsesWriter::close_text(Item& item, const char* status) {
  const bool thought = item.kind == Kind::reasoning;
  Json text = place(), part = place();
  text["text"] = item.text;
  if (!thought) text["logprobs"] = item.logprobs;
  part["part"] = part_of(item);
  std::string out =
      emit(thought ? "response.reasoning_text.done" : "response.output_text.done", std::move(text));
  out += emit("response.content_part.done", std::move(part));
  item.json["content"].push_back(part_of(item));
  item.json["status"] = status;
  if (thought && request_.sealed_thoughts)
    item.json["encrypted_content"] = context_->sealer.seal(item.text, kSealedThought, request_.owner);
  return out;
}

// The event for a new item.
std::string ResponsesWriter::added(const Json& item) {
  return emit("response.output_item.added", {{"output_index", output_.size()}, {"item", item}});
}

// The call has ended. A function's arguments have been sent; those of other calls are sent as one delta.
std::string ResponsesWriter::close_call(Item& item) {
  Json done = call_item(request_.tools, item.name, item.call_id, item.text);
  const std::string type = string_at(done, "type");
  done["id"] = item.json["id"];
  std::string out;
  if (comes_whole(done)) {
    done["status"] = "in_progress";
    out = added(done);
  }
  const char* ended = parse_json(item.text).ok() ? "completed" : "incomplete";
  if (type != "mcp_approval_request") done["status"] = type == "mcp_call" ? "in_progress" : ended;
  item.json = std::move(done);
  for (auto& [event, fields] : call_events(item.json, output_.size()))
    if (event != "response.function_call_arguments.delta") out += emit(event.c_str(), std::move(fields));
  return out;
}

std::string ResponsesWriter::close(const char* status) {
  if (!item_) return "";
  std::string out = item_->kind == Kind::call_begin ? close_call(*item_) : close_text(*item_, status);
  // A call that this server runs is done when its result has come.
  if (string_at(item_->json, "type") != "mcp_call")
    out += emit("response.output_item.done", {{"output_index", output_.size()}, {"item", item_->json}});
  output_.push_back(std::move(item_->json));
  item_.reset();
  return out;
}

std::string ResponsesWriter::choice_finished(size_t, const AnswerEnd& end, const TakeLogprobs&) {
  if (end.finish == FinishReason::length) cut_ = "max_output_tokens";
  return close(cut_ ? "incomplete" : "completed");
}

std::string ResponsesWriter::finish(const std::vector<AnswerEnd>& ends, const Usage& total) {
  stopped_ = ends[0].stopped;
  not_kept_ = ends[0].not_kept;
  if (!stopped_.empty()) cut_ = "max_tool_calls";
  std::string last;
  for (size_t i = 0; i < output_.size(); ++i) {
    Json& item = output_[i];
    if (string_at(item, "type") != "mcp_call" || item["status"] != "in_progress") continue;
    // The answer was cut off before it could be run.
    item["status"] = "incomplete";
    item["error"] = "This was not run";
    last += emit("response.output_item.done", {{"output_index", i}, {"item", item}});
  }
  const char* status = cut_ ? "incomplete" : "completed";
  const Json whole = response(status, &total);
  if (request_.keeper && request_.store && not_kept_.empty())
    if (const auto put = request_.keeper->put_response(head_.id, whole, request_.input_items); !put)
      log_warning("{} cannot be referred to: {}", head_.id, put.error().message);
  if (!is_stream()) return dump_json(whole);
  return last + emit(cut_ ? "response.incomplete" : "response.completed", {{"response", whole}});
}

std::string ResponsesWriter::failure(const ApiError& error) {
  problem_ = {{"code", error.status == 503 ? "server_is_overloaded" : "server_error"},
              {"message", error.message}};
  std::string out = emit("error", {{"code", error.code}, {"message", error.message}, {"param", nullptr}});
  return out + emit("response.failed", {{"response", response("failed", nullptr)}});
}

}  // namespace anabranch::server
