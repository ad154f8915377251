#include "server/api/api.h"

#include <algorithm>

#include "base/clock.h"
#include "server/api/speculation_json.h"
#include "server/api/static_files.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kHealth = "/health", kMetrics = "/metrics";
constexpr std::string_view kOpenApi = "/openapi.json", kDocs = "/docs";

// What answers a POST to the path; nothing: it is no such route.
std::optional<AnswerKind> answer_kind(std::string_view path) {
  if (path == "/v1/chat/completions" || path == "/chat/completions") return AnswerKind::chat;
  if (path == "/v1/completions") return AnswerKind::completion;
  if (path == kMessages) return AnswerKind::message;
  if (path == "/v1/messages/count_tokens") return AnswerKind::token_count;
  return std::nullopt;
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

// The routes that are read, beside /v1/models/ID.
bool is_page(std::string_view path) {
  for (const std::string_view page : {kModels, kHealth, kMetrics, kOpenApi, kDocs, std::string_view("/")})
    if (path == page) return true;
  return false;
}

// The same for every server of this version: no secret, and a browser cannot show a key.
HttpResponse file_response(std::string_view content_type, std::string_view body) {
  HttpResponse response;
  response.content_type = content_type;
  response.headers.emplace_back("Content-Security-Policy",
                                "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; "
                                "style-src 'unsafe-inline'; frame-ancestors 'none'");
  response.body = body;
  return response;
}

// What is loaded, for /health.
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

// JSON. Programs may also say nothing, or form encoding, which is what curl -d claims for JSON. Pages may
// not: forms and requests without a type are what a browser sends for any page without asking first.
bool is_json_type(const HttpRequest& request) {
  const std::string* header = request.header("content-type");
  const bool program = !is_from_page(request);
  if (!header) return program;
  std::string type = lower_case(header->substr(0, header->find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type == "application/json" || type == "text/json" ||
         (program && type == "application/x-www-form-urlencoded");
}

// The body as such is read, and nothing decodes it.
bool is_encoded(const HttpRequest& request) {
  const std::string* encoding = request.header("content-encoding");
  return encoding && lower_case(*encoding) != "identity";
}

std::optional<ApiError> check_method(const HttpRequest& request, std::string_view allowed) {
  const bool reads = allowed == "GET, HEAD";
  if (reads ? request.method == "GET" || request.method == "HEAD" : request.method == allowed)
    return std::nullopt;
  return ApiError{405, fmt::format("{} is not allowed here; use {}", request.method, allowed), "",
                  "method_not_allowed"};
}

// null: the engine keeps no states.
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

Api::Api(Engine& engine, WorkerPool& workers, Post post, AccessRules access, ApiKeys keys,
         PrepareOptions options)
    : engine_(engine),
      generations_(engine, workers, std::move(post), metrics_, std::move(options)),
      access_(std::move(access)),
      keys_(std::move(keys)),
      started_(now_seconds()),
      created_(unix_seconds()) {}

// What a request asks for, as far as its head tells.
struct Api::Route {
  Target target;
  std::optional<AnswerKind> kind;  // of what answers a POST there
  bool names_model = false, admitted = false;
  const std::string& path() const { return target.path; }
  const char* method() const { return kind ? "POST" : "GET, HEAD"; }
};

Result<Api::Route> Api::route_of(const HttpRequest& request) const {
  Route route;
  TRY(route.target, parse_target(request.target));
  const std::string& path = route.path();
  route.kind = answer_kind(path);
  route.names_model = path.size() > kModels.size() + 1 && path.rfind("/v1/models/", 0) == 0;
  route.admitted = keys_.admit(request);
  return route;
}

std::optional<ApiError> Api::find_fault(const HttpRequest& request, const Route& route) const {
  const bool open = route.path() == kHealth || route.path() == kOpenApi || route.path() == kDocs;
  if (!route.admitted && !open)
    return ApiError{401,
                    "This server asks for an API key, and the request shows none that it knows: send "
                    "'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                    "", "invalid_api_key"};
  if (!route.kind && !route.names_model && !is_page(route.path()))
    return ApiError{404, fmt::format("Unknown route: {} {}", request.method, route.path()), "",
                    "unknown_url"};
  if (auto error = check_method(request, route.method())) return error;
  if (!route.kind) return std::nullopt;
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
  return refusal(request, route_of(request));
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request, const Result<Route>& route) const {
  const bool message = route.ok() ? route->path().rfind(kMessages, 0) == 0 : false;
  const auto answer = [&](const ApiError& error) {
    return message ? message_error_response(error) : error_response(error);
  };
  if (!route.ok()) return answer({400, route.error().message, "", "bad_request"});
  if (auto error = check_access(request, route->target, access_)) return answer(*error);
  if (auto response = preflight_response(request, access_)) return response;
  const auto error = find_fault(request, *route);
  if (!error) return std::nullopt;
  HttpResponse response = answer(*error);
  if (error->status == 405) response.headers.emplace_back("Allow", route->method());
  if (error->status == 415) response.headers.emplace_back("Accept-Encoding", "identity");
  return response;
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> out) {
  const auto found = route_of(request);
  if (auto response = refusal(request, found)) return out->respond(std::move(*response));
  const Route& route = *found;
  const std::string& path = route.path();
  if (route.kind) return generations_.start(*route.kind, std::move(request), std::move(out));
  if (path == kHealth) return out->respond(route.admitted ? health() : short_health());
  if (path == kMetrics) return out->respond(metrics());
  if (path == kOpenApi) return out->respond(file_response("application/json", kOpenApiJson));
  if (path == kDocs) return out->respond(file_response("text/html; charset=utf-8", kDocsPage));
  if (path == kModels) return out->respond(models());
  if (route.names_model) return out->respond(model(path.substr(kModels.size() + 1)));
  out->respond(welcome());
}

void Api::responded(const RequestName& request, int status) {
  const auto target = parse_target(request.target);
  metrics_.responded(target.ok() ? target->path : "", status);
}

HttpResponse Api::metrics() const {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(engine_.stats(), engine_.info());
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
  response.body = fmt::format(
      "Anabranch {} serves {} here, for OpenAI clients: base URL http://<this host>/v1\n\n"
      "POST /v1/chat/completions\nPOST /v1/completions\nGET  /v1/models\nGET  /health\nGET  /metrics\n"
      "GET  /docs (the whole API)\n\n"
      "For Anthropic clients: base URL http://<this host>\n\n"
      "POST /v1/messages\nPOST /v1/messages/count_tokens\n",
      ANABRANCH_VERSION, engine_.info().name);
  return response;
}

}  // namespace anabranch::server
