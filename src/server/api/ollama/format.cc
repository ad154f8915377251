#include "server/api/ollama/format.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>

#include "base/clock.h"

namespace anabranch::server {
namespace {

using Kind = OutputEvent::Kind;

int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

}  // namespace

HttpResponse ollama_error_response(const ApiError& error) {
  HttpResponse response = error_response(error);  // with its headers
  response.body = dump_json({{"error", error.message}});
  return response;
}

Json ollama_loaded(const std::string& model, bool generate, bool unloads) {
  Json json = {{"model", model}, {"created_at", rfc3339(unix_nanoseconds())}};
  if (generate)
    json["response"] = "";
  else
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  json["done"] = true;
  json["done_reason"] = unloads ? "unload" : "load";
  return json;
}

Json OllamaWriter::object(const std::string& content, const std::string& thinking, Json calls) const {
  Json json = {{"model", head_.model}, {"created_at", rfc3339(unix_nanoseconds())}};
  if (!is_chat()) {
    json["response"] = content;
    if (!thinking.empty()) json["thinking"] = thinking;
  } else {
    Json message = {{"role", "assistant"}, {"content", content}};
    if (!thinking.empty()) message["thinking"] = thinking;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    json["message"] = std::move(message);
  }
  json["done"] = false;
  return json;
}

std::string OllamaWriter::line(Json json, const Json& logprobs) const {
  if (logprobs.is_object() && logprobs.contains("content")) json["logprobs"] = logprobs["content"];
  return dump_json(json) + "\n";
}

std::string OllamaWriter::begin(AnswerHead head, size_t) {
  head_ = std::move(head);
  return "";
}

std::optional<Json> OllamaWriter::whole_call() const {
  const ToolCall& call = output_.calls.back();
  auto arguments = parse_json(call.arguments.empty() ? "{}" : call.arguments);
  if (!arguments || !arguments->is_object()) return std::nullopt;
  return Json{
      {"id", call_ids_.back()},
      {"function",
       {{"index", output_.calls.size() - 1}, {"name", call.name}, {"arguments", std::move(*arguments)}}}};
}

std::string OllamaWriter::event(size_t, const OutputEvent& event, const std::string& call_id,
                                const TakeLogprobs& logprobs) {
  const bool of_call = event.kind != Kind::content && event.kind != Kind::reasoning;
  if (of_call || !is_stream()) output_.add(event);
  if (event.kind == Kind::call_begin) call_ids_.push_back(call_id);
  if (event.kind == Kind::call_end) {
    auto call = whole_call();
    if (!call) return "";
    if (is_stream()) return line(object("", "", Json::array({std::move(*call)})), logprobs());
    calls_.push_back(std::move(*call));
  }
  if (of_call || !is_stream()) return "";
  const bool content = event.kind == Kind::content;
  return line(object(content ? event.text : "", content ? "" : event.text, nullptr), logprobs());
}

std::string OllamaWriter::choice_finished(size_t, const AnswerEnd&, const TakeLogprobs& logprobs) {
  logprobs_ = logprobs();
  return "";
}

std::string OllamaWriter::finish(const std::vector<AnswerEnd>& ends, const Usage& total) {
  const Usage& usage = ends.front().usage;
  Json json = is_stream() ? object("", "", nullptr) : object(output_.content, output_.reasoning, calls_);
  json["done"] = true;
  json["done_reason"] = ends.front().finish == FinishReason::length ? "length" : "stop";
  json["total_duration"] = nanoseconds(head_.load_s + usage.ttft_s + usage.decode_s);
  json["load_duration"] = nanoseconds(head_.load_s);
  json["prompt_eval_count"] = total.prompt_tokens;
  json["prompt_eval_duration"] = nanoseconds(usage.prefill_s);
  json["eval_count"] = total.completion_tokens;
  json["eval_duration"] = nanoseconds(usage.decode_s);
  json["anabranch"] = extension(head_, total);
  std::string text = line(std::move(json), logprobs_);
  if (!is_stream()) text.pop_back();
  return text;
}

std::string OllamaWriter::failure(const ApiError& error) {
  return dump_json({{"error", error.message}}) + "\n";
}

}  // namespace anabranch::server
