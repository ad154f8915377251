#include "server/api/api.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/lower_case.h"
#include "base/memory_info.h"
#include "chat/speculation_json.h"
#include "server/api/anthropic/format.h"
#include "server/api/llama/pages.h"
#include "server/api/mcp_pages.h"
#include "server/api/ollama/format.h"
#include "server/api/router_pages.h"
#include "server/api/static_files.h"
#include "server/http/admission.h"
#include "server/http/target.h"
#include "server/web/web_files.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kMessages = "/v1/messages";  // errors below this path have Anthropic's format,
constexpr std::string_view kOllama = "/api/";           // and below this one Ollama's
constexpr std::string_view kModels = "/v1/models";      // for clients of both APIs

HttpResponse error_response_for(std::string_view path, const ApiError& error) {
  if (path.starts_with(kMessages)) return message_error_response(error);
  return path.starts_with(kOllama) ? ollama_error_response(error) : error_response(error);
}

// Whether the answer must have the format of Anthropic's API: below kMessages, and for its clients below
// kModels.
bool is_for_anthropic(std::string_view path, const HttpRequest& request) {
  return path.starts_with(kMessages) || (path.starts_with(kModels) && request.header("anthropic-version"));
}

// Sends a file that is part of the program. These files are served without a key: they are the same on every
// server of this version, and a browser page cannot send a key.
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

// Whether the content type is acceptable. Some programs send application/octet-stream, which pages cannot
// send without a preflight. Programs may also send no type, or the form type, which curl -d uses for JSON.
// Web pages may not, because browsers send both without a preflight. Applications that are made of pages
// may send text/plain, the type that a browser gives a text without one.
bool is_json_type(const HttpRequest& request) {
  const std::string* header = request.header("content-type");
  const bool program = !is_from_page(request);
  const bool application = program && request.header("origin");
  if (!header) return program;
  std::string type = lower_case(header->substr(0, header->find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type == "application/json" || type == "text/json" || type == "application/octet-stream" ||
         (program && type == "application/x-www-form-urlencoded") || (application && type == "text/plain");
}

// Whether the body is compressed, which is not supported.
bool is_encoded(const HttpRequest& request) {
  const std::string* encoding = request.header("content-encoding");
  return encoding && lower_case(*encoding) != "identity";
}

HttpResponse no_model_loaded() {
  return error_response({404, "No model is loaded; requests load one", "", "model_not_loaded"});
}

Json engine_json(const EngineStats& stats) {
  return {{"running", stats.running},
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
          {"speculation", speculation_json(stats.speculation)}};
}

// engine: null if no model is loaded.
Json memory_json(const Engine* engine) {
  const auto device = engine ? engine->device_memory() : std::nullopt;
  Json json = {{"machine", {{"total_bytes", machine_memory()}, {"available_bytes", available_memory()}}},
               {"process", {{"resident_bytes", resident_memory()}}},
               {"device", Json()}};
  if (device)
    json["device"] = {
        {"name", device->device}, {"total_bytes", device->total_bytes}, {"free_bytes", device->free_bytes}};
  return json;
}

// null if the engine has no prefix cache.
Json cache_json(const std::optional<StateCacheStats>& stats) {
  if (!stats) return nullptr;
  Json disk = nullptr;
  if (stats->on_disk)
    disk = {{"writable", stats->disk_writable},         {"bytes", stats->disk_bytes},
            {"budget_bytes", stats->disk_budget_bytes}, {"written_bytes", stats->disk_written_bytes},
            {"dropped", stats->disk_dropped},           {"failed", stats->disk_failed},
            {"corrupt", stats->disk_corrupt},           {"evicted", stats->disk_evicted},
            {"last_reason", stats->disk_last_reason}};
  Json peers = nullptr;
  if (stats->has_peers)
    peers = {{"lookups", stats->peer_lookups},
             {"hits", stats->peer_hits},
             {"failed", stats->peer_failed},
             {"tokens", stats->peer_tokens},
             {"bytes", stats->peer_bytes}};
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
          {"disk", std::move(disk)},
          {"peers", std::move(peers)}};
}

std::string_view text_of(const std::string* header) {
  return header ? std::string_view(*header) : std::string_view();
}

// Browsers get the chat page at "/", others a text.
bool is_web_page(const HttpRequest& request, const Route& route) {
  return route.handler == decltype(route.handler)(Page::welcome) &&
         wants_page(text_of(request.header("accept")));
}

// Whether the route loads, unloads or sets models or adapters.
bool changes_models(const Route& route) {
  return std::holds_alternative<ModelAction>(route.handler) ||
         (std::holds_alternative<AdapterAction>(route.handler) && route.method == "POST");
}

// Whether the route saves, restores or erases a slot. These requests count towards limits as answers do.
bool is_slot_action(const Route& route) {
  return route.handler == decltype(route.handler)(Page::slot_action);
}

HttpResponse web_response(const std::string& path, const HttpRequest& request) {
  const WebFile* file = find_web_file(path);
  if (!file) return error_response({404, fmt::format("There is no file '{}' here", path), "", "unknown_url"});
  WebAnswer answer = answer_with(*file, text_of(request.header("accept-encoding")),
                                 text_of(request.header("if-none-match")));
  return {answer.status, std::string(file->content_type), std::move(answer.headers),
          std::string(answer.body)};
}

After after(HttpServer& http) {
  return [&http](double seconds, std::function<void()> run) { http.after(seconds, std::move(run)); };
}

ApiError needs_keys(std::string_view what) {
  return {403,
          fmt::format("Clients of other machines may {} only with an API key: start the server with "
                      "--api-key-file",
                      what),
          "", "no_api_keys"};
}

}  // namespace

Api::Api(ServerModels models, PrepareOptions prompts, WorkerPool& workers, HttpServer& http,
         AccessRules access, ApiKeys keys, std::shared_ptr<SessionStores> sessions, const ServerTools& tools,
         const std::string& seal_key_path, double timeout_s, int requests_per_minute, bool share_states,
         const Directories& directories, const SpanExporter* spans)
    : started_(now_seconds()),
      created_(unix_seconds()),
      workers_(workers),
      post_(http.post()),
      metrics_(spans),
      pool_(std::move(models), std::move(prompts), post_, after(http), directories.adapters),
      responses_(std::make_shared<ResponseContext>(std::move(sessions), tools.servers, seal_key_path,
                                                   tools.consent)),
      traces_(pool_, responses_->stores, post_, directories.cache,
              [this](const auto& states) { slots_.forget(states); }),
      slots_(pool_, workers_, post_, after(http), timeout_s, directories.slots),
      answers_(pool_, workers, post_, after(http), timeout_s, metrics_, responses_, tools.limits,
               share_states, traces_, slots_),
      actions_(pool_, post_, created_),
      adapters_(pool_, post_, created_, directories.adapters),
      models_(pool_, workers_, post_, created_),
      ollama_(pool_, workers_, post_),
      sessions_(responses_, post_, traces_),
      states_(pool_, post_, share_states),
      access_(std::move(access)),
      keys_(std::move(keys)),
      addresses_(requests_per_minute) {
  stranger_->roles = kAllRoles & ~role_bit(Role::models);
}

// The parsed head of a request.
struct Api::Call {
  Target target;
  RouteMatch match;
  bool anthropic = false;         // see is_for_anthropic()
  bool admitted = false;          // the request has a valid key, or none is required
  std::shared_ptr<KeyState> key;  // that key
};

Result<Api::Call> Api::read_head(const HttpRequest& request) const {
  Call call;
  TRY(call.target, parse_target(request.target));
  call.match = find_route(call.target.path, request.method);
  call.anthropic = is_for_anthropic(call.target.path, request);
  call.key = keys_.find(request);
  call.admitted = keys_.empty() || call.key;
  return call;
}

bool Api::is_open_to_all() const {
  return keys_.empty() && !is_loopback_name(listening_name(access_.bound_host));
}

std::optional<ApiError> Api::find_fault(const HttpRequest& request, const Call& call) const {
  const Route* route = call.match.route;
  if (!call.admitted && (!route || (route->role != Role::open && !is_web_page(request, *route))))
    return ApiError{401,
                    "This server asks for an API key, and the request shows none that it knows: send "
                    "'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                    "", "invalid_api_key"};
  if (!route) {
    const std::string meant = near_route(call.target.path);
    return ApiError{404,
                    fmt::format("Unknown route: {} {}{}", request.method, call.target.path,
                                meant.empty() ? "; GET / lists the routes" : "; did you mean " + meant + "?"),
                    "", "unknown_url"};
  }
  if (!takes_method(*route, request.method))
    return ApiError{
        405, fmt::format("{} is not allowed here; use {}", request.method, allowed_methods(call.target.path)),
        "", "method_not_allowed"};
  if (call.key && !call.key->may(route->role)) return missing_role(call.key->name, route->role);
  const bool keeps = std::holds_alternative<SessionAction>(route->handler) ||
                     std::holds_alternative<ConversationAction>(route->handler);
  if (is_slot_action(*route) && is_open_to_all()) return needs_keys("save, restore and erase slots");
  if (keeps && is_open_to_all()) return needs_keys("keep conversations");
  if (route->method != "POST") return std::nullopt;
  if (stopping_) return ApiError{503, "The server is shutting down", "", "shutting_down"};
  if (pool_.device_lost())
    return ApiError{503, "The device failed, as the server's log tells; the server must be started again", "",
                    "device_lost"};
  if (!is_json_type(request))
    return ApiError{415, "The request body must be JSON: send 'Content-Type: application/json'", "",
                    "unsupported_media_type"};
  if (changes_models(*route) && is_open_to_all())
    return needs_keys("load, unload and pull models and adapters");
  if (is_encoded(request))
    return ApiError{
        415,
        fmt::format("The request body must not be compressed: send it without 'Content-Encoding: {}'",
                    *request.header("content-encoding")),
        "", "unsupported_media_type"};
  return std::nullopt;
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request, const std::string& client) {
  return refusal(request, read_head(request), client);
}

std::optional<HttpResponse> Api::refusal(const HttpRequest& request, const Result<Call>& call,
                                         const std::string& client) {
  if (!call.ok()) return error_response({400, call.error().message, "", "bad_request"});
  const auto answer = [&](const ApiError& error) {
    return call->anthropic ? message_error_response(error) : error_response_for(call->target.path, error);
  };
  if (auto error = check_access(request, call->target, access_)) return answer(*error);
  const std::string methods = allowed_methods(call->target.path);
  if (auto response = preflight_response(request, access_, methods)) return response;
  auto error = find_fault(request, *call);
  if (!error) error = limit_reached(*call, client);
  if (!error) return std::nullopt;
  HttpResponse response = answer(*error);
  if (error->status == 405) response.headers.emplace_back("Allow", allowed_methods(call->target.path));
  if (error->status == 415) response.headers.emplace_back("Accept-Encoding", "identity");
  return response;
}

HttpResponse Api::error(const RequestName& request, const ApiError& error) const {
  const auto target = parse_target(request.target);
  return error_response_for(target.ok() ? target->path : "", error);
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> out) {
  const auto call = read_head(request);
  if (auto response = refusal(request, call, request.address)) return out->respond(std::move(*response));
  const auto& handler = call->match.route->handler;
  if (const auto* kind = std::get_if<AnswerKind>(&handler)) {
    addresses_.count(request.address, now_seconds());
    auto key = call->key ? call->key : is_open_to_all() ? stranger_ : nullptr;
    return answers_.start(*kind, std::move(request), KeyUse::begin(std::move(key)), std::move(out));
  }
  if (const auto* action = std::get_if<ModelAction>(&handler))
    return actions_.start(*action, request, std::move(out));
  if (const auto* action = std::get_if<AdapterAction>(&handler))
    return adapters_.start(*action, request.body, std::move(out));
  if (const auto* action = std::get_if<SessionAction>(&handler))
    return sessions_.start(*action, std::move(request), call->match.id, call->key ? call->key->name : "",
                           std::move(out));
  if (const auto* action = std::get_if<ConversationAction>(&handler))
    return sessions_.start(ConversationCall{*action, std::move(request), call->match.id, call->match.item,
                                            call->key ? call->key->name : ""},
                           std::move(out));
  const Page wanted = std::get<Page>(handler);
  if (wanted == Page::slot_action) {
    addresses_.count(request.address, now_seconds());
    return slots_.start(call->match.id, request, KeyUse::begin(call->key), std::move(out));
  }
  if (is_web_page(request, *call->match.route)) return out->respond(web_response("index.html", request));
  if (wanted == Page::web_status) return out->respond(web_response("status.html", request));
  if (wanted == Page::docs) return out->respond(web_response("docs.html", request));
  if (wanted == Page::web_icon) return out->respond(web_response("icon.svg", request));
  if (wanted == Page::web_file) return out->respond(web_response(call->match.id, request));
  if (!handle_slow_page(wanted, request, *call, out)) out->respond(page(wanted, *call));
}

// Why the limits of the address or of the key do not allow the request.
std::optional<ApiError> Api::limit_reached(const Call& call, const std::string& client) {
  const Route* route = call.match.route;
  if (!route) return std::nullopt;
  const double now = now_seconds();
  if (changes_models(*route)) return KeyUse::tokens_refusal(call.key.get(), now);
  if (!std::holds_alternative<AnswerKind>(route->handler) && !is_slot_action(*route)) return std::nullopt;
  if (auto error = addresses_.refusal(client, now)) return error;
  return KeyUse::refusal(call.key.get(), now);
}

std::string Api::key_of(const HttpRequest& head) const {
  const auto key = keys_.find(head);
  return key ? key->name : "";
}

void Api::set_keys(ApiKeys keys) {
  keys.take_over(keys_);
  keys_ = std::move(keys);
}

bool Api::handle_slow_page(Page page, const HttpRequest& request, const Call& call,
                           const std::shared_ptr<ResponseStream>& out) {
  switch (page) {
    case Page::response:
    case Page::input_items:
    case Page::forget:
      sessions_.start(page, call.match.id, call.key ? call.key->name : "", request.target, out);
      return true;
    case Page::ask_mcp_servers:
      if (const auto body = parse_body(request.body); !body) {
        out->respond(error_response(body.error()));
        return true;
      }
      ask_mcp_servers(responses_->servers, sender_of(call.key ? call.key->name : "", request.address),
                      answers_.mcp_workers(), post_, out);
      return true;
    case Page::cancel_generate:
      out->respond(cancel(call));
      return true;
    case Page::states_lookup:
    case Page::state_record:
      if (!states_.shared())
        out->respond(
            error_response({404, "This worker does not share its prefix cache: start it with --share-states",
                            "", "states_not_shared"}));
      else if (call.key && call.key->cache == CacheScope::key)
        // Otherwise anyone who can guess a text could ask here whether another key has sent it.
        out->respond(error_response(
            {403,
             fmt::format("The key '{}' may find only what it has sent itself: give the key that other "
                         "workers show cache=all in the key file, or start this one with --cache-scope all",
                         call.key->name),
             "", "states_of_other_keys"}));
      else if (page == Page::states_lookup)
        states_.lookup(request.body, out);
      else
        states_.record(call.match.id, call.match.item, out);
      return true;
    case Page::models:
      models_.list(call.anthropic, out);
      return true;
    case Page::tokenizer_info:
      tell_tokenizer(out);
      return true;
    case Page::ollama_models:
      ollama_.list(out);
      return true;
    case Page::ollama_model:
      ollama_.show(request.body, out);
      return true;
    default:
      return false;
  }
}

HttpResponse Api::page(Page page, const Call& call) const {
  switch (page) {
    case Page::model:
      return models_.one(call.match.id, call.anthropic);
    case Page::health:
      return call.admitted && (!call.key || call.key->may(Role::admin)) ? health() : short_health();
    case Page::metrics:
      return metrics();
    case Page::openapi:
      return file_response("application/json", kOpenApiJson);
    case Page::ollama_loaded:
      return ollama_.loaded();
    case Page::llama_props:
    case Page::llama_slots:
      return of_main_model(page == Page::llama_props ? props_json : slots_json);
    case Page::router_model:
    case Page::router_server:
      return of_main_model(page == Page::router_model ? router_model_json : router_server_json);
    case Page::mcp_servers:
      return json_response(mcp_servers_json(responses_->servers.get()));
    case Page::mcp_calls:
      return json_response(mcp_calls_json(responses_->servers.get(), call.key ? call.key->name : ""));
    case Page::ollama_version:
      return json_response({{"version", kOllamaVersion}, {"anabranch", ANABRANCH_VERSION}});
    default:
      return welcome();
  }
}

void Api::responded(const RequestName& request, int status) {
  const auto target = parse_target(request.target);
  metrics_.responded(route_label(target.ok() ? find_route(target->path, request.method).route : nullptr),
                     status);
}

HttpResponse Api::metrics() const {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.headers.emplace_back("Process-Start-Time-Unix", std::to_string(created_));  // llama-server's
  response.body = metrics_.text(pool_.entries());
  return response;
}

HttpResponse Api::cancel(const Call& call) {
  const std::string& id = call.match.id;
  if (answers_.stop(id, call.key ? call.key->name : ""))
    return json_response({{"id", id}, {"cancelled", true}});
  return error_response(
      {404, fmt::format("No running request of /v1/generate has the id '{}'", id), "", "request_not_found"});
}

void Api::tell_tokenizer(std::shared_ptr<ResponseStream> out) {
  const auto* main = pool_.main_entry();
  if (!main) return out->respond(no_model_loaded());
  workers_.submit([out, name = main->name, facts = main->facts, source = pool_.source(), post = post_] {
    const auto known = source.describe(name);
    post([out, json = tokenizer_json(*facts, known ? known->chat_template : "")] {
      out->respond(json_response(json));
    });
  });
}

HttpResponse Api::of_main_model(Json (*describe)(const ModelPool::Entry&)) const {
  const auto* main = pool_.main_entry();
  return main ? json_response(describe(*main)) : no_model_loaded();
}

std::string_view Api::status() const {
  return stopping_ ? "stopping" : pool_.device_lost() ? "device_lost" : "ok";
}

HttpResponse Api::health() const {
  const std::string_view state = status();
  Json json = {{"status", state}, {"version", ANABRANCH_VERSION}, {"uptime_s", now_seconds() - started_}};
  const ServedModel* main = pool_.main_model();
  json["model"] = main ? loaded_json(main->engine->info()) : Json();
  json["engine"] = main ? engine_json(main->engine->stats()) : Json();
  json["cache"] = main ? cache_json(main->engine->stats().cache) : Json();
  json["memory"] = memory_json(main ? main->engine.get() : nullptr);
  json["models"] = Json::array();
  for (const auto* entry : pool_.entries()) {
    Json model = model_json(entry->name, entry, created_);
    if (entry->model) model["engine"] = engine_json(entry->model->engine->stats());
    json["models"].push_back(std::move(model));
  }
  HttpResponse response = json_response(json);
  if (state != "ok") response.status = 503;
  return response;
}

void Api::begin_stop() {
  stopping_ = true;
  pool_.begin_stop();
  actions_.cancel_all();
}

void Api::report() const {
  for (const auto* entry : pool_.entries()) {
    if (!entry->model) {
      log_info("SIGUSR1: {} is {}", entry->name, name_of(entry->state));
      continue;
    }
    const EngineStats stats = entry->model->engine->stats();
    log_info(
        "SIGUSR1: {}: {} requests run, {} wait; {} finished, {} cancelled, {} failed; running requests use "
        "{} MiB of {}",
        entry->name, stats.running, stats.queued, stats.finished, stats.cancelled, stats.failed,
        stats.state_bytes >> 20, stats.state_budget_bytes >> 20);
  }
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
  const auto* main = pool_.main_entry();
  const std::string served = main ? main->name : "models on demand";
  response.body = fmt::format(
      "Anabranch {} serves {} here, for OpenAI clients: base URL http://<this host>/v1\n\n{}\n"
      "For Anthropic clients: base URL http://<this host>\n\n{}\n"
      "For Ollama clients: OLLAMA_HOST=http://<this host>\n\n{}\n"
      "For clients of llama-server: base URL http://<this host>\n\n{}",
      ANABRANCH_VERSION, served, list(Listed::openai), list(Listed::anthropic), list(Listed::ollama),
      list(Listed::llama));
  return response;
}

}  // namespace anabranch::server
