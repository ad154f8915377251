#include "server/api/api.h"

#include <algorithm>

#include "base/clock.h"
#include "chat/speculation_json.h"
#include "server/api/static_files.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kMessages = "/v1/messages";  // errors below it have Anthropic's form

HttpResponse error_response_for(std::string_view path, const ApiError& error) {
  return path.starts_with(kMessages) ? message_error_response(error) : error_response(error);
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = dump_json(json);
  return response;
}

Json model_json(const ModelInfo& info, int64_t created) {
  return {{"id", info.name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "anabranch"},
          {"context_length", info.context_length}};
}

// Served without a key: the files are the same on every server of this version, and a browser page cannot
// send a key.
HttpResponse file_response(std::string_view content_type, std::string_view body) {
  HttpResponse response;
  response.content_type = content_type;
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
                                "style-src 'unsafe-inline'; frame-ancestors 'none'");
  response.body = body;
  return response;
}

// The loaded model, for /health.
Json loaded_json(const ModelInfo& info) {
  Json sources = Json::array();
  for (const DraftSource source : info.draft_sources) sources.push_back(name_of(source));
  return {{"id", info.name},
          {"family", info.family},
          {"parameters", info.parameters},
          {"layers", info.layers},
          {"lossy", info.lossy},
          {"context_length", info.context_length},
          {"has_mtp", info.has_mtp},
          {"draft_model", info.draft_model.empty() ? Json() : Json(info.draft_model)},
          {"draft_sources", std::move(sources)},
          {"weight_bytes", info.weight_bytes + info.draft_model_bytes},
          {"weight_bytes_of",
           {{"model", info.weight_bytes - info.mtp_bytes - info.draft_head_bytes},
            {"mtp_head", info.mtp_bytes},
            {"draft_head", info.draft_head_bytes},
            {"draft_model", info.draft_model_bytes}}},
          {"sequence_bytes",
           {{"per_token", info.kv_bytes_per_token},
            {"fixed", info.state_bytes},
            {"drafts_per_token", info.draft_kv_bytes_per_token},
            {"drafts_fixed", info.draft_state_bytes}}}};
}

// Whether the content type is acceptable. Programs may also send no type, or the form type, which curl -d
// uses for JSON. Web pages may not, because browsers send both without a preflight.
bool is_json_type(const HttpRequest& request) {
  const std::string* header = request.header("content-type");
  const bool program = !is_from_page(request);
  if (!header) return program;
  std::string type = lower_case(header->substr(0, header->find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type == "application/json" || type == "text/json" ||
         (program && type == "application/x-www-form-urlencoded");
}

// Whether the body is compressed, which is not supported.
bool is_encoded(const HttpRequest& request) {
  const std::string* encoding = request.header("content-encoding");
  return encoding && lower_case(*encoding) != "identity";
}

bool has_method(const HttpRequest& request, const Route& route) {
  return request.method == route.method || (request.method == "HEAD" && route.method == "GET");
}

// null if the engine has no state cache.
Json cache_json(const std::optional<StateCacheStats>& stats) {
  if (!stats) return nullptr;
  Json disk = nullptr;
  if (stats->on_disk)
    disk = {{"writable", stats->disk_writable},         {"bytes", stats->disk_bytes},
            {"budget_bytes", stats->disk_budget_bytes}, {"written_bytes", stats->disk_written_bytes},
            {"dropped", stats->disk_dropped},           {"failed", stats->disk_failed},
            {"corrupt", stats->disk_corrupt},           {"evicted", stats->disk_evicted},
            {"last_reason", stats->disk_last_reason}};
  return {{"kv", to_string(stats->kv)},
          {"lookups", stats->lookups},
          {"ram_hits", stats->ram_hits},
          {"disk_hits", stats->disk_hits},
          {"prompt_tokens", stats->prompt_tokens},
          {"cached_tokens", stats->cached_tokens},
          {"ram_tokens", stats->ram_tokens},
          {"disk_tokens", stats->disk_tokens},
          {"misses",
           {{"nothing_alike", stats->misses.nothing_alike},
            {"new_text", stats->misses.new_text},
            {"differs", stats->misses.differs},
            {"no_state", stats->misses.no_state},
            {"lost", stats->misses.lost}}},
          {"no_state_tokens", stats->no_state_tokens},
          {"lost_tokens", stats->lost_tokens},
          {"ram_bytes", stats->ram_bytes},
          {"blocks", stats->blocks},
          {"points", stats->points},
          {"last_miss", stats->last_miss},
          {"disk", std::move(disk)}};
}

}  // namespace

Api::Api(Engine& engine, WorkerPool& workers, Post post, AccessRules access, ApiKeys keys, ApiOptions options)
    : engine_(engine),
      generations_(engine, workers, std::move(post), metrics_, std::move(options)),
      access_(std::move(access)),
      keys_(std::move(keys)),
      started_(now_seconds()),
      created_(unix_seconds()) {}

// The parsed head of a request.
struct Api::Call {
  Target target;
  RouteMatch match;
  bool admitted = false;  // the request has a valid key, or none is required
};

Result<Api::Call> Api::read_head(const HttpRequest& request) const {
  Call call;
  TRY(call.target, parse_target(request.target));
  call.match = find_route(call.target.path);
  call.admitted = keys_.admit(request);
  return call;
}

std::optional<ApiError> Api::find_fault(const HttpRequest& request, const Call& call) const {
  const Route* route = call.match.route;
  if (!call.admitted && (!route || route->needs_key))
    return ApiError{401,
                    "This server asks for an API key, and the request shows none that it knows: send "
                    "'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                    "", "invalid_api_key"};
  if (!route)
    return ApiError{404, fmt::format("Unknown route: {} {}", request.method, call.target.path), "",
                    "unknown_url"};
  if (!has_method(request, *route))
    return ApiError{405,
                    fmt::format("{} is not allowed here; use {}", request.method, allowed_methods(*route)),
                    "", "method_not_allowed"};
  if (route->method != "POST") return std::nullopt;
  if (stopping_) return ApiError{503, "The server is shutting down", "", "shutting_down"};
  if (engine_.device_lost())
    return ApiError{503, "The device failed, as the server's log tells; the server must be started again", "",
                    "device_lost"};
  if (!is_json_type(request))
    return ApiError{415, "The request body must be JSON: send 'Content-Type: application/json'", "",
                    "unsupported_media_type"};
  if (is_encoded(request))
    return ApiError{
        415,
        fmt::format("The request body must not be compressed: send it without 'Content-Encoding: {}'",
                    *request.header("content-encoding")),
        "", "unsupported_media_type"};
  return std::nullopt;
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request) const {
  return refusal(request, read_head(request));
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request, const Result<Call>& call) const {
  if (!call.ok()) return error_response({400, call.error().message, "", "bad_request"});
  const auto answer = [&](const ApiError& error) { return error_response_for(call->target.path, error); };
  if (auto error = check_access(request, call->target, access_)) return answer(*error);
  if (auto response = preflight_response(request, access_)) return response;
  const auto error = find_fault(request, *call);
  if (!error) return std::nullopt;
  HttpResponse response = answer(*error);
  if (error->status == 405) response.headers.emplace_back("Allow", allowed_methods(*call->match.route));
  if (error->status == 415) response.headers.emplace_back("Accept-Encoding", "identity");
  return response;
}

HttpResponse Api::error(const RequestName& request, const ApiError& error) const {
  const auto target = parse_target(request.target);
  return error_response_for(target.ok() ? target->path : "", error);
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> out) {
  const auto call = read_head(request);
  if (auto response = refusal(request, call)) return out->respond(std::move(*response));
  const auto& handler = call->match.route->handler;
  if (const auto* kind = std::get_if<AnswerKind>(&handler))
    return generations_.start(*kind, std::move(request), std::move(out));
  out->respond(page(std::get<Page>(handler), *call));
}

HttpResponse Api::page(Page page, const Call& call) const {
  switch (page) {
    case Page::models:
      return models();
    case Page::model:
      return model(call.match.id);
    case Page::health:
      return call.admitted ? health() : short_health();
    case Page::metrics:
      return metrics();
    case Page::openapi:
      return file_response("application/json", kOpenApiJson);
    case Page::docs:
      return file_response("text/html; charset=utf-8", kDocsPage);
    case Page::welcome:
      break;
  }
  return welcome();
}

void Api::responded(const RequestName& request, int status) {
  const auto target = parse_target(request.target);
  metrics_.responded(route_label(target.ok() ? find_route(target->path).route : nullptr), status);
}

HttpResponse Api::metrics() const {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(engine_.stats(), engine_.info(), engine_.expert_rows());
  return response;
}

HttpResponse Api::models() const {
  return json_response({{"object", "list"}, {"data", Json::array({model_json(engine_.info(), created_)})}});
}

HttpResponse Api::model(const std::string& id) const {
  if (!generations_.defaults().accepts_model(id))
    return error_response(
        {404, fmt::format("The model '{}' is not loaded here", id), "model", "model_not_found"});
  return json_response(model_json(engine_.info(), created_));
}

std::string_view Api::status() const {
  return stopping_ ? "stopping" : engine_.device_lost() ? "device_lost" : "ok";
}

HttpResponse Api::health() const {
  const EngineStats stats = engine_.stats();
  const std::string_view state = status();
  HttpResponse response = json_response({{"status", state},
                                         {"version", ANABRANCH_VERSION},
                                         {"uptime_s", now_seconds() - started_},
                                         {"model", loaded_json(engine_.info())},
                                         {"engine",
                                          {{"running", stats.running},
                                           {"queued", stats.queued},
                                           {"preempted", stats.preempted},
                                           {"state_bytes", stats.state_bytes},
                                           {"state_budget_bytes", stats.state_budget_bytes},
                                           {"requests", stats.requests},
                                           {"finished", stats.finished},
                                           {"cancelled", stats.cancelled},
                                           {"failed", stats.failed},
                                           {"prompt_tokens", stats.prompt_tokens},
                                           {"completion_tokens", stats.completion_tokens},
                                           {"speculation", speculation_json(stats.speculation)}}},
                                         {"cache", cache_json(stats.cache)}});
  if (state != "ok") response.status = 503;
  return response;
}

HttpResponse Api::short_health() const {
  const std::string_view state = status();
  HttpResponse response = json_response({{"status", state}});
  if (state != "ok") response.status = 503;
  return response;
}

HttpResponse Api::welcome() const {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  const auto list = [](Listed heading) {
    std::string lines;
    for (const Route& route : routes())
      if (route.listed == heading)
        lines += fmt::format("{:4} {}{}\n", route.method, route.path,
                             route.handler == decltype(route.handler)(Page::docs) ? " (the whole API)" : "");
    return lines;
  };
  response.body = fmt::format(
      "Anabranch {} serves {} here, for OpenAI clients: base URL http://<this host>/v1\n\n{}\n"
      "For Anthropic clients: base URL http://<this host>\n\n{}",
      ANABRANCH_VERSION, engine_.info().name, list(Listed::openai), list(Listed::anthropic));
  return response;
}

}  // namespace anabranch::server
