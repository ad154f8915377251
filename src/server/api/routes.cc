#include "server/api/routes.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kId = "{id}";

constexpr Route kRoutes[] = {
    {"POST", "/v1/chat/completions", AnswerKind::chat, true, true, Listed::openai},
    {"POST", "/chat/completions", AnswerKind::chat, true, false},
    {"POST", "/v1/completions", AnswerKind::completion, true, true, Listed::openai},
    {"GET", "/v1/models", Page::models, true, true, Listed::openai},
    {"POST", "/v1/models/load", ModelAction::load, true, true, Listed::openai},
    {"POST", "/v1/models/unload", ModelAction::unload, true, true, Listed::openai},
    {"POST", "/v1/models/pull", ModelAction::pull, true, true, Listed::openai},
    {"GET", "/v1/models/{id}", Page::model},
    {"GET", "/health", Page::health, false, true, Listed::openai},
    {"GET", "/metrics", Page::metrics, true, true, Listed::openai},
    {"GET", "/openapi.json", Page::openapi, false, false},
    {"GET", "/docs", Page::docs, false, false, Listed::openai},
    {"GET", "/", Page::welcome, true, false},
    {"POST", "/v1/messages", AnswerKind::message, true, true, Listed::anthropic},
    {"POST", "/v1/messages/count_tokens", AnswerKind::token_count, true, true, Listed::anthropic},
};

}  // namespace

std::span<const Route> routes() {
  return kRoutes;
}

RouteMatch find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.path == path) return {&route, ""};
    if (!route.path.ends_with(kId)) continue;
    const std::string_view prefix = route.path.substr(0, route.path.size() - kId.size());
    if (path.size() > prefix.size() && path.starts_with(prefix))
      return {&route, std::string(path.substr(prefix.size()))};
  }
  return {};
}

std::string_view allowed_methods(const Route& route) {
  return route.method == "GET" ? "GET, HEAD" : route.method;
}

std::string_view route_label(const Route* route) {
  if (!route) return "other";
  return route->path.substr(0, route->path.find("/{"));
}

}  // namespace anabranch::server
