#include "server/api/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/lower_case.h"
#include "base/nearest.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kId = "{id}", kItem = "{item}";

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", AnswerKind::chat, Role::chat, true, Listed::openai},
    {"POST", "/chat/completions", AnswerKind::chat, Role::chat, false},
    {"POST", "/v1/chat/completions/input_tokens", AnswerKind::chat_count, Role::chat},
    {"POST", "/chat/completions/input_tokens", AnswerKind::chat_count, Role::chat, false},
    {"POST", "/v1/completions", AnswerKind::completion, Role::chat, true, Listed::openai},
    {"POST", "/v1/generate", AnswerKind::generate, Role::chat, true, Listed::openai},
    {"POST", "/v1/generate/{id}/cancel", Page::cancel_generate, Role::chat},
    {"POST", "/v1/responses", AnswerKind::response, Role::chat, true, Listed::openai},
    {"POST", "/v1/responses/input_tokens", AnswerKind::input_count, Role::chat, true, Listed::openai},
    {"POST", "/v1/responses/compact", AnswerKind::compaction, Role::chat, true, Listed::openai},
    {"GET", "/v1/responses/{id}/input_items", Page::input_items, Role::chat},
    {"GET", "/v1/responses/{id}", Page::response, Role::chat, true, Listed::openai},
    {"DELETE", "/v1/responses/{id}", Page::forget, Role::chat},
    {"GET", "/v1/sessions", SessionAction::list, Role::chat, true, Listed::openai},
    {"POST", "/v1/sessions", SessionAction::create, Role::chat, true, Listed::openai},
    {"POST", "/v1/sessions/import", SessionAction::import, Role::chat},
    {"GET", "/v1/sessions/{id}/export", SessionAction::export_text, Role::chat},
    {"POST", "/v1/sessions/{id}/branch", SessionAction::branch, Role::chat},
    {"POST", "/v1/sessions/{id}/messages", SessionAction::append, Role::chat},
    {"GET", "/v1/sessions/{id}", SessionAction::read, Role::chat},
    {"POST", "/v1/sessions/{id}", SessionAction::change, Role::chat},
    {"DELETE", "/v1/sessions/{id}", SessionAction::erase, Role::chat},
    {"POST", "/v1/conversations", ConversationAction::create, Role::chat, true, Listed::openai},
    {"GET", "/v1/conversations/{id}/items/{item}", ConversationAction::read_item, Role::chat},
    {"DELETE", "/v1/conversations/{id}/items/{item}", ConversationAction::erase_item, Role::chat},
    {"GET", "/v1/conversations/{id}/items", ConversationAction::list_items, Role::chat},
    {"POST", "/v1/conversations/{id}/items", ConversationAction::add_items, Role::chat},
    {"GET", "/v1/conversations/{id}", ConversationAction::read, Role::chat},
    {"POST", "/v1/conversations/{id}", ConversationAction::change, Role::chat},
    {"DELETE", "/v1/conversations/{id}", ConversationAction::erase, Role::chat},
    {"GET", "/v1/mcp/servers", Page::mcp_servers, Role::tools},
    {"POST", "/v1/mcp/servers", Page::ask_mcp_servers, Role::tools},
    {"GET", "/v1/mcp/calls", Page::mcp_calls, Role::tools},
    {"POST", "/v1/states/lookup", Page::states_lookup, Role::admin},
    {"GET", "/v1/states/{id}/{item}", Page::state_record, Role::admin},
    {"POST", "/v1/embeddings", AnswerKind::embedding, Role::chat, true, Listed::openai},
    {"POST", "/embeddings", AnswerKind::embedding, Role::chat, false},
    {"POST", "/v1/rerank", AnswerKind::rerank, Role::chat, true, Listed::openai},
    {"POST", "/rerank", AnswerKind::rerank, Role::chat, false},
    {"POST", "/reranking", AnswerKind::rerank, Role::chat, false},
    {"POST", "/v1/reranking", AnswerKind::rerank, Role::chat, false},
    {"GET", "/v1/models", Page::models, Role::any, true, Listed::openai},
    {"POST", "/v1/models/load", ModelAction::load, Role::models, true, Listed::openai},
    {"POST", "/v1/models/unload", ModelAction::unload, Role::models, true, Listed::openai},
    {"POST", "/v1/models/pull", ModelAction::pull, Role::models, true, Listed::openai},
    {"GET", "/v1/models/{id}", Page::model, Role::any},
    {"POST", "/v1/load_lora_adapter", AdapterAction::load, Role::models, true, Listed::openai},
    {"POST", "/v1/unload_lora_adapter", AdapterAction::unload, Role::models, true, Listed::openai},
    {"GET", "/health", Page::health, Role::open, true, Listed::openai},
    {"GET", "/metrics", Page::metrics, Role::admin, true, Listed::openai},
    {"GET", "/openapi.json", Page::openapi, Role::open, false},
    {"GET", "/docs", Page::docs, Role::open, false, Listed::openai},
    {"GET", "/", Page::welcome, Role::any, false},
    {"GET", "/status", Page::web_status, Role::open, false},
    {"GET", "/web/{id}", Page::web_file, Role::open, false},
    {"GET", "/favicon.ico", Page::web_icon, Role::open,
     false},  // browsers request it for pages that name no icon
    {"POST", "/v1/messages", AnswerKind::message, Role::chat, true, Listed::anthropic},
    {"POST", "/v1/messages/count_tokens", AnswerKind::token_count, Role::chat, true, Listed::anthropic},
    {"POST", "/completion", AnswerKind::llama_completion, Role::chat, true, Listed::llama},
    {"POST", "/completions", AnswerKind::llama_completion, Role::chat, false},
    {"POST", "/infill", AnswerKind::infill, Role::chat, true, Listed::llama},
    {"POST", "/tokenize", AnswerKind::tokenize, Role::chat, true, Listed::llama},
    {"POST", "/detokenize", AnswerKind::detokenize, Role::chat, true, Listed::llama},
    {"POST", "/apply-template", AnswerKind::apply_template, Role::chat, true, Listed::llama},
    {"GET", "/lora-adapters", AdapterAction::list, Role::any, true, Listed::llama},
    {"POST", "/lora-adapters", AdapterAction::set_scales, Role::models, true, Listed::llama},
    {"GET", "/props", Page::llama_props, Role::any, true, Listed::llama},
    {"GET", "/tokenizer_info", Page::tokenizer_info, Role::any, true, Listed::llama},
    {"GET", "/slots", Page::llama_slots, Role::admin, true, Listed::llama},
    {"POST", "/slots/{id}", Page::slot_action, Role::admin, true, Listed::llama},
    {"GET", "/model_info", Page::router_model, Role::any},
    {"GET", "/server_info", Page::router_server, Role::any},
    {"GET", "/v1/health", Page::health, Role::open, false},
    {"GET", "/models", Page::models, Role::any, false},
    {"POST", "/responses", AnswerKind::response, Role::chat, false},
    {"POST", "/api/chat", AnswerKind::ollama_chat, Role::chat, true, Listed::ollama},
    {"POST", "/api/generate", AnswerKind::ollama_generate, Role::chat, true, Listed::ollama},
    {"POST", "/api/embed", AnswerKind::ollama_embed, Role::chat, true, Listed::ollama},
    {"POST", "/api/embeddings", AnswerKind::ollama_embedding, Role::chat, true, Listed::ollama},
    {"GET", "/api/version", Page::ollama_version, Role::open, true, Listed::ollama},
    {"GET", "/api/tags", Page::ollama_models, Role::any, true, Listed::ollama},
    {"GET", "/api/ps", Page::ollama_loaded, Role::any, true, Listed::ollama},
    {"POST", "/api/show", Page::ollama_model, Role::any, true, Listed::ollama},
    {"POST", "/api/pull", ModelAction::ollama_pull, Role::models, true, Listed::ollama},
};

// The match with this route; nothing if the path is another one.
std::optional<RouteMatch> match(const Route& route, std::string_view path) {
  RouteMatch found{&route, "", ""};
  const size_t at = route.path.find(kId);
  if (at == route.path.npos) return route.path == path ? std::optional(found) : std::nullopt;
  std::string_view before = route.path.substr(0, at), after = route.path.substr(at + kId.size());
  if (after.ends_with(kItem)) {
    after.remove_suffix(kItem.size());
    const size_t item = path.rfind('/') + 1;
    if (item == path.size()) return std::nullopt;
    found.item = path.substr(item);
    path = path.substr(0, item);
  }
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view id = path.substr(before.size(), path.size() - before.size() - after.size());
  if (!after.empty() && id.find('/') != id.npos) return std::nullopt;
  found.id = id;
  return found;
}

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

bool takes_method(const Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

RouteMatch find_route(std::string_view path, std::string_view method) {
  RouteMatch other;
  for (const Route& route : kRoutes) {
    auto found = match(route, path);
    if (!found) continue;
    // The first path that matches counts. Later ones in the table are less exact.
    if (other.route && other.route->path != route.path) return other;
    if (takes_method(route, method)) return *found;
    if (!other.route) other = std::move(*found);
  }
  return other;
}

std::string allowed_methods(std::string_view path) {
  std::string methods;
  const auto* const found = find_route(path, "").route;
  for (const Route& route : kRoutes)
    if (found && route.path == found->path)
      methods += fmt::format("{}{}", methods.empty() ? "" : ", ",
                             route.method == "GET" ? "GET, HEAD" : route.method);
  return methods;
}

std::string near_route(std::string_view path) {
  // Undo what wrong base addresses do to a path: those that end with /, or that contain the /v1 that the
  // client adds.
  std::string plain;
  for (const char c : lower_case(path))
    if (c != '/' || !plain.ends_with('/')) plain += c;
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  std::vector<std::string> paths;
  for (const Route& route : kRoutes)
    if (route.path.find('{') == route.path.npos) paths.emplace_back(route.path);
  const std::string near = nearest(plain, paths).value_or("");
  if (!near.empty() && edit_distance(plain, near) <= 2) return near;
  for (std::string_view tail = plain; tail.size() > 1;) {
    if (std::ranges::find(paths, tail) != paths.end()) return std::string(tail);
    const size_t next = tail.find('/', 1);
    if (next == tail.npos) break;
    tail.remove_prefix(next);
  }
  return near;
}

std::string_view route_label(const Route* route) {
  if (!route) return "other";
  return route->path.ends_with(kId) ? route->path.substr(0, route->path.size() - kId.size() - 1)
                                    : route->path;
}

}  // namespace anabranch::server
