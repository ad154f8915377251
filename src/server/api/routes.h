// The table of routes. Requests are matched against it; the answers 404 and 405, the page at "/", the
// metrics' labels and the test of openapi.json are made from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/api/openai_format.h"

namespace anabranch::server {

// What a POST request does to the models (model_actions.h).
enum class ModelAction { load, unload, pull };
// What a GET request reads.
enum class Page { models, model, health, metrics, openapi, docs, welcome };
// Under which heading the page at "/" lists a route.
enum class Listed { no, openai, anthropic };

struct Route {
  std::string_view method;  // POST, or GET, which includes HEAD. A path has one method
  std::string_view path;    // a final {id} stands for any text that is not empty
  std::variant<AnswerKind, ModelAction, Page> handler;
  bool needs_key = true;  // when the server asks for API keys
  bool described = true;  // openapi.json has an operation with this method and path
  Listed listed = Listed::no;
};

std::span<const Route> routes();

struct RouteMatch {
  const Route* route = nullptr;  // null: no route has this path
  std::string id;                // the text in place of {id}
};
// path: decoded, without the query.
RouteMatch find_route(std::string_view path);

// As the Allow header has them.
std::string_view allowed_methods(const Route& route);
// For metrics: the path without {id}; "other" for null.
std::string_view route_label(const Route* route);

}  // namespace anabranch::server
