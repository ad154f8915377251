#include "server/api/anthropic/format.h"

#include <utility>

namespace anabranch::server {
namespace {

// The key that Anthropic's documentation of streamed tool input proposes for input that is no JSON.
constexpr const char* kNotWhole = "INVALID_JSON";

using Kind = OutputEvent::Kind;

// The event's name is written twice: on its own line and in its data.
std::string event_text(const Json& json) {
  return fmt::format("event: {}\ndata: {}\n\n", json["type"].get_ref<const std::string&>(), dump_json(json));
}

const char* stop_reason(const AnswerEnd& end) {
  if (!end.stop_sequence.empty()) return "stop_sequence";
  if (end.context_full) return "model_context_window_exceeded";
  if (end.finish == FinishReason::length) return "max_tokens";
  if (!end.stopped.empty()) return "pause_turn";
  return end.calls > 0 ? "tool_use" : "end_turn";
}

Json reason_json(const AnswerEnd& end) {
  return {{"stop_reason", stop_reason(end)},
          {"stop_sequence", end.stop_sequence.empty() ? Json(nullptr) : Json(end.stop_sequence)}};
}

Json message_json(const AnswerHead& head) {
  return {{"id", head.id}, {"type", "message"}, {"role", "assistant"}, {"model", head.model}};
}

Json error_json_of(const ApiError& error, int status) {
  const char* type = status >= 500 ? "api_error" : "invalid_request_error";
  if (status == 401) type = "authentication_error";
  if (status == 403) type = "permission_error";
  if (status == 404) type = "not_found_error";
  if (status == 413) type = "request_too_large";
  if (status == 429) type = "rate_limit_error";
  if (status == 504) type = "timeout_error";
  if (status == 529) type = "overloaded_error";
  // Clients recognise these words and shorten the conversation.
  const bool too_long = error.code == "context_length_exceeded";
  return {{"type", "error"},
          {"error", {{"type", type}, {"message", (too_long ? "prompt is too long: " : "") + error.message}}}};
}

// Anthropic's 429 means that one client sends too many requests, its 529 that the server's queue is full.
int status_of(const ApiError& error) {
  const bool full = error.status == 429 && error.code == "queue_full";
  return full || error.status == 503 ? 529 : error.status;
}

}  // namespace

// In Anthropic's API input_tokens does not include tokens that were read from the cache or stored in it.
Json MessageWriter::usage_json(const Usage& usage) const {
  const int stored = writes_.five_minutes + writes_.hour;
  return {
      {"input_tokens", usage.prompt_tokens - usage.cached_tokens - stored},
      {"cache_creation_input_tokens", stored},
      {"cache_read_input_tokens", usage.cached_tokens},
      {"cache_creation",
       {{"ephemeral_5m_input_tokens", writes_.five_minutes}, {"ephemeral_1h_input_tokens", writes_.hour}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", {{"thinking_tokens", usage.thinking_tokens}}}};
}

// A content block before its first text. The signature is empty, because only Anthropic can sign its
// thinking.
Json MessageWriter::empty_block(Kind kind, const std::string& call_id, const std::string& name) const {
  if (kind == Kind::reasoning) return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  if (kind == Kind::content) return {{"type", "text"}, {"text", ""}};
  if (const auto tool = tools_.answered_here(name))
    return {{"type", "mcp_tool_use"},
            {"id", call_id_with("mcptoolu_", call_id)},
            {"name", tool->name},
            {"server_name", tool->server},
            {"input", Json::object()}};
  return {{"type", "tool_use"}, {"id", call_id}, {"name", name}, {"input", Json::object()}};
}

// Copies the input as the model wrote it, because parsing it as JSON might change its numbers. That of a call
// that was cut off is marked, so that nobody takes its part for the whole.
std::string MessageWriter::text_of(const Block& block) {
  if (block.kind == Kind::call_end) return block.text;
  Json json = block.start;
  if (block.kind != Kind::call_begin) {
    json[block.kind == Kind::reasoning ? "thinking" : "text"] = block.text;
    return dump_json(json);
  }
  json.erase("input");
  std::string text = dump_json(json);
  text.pop_back();
  Json marked = Json::object();
  marked[kNotWhole] = block.text;
  return text + ",\"input\":" + (parse_json(block.text).ok() ? block.text : dump_json(marked)) + "}";
}

void MessageWriter::add(const OutputEvent& event, const std::string& call_id) {
  if (event.kind == Kind::call_begin)
    return blocks_.push_back({event.kind, "", empty_block(event.kind, call_id, event.text)});
  if (event.call < 0 && (blocks_.empty() || blocks_.back().kind != event.kind))
    blocks_.push_back({event.kind, "", empty_block(event.kind, "", "")});
  blocks_.back().text += event.text;
}

std::string MessageWriter::call_finished(const AgentCall& call, const mcp::CallResult& result) {
  const Json block = {{"type", "mcp_tool_result"},
                      {"tool_use_id", call_id_with("mcptoolu_", call.id)},
                      {"is_error", result.is_error},
                      {"content", Json::array({{{"type", "text"}, {"text", result.text}}})}};
  if (!is_stream()) {
    blocks_.push_back({Kind::call_end, dump_json(block), {}});
    return "";
  }
  std::string out = close();
  out += event_text({{"type", "content_block_start"}, {"index", ++index_}, {"content_block", block}});
  return out + event_text({{"type", "content_block_stop"}, {"index", index_}});
}

std::string MessageWriter::whole(const AnswerEnd& end) const {
  Json json = message_json(head_);
  json.update(reason_json(end));
  json["usage"] = usage_json(end.usage);
  json["anabranch"] = extension_of(end);
  std::string text = dump_json(json);
  text.pop_back();
  text += ",\"content\":[";
  for (size_t i = 0; i < blocks_.size(); ++i) text += (i ? "," : "") + text_of(blocks_[i]);
  return text + "]}";
}

// The answer's field "anabranch".
Json MessageWriter::extension_of(const AnswerEnd& end) const {
  Json json = extension(head_, end.usage);
  if (!left_out_tools_.empty()) json["left_out_tools"] = left_out_tools_;
  return json;
}

std::string MessageWriter::begin(AnswerHead head, size_t) {
  head_ = std::move(head);
  return "";
}

// Sends the first event of a stream: it needs the number of cached tokens, which begin() does not have.
std::string MessageWriter::started(const Usage& usage) {
  if (std::exchange(started_, true)) return "";
  writes_ = cache_writes(marks_, usage.cached_tokens);
  if (!is_stream()) return "";
  Json message = message_json(head_);
  message["content"] = Json::array();
  message["stop_reason"] = nullptr;
  message["stop_sequence"] = nullptr;
  message["usage"] = usage_json(usage);
  return event_text({{"type", "message_start"}, {"message", std::move(message)}});
}

std::string MessageWriter::open(const OutputEvent& event, const std::string& call_id) {
  std::string out = close();
  inside_ = event.kind;
  if (event.kind == Kind::call_begin && tools_.answered_here(event.text)) own_input_ = "";
  out += event_text({{"type", "content_block_start"},
                     {"index", ++index_},
                     {"content_block", empty_block(event.kind, call_id, event.text)}});
  return out;
}

std::string MessageWriter::delta(Json delta) const {
  return event_text({{"type", "content_block_delta"}, {"index", index_}, {"delta", std::move(delta)}});
}

std::string MessageWriter::close() {
  if (!inside_) return "";
  std::string out;
  if (inside_ == Kind::reasoning) out = delta({{"type", "signature_delta"}, {"signature", ""}});
  inside_.reset();
  return out + event_text({{"type", "content_block_stop"}, {"index", index_}});
}

std::string MessageWriter::event(size_t, const OutputEvent& event, const std::string& call_id,
                                 const TakeLogprobs&) {
  if (!is_stream()) {
    add(event, call_id);
    return "";
  }
  switch (event.kind) {
    case Kind::call_begin:
      return open(event, call_id);
    case Kind::call_arguments:
      if (!own_input_) return delta({{"type", "input_json_delta"}, {"partial_json", event.text}});
      *own_input_ += event.text;
      return "";
    case Kind::call_end: {
      const auto input = std::exchange(own_input_, std::nullopt);
      return (input ? delta({{"type", "input_json_delta"}, {"partial_json", *input}}) : "") + close();
    }
    default:
      break;
  }
  std::string out = inside_ == event.kind ? "" : open(event, "");
  const bool thinking = event.kind == Kind::reasoning;
  Json piece = {{"type", thinking ? "thinking_delta" : "text_delta"}};
  piece[thinking ? "thinking" : "text"] = event.text;
  return out + delta(std::move(piece));
}

std::string MessageWriter::finish(const std::vector<AnswerEnd>& ends, const Usage& total) {
  AnswerEnd end = ends.front();
  // The usage of all turns, if there were several.
  end.usage.prompt_tokens = total.prompt_tokens;
  end.usage.cached_tokens = total.cached_tokens;
  end.usage.completion_tokens = total.completion_tokens;
  end.usage.thinking_tokens = total.thinking_tokens;
  if (!is_stream()) return whole(end);
  std::string out = close();
  out += event_text({{"type", "message_delta"},
                     {"delta", reason_json(end)},
                     {"usage", usage_json(end.usage)},
                     {"anabranch", extension_of(end)}});
  return out + event_text({{"type", "message_stop"}});
}

std::string MessageWriter::failure(const ApiError& error) {
  return event_text(error_json_of(error, status_of(error)));
}

HttpResponse message_error_response(const ApiError& error) {
  HttpResponse response = error_response(error);  // for its headers
  response.status = status_of(error);
  response.body = dump_json(error_json_of(error, response.status));
  return response;
}

}  // namespace anabranch::server
