#include "server/api/request_span.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/routes.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostReasons = 16;  // of finishing that a span tells

// The values of gen_ai.operation.name. Requests of other kinds have no span.
constexpr std::pair<AnswerKind, std::string_view> kOperations[] = {
    {AnswerKind::chat, "chat"},
    {AnswerKind::response, "chat"},
    {AnswerKind::compaction, "chat"},
    {AnswerKind::message, "chat"},
    {AnswerKind::ollama_chat, "chat"},
    {AnswerKind::completion, "text_completion"},
    {AnswerKind::generate, "text_completion"},
    {AnswerKind::llama_completion, "text_completion"},
    {AnswerKind::infill, "text_completion"},
    {AnswerKind::ollama_generate, "text_completion"},
    {AnswerKind::embedding, "embeddings"},
    {AnswerKind::ollama_embed, "embeddings"},
    {AnswerKind::ollama_embedding, "embeddings"},
    {AnswerKind::rerank, "rerank"},
};

std::string_view operation_of(const Route& route) {
  const auto* kind = std::get_if<AnswerKind>(&route.handler);
  const auto* found =
      std::ranges::find_if(kOperations, [&](const auto& row) { return kind && row.first == *kind; });
  return found == std::end(kOperations) ? "" : found->second;
}

// The route that answered; null: none takes such a request.
const Route* route_of(const RequestName& name) {
  const auto target = parse_target(name.target);
  const Route* route = target ? find_route(target->path, name.method).route : nullptr;
  return route && takes_method(*route, name.method) ? route : nullptr;
}

// Why the request failed, in a word; empty: it did not.
std::string error_of(const EndedRequest& request, const AnswerNote& note) {
  if (!note.error.empty()) return note.error;
  if (request.status >= 400) return std::to_string(request.status);
  return request.cut_off ? "cancelled" : "";
}

// The attributes that are known once a model has taken the request.
void add_answer(Json& attributes, const AnswerNote& note) {
  if (note.max_tokens >= 0) attributes["gen_ai.request.max_tokens"] = note.max_tokens;
  if (note.temperature) attributes["gen_ai.request.temperature"] = shortest(*note.temperature);
  if (note.top_p) attributes["gen_ai.request.top_p"] = shortest(*note.top_p);
  attributes["gen_ai.response.model"] = note.model;
  if (!note.id.empty()) attributes["gen_ai.response.id"] = note.id;
  if (!note.finish.empty()) {
    const size_t count = std::min(note.finish.size(), kMostReasons);
    attributes["gen_ai.response.finish_reasons"] =
        std::vector<std::string>(note.finish.begin(), note.finish.begin() + static_cast<long>(count));
  }
  attributes["gen_ai.usage.input_tokens"] = note.prompt_tokens;
  attributes["gen_ai.usage.output_tokens"] = note.completion_tokens;
  for (const char* name : {"gen_ai.usage.cache_read.input_tokens", "anabranch.cached_tokens"})
    attributes[name] = note.cached_tokens;  // the first name is new in the conventions
}

int64_t nanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

}  // namespace

std::optional<Span> request_span(const EndedRequest& request, const Moment& end) {
  const Route* route = route_of(request.name);
  const std::string operation(route ? operation_of(*route) : "");
  if (operation.empty() || (request.parent && !request.parent->sampled)) return std::nullopt;
  static const AnswerNote kNone;
  const AnswerNote& note = request.note ? *request.note : kNone;
  const std::string& model = note.asked_model.empty() ? note.model : note.asked_model;
  const std::string error = error_of(request, note);

  Span span;
  if (request.parent) {
    span.trace_id = request.parent->trace_id;
    span.parent_id = request.parent->span_id;
  }
  span.name = model.empty() ? operation : operation + " " + model;
  span.begin = end.unix_nanoseconds - nanoseconds(request.seconds);
  span.end = end.unix_nanoseconds;
  Json& attributes = span.attributes;
  attributes = {{"gen_ai.operation.name", operation}, {"gen_ai.provider.name", "anabranch"}};
  if (!model.empty()) attributes["gen_ai.request.model"] = model;
  if (note.given()) add_answer(attributes, note);
  attributes["http.request.method"] = request.name.method;
  attributes["http.route"] = route->path;
  attributes["url.path"] = request.path;
  if (request.status > 0) attributes["http.response.status_code"] = request.status;
  if (!error.empty()) attributes["error.type"] = error;
  attributes["anabranch.request_id"] = request.name.id;
  const std::pair<const char*, double> times[] = {{"anabranch.submitted", note.submitted},
                                                  {"anabranch.started", note.started},
                                                  {"anabranch.first_tokens", note.first_tokens}};
  for (const auto& [name, at] : times)
    if (at > 0) span.events.emplace_back(name, end.unix_nanoseconds - nanoseconds(end.seconds - at));
  // As for HTTP servers: a request that is at fault itself, or whose client has left, is no failure.
  span.failed = request.status >= 500 || (request.status < 400 && !note.error.empty());
  return span;
}

}  // namespace anabranch::server
