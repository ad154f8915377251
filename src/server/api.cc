#include "server/api.h"

#include <algorithm>

#include "base/clock.h"
#include "server/http_target.h"
#include "server/speculation_json.h"
#include "server/static_files.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kHealth = "/health", kMetrics = "/metrics";
constexpr std::string_view kOpenApi = "/openapi.json", kDocs = "/docs";

// What answers a POST to the path; nothing: it is no such route.
std::optional<AnswerKind> answer_kind(std::string_view path) {
  if (path == "/v1/chat/completions") return AnswerKind::chat;
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

// JSON, or nothing said; form encoding because that is what curl -d claims for JSON.
bool is_json_type(const HttpRequest& request) {
  const std::string* header = request.header("content-type");
  if (!header) return true;
  std::string type = header->substr(0, header->find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return type == "application/json" || type == "application/x-www-form-urlencoded" || type == "text/json";
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

std::optional<ApiError> check_access(const HttpRequest& request, const std::string& bound_host) {
  const auto hosts = std::count_if(request.headers.begin(), request.headers.end(),
                                   [](const auto& header) { return header.first == "host"; });
  if (hosts > 1) return ApiError{400, "More than one Host header", "", "bad_request"};
  const std::string* host = request.header("host");
  const auto name = host ? host_name(*host) : std::nullopt;
  if (host && !name) return ApiError{400, "Malformed Host header", "", "bad_request"};
  const std::string bound = listening_name(bound_host);
  const bool local_only = is_loopback_name(bound);
  if (local_only && name && !is_loopback_name(*name) && *name != bound)
    return ApiError{
        403,
        fmt::format("Host '{}' is not this machine: the server listens on {} only and answers to "
                    "localhost, 127.0.0.1 and [::1] (protection against DNS rebinding). A proxy in "
                    "front must send such a Host header",
                    *name, bound),
        "", "host_not_allowed"};
  // Browsers name the page that asks. Schemes other than http are applications, not pages from the web.
  const std::string* origin = request.header("origin");
  if (!origin) return std::nullopt;
  const auto page = origin_host(*origin);
  const bool web = *origin == "null" || origin->rfind("http://", 0) == 0 || origin->rfind("https://", 0) == 0;
  if (web && (!page || (!is_loopback_name(*page) && page != name)))
    return ApiError{403, "Requests from web pages of other sites are not allowed", "", "origin_not_allowed"};
  return std::nullopt;
}

Api::Api(Engine& engine, WorkerPool& workers, Post post, std::string bound_host, ApiKeys keys,
         PrepareOptions options)
    : engine_(engine),
      generations_(engine, workers, std::move(post), metrics_, std::move(options)),
      bound_host_(std::move(bound_host)),
      keys_(std::move(keys)),
      started_(now_seconds()),
      created_(unix_seconds()) {}

// What a request asks for, as far as its head tells.
struct Api::Route {
  std::string path;
  std::optional<AnswerKind> kind;  // of what answers a POST there
  bool names_model = false, admitted = false;
  const char* method() const { return kind ? "POST" : "GET, HEAD"; }
};

Result<Api::Route> Api::route_of(const HttpRequest& request) const {
  Route route;
  TRY(route.path, target_path(request.target));
  route.kind = answer_kind(route.path);
  route.names_model = route.path.size() > kModels.size() + 1 && route.path.rfind("/v1/models/", 0) == 0;
  route.admitted = keys_.admit(request);
  return route;
}

std::optional<ApiError> Api::find_fault(const HttpRequest& request, const Route& route) const {
  const bool open = route.path == kHealth || route.path == kOpenApi || route.path == kDocs;
  if (!route.admitted && !open)
    return ApiError{401,
                    "This server asks for an API key, and the request shows none that it knows: send "
                    "'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                    "", "invalid_api_key"};
  if (!route.kind && !route.names_model && !is_page(route.path))
    return ApiError{404, fmt::format("Unknown route: {} {}", request.method, route.path), "", "unknown_url"};
  if (auto error = check_method(request, route.method())) return error;
  if (!route.kind) return std::nullopt;
  if (stopping_) return ApiError{503, "The server is shutting down", "", "shutting_down"};
  if (engine_.device_lost())
    return ApiError{503, "The device failed, as the server's log tells; the server must be started again", "",
                    "device_lost"};
  if (!is_json_type(request))
    return ApiError{415, "The request body must be JSON: send 'Content-Type: application/json'", "",
                    "unsupported_media_type"};
  return std::nullopt;
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request) const {
  return refusal(request, route_of(request));
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request, const Result<Route>& route) const {
  const auto answer = [&](const ApiError& error) {
    return request.target.rfind(kMessages, 0) == 0 ? message_error_response(error) : error_response(error);
  };
  if (auto error = check_access(request, bound_host_)) return answer(*error);
  if (!route.ok()) return answer({400, route.error().message, "", "bad_request"});
  const auto error = find_fault(request, *route);
  if (!error) return std::nullopt;
  HttpResponse response = answer(*error);
  if (error->status == 405) response.headers.emplace_back("Allow", route->method());
  return response;
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> out) {
  const auto found = route_of(request);
  if (auto response = refusal(request, found)) return out->respond(std::move(*response));
  const Route& route = *found;
  const std::string& path = route.path;
  if (route.kind) return generations_.start(*route.kind, std::move(request), std::move(out));
  if (path == kHealth) return out->respond(route.admitted ? health() : short_health());
  if (path == kMetrics) return out->respond(metrics());
  if (path == kOpenApi) return out->respond(file_response("application/json", kOpenApiJson));
  if (path == kDocs) return out->respond(file_response("text/html; charset=utf-8", kDocsPage));
  if (path == kModels) return out->respond(models());
  if (route.names_model) return out->respond(model(path.substr(kModels.size() + 1)));
  out->respond(welcome());
}

void Api::responded(std::string_view target, int status) {
  metrics_.responded(target.substr(0, target.find('?')), status);
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
  const auto& names = generations_.defaults().model_names;
  if (std::find(names.begin(), names.end(), id) == names.end())
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
