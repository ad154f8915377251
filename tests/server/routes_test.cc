#include "server/api/routes.h"

#include <gtest/gtest.h>

namespace anabranch::server {
namespace {

std::string_view path_of(std::string_view path) {
  const RouteMatch match = find_route(path, "GET");
  return match.route ? match.route->path : "none";
}

TEST(Routes, FindsPathsAndIds) {
  EXPECT_EQ(path_of("/v1/models"), "/v1/models");
  EXPECT_EQ(path_of("/"), "/");
  EXPECT_EQ(find_route("/v1/models/org/name", "GET").id, "org/name");
  for (const char* path : {"", "/v1", "/v1/models/", "/v1/modelsx", "/V1/models", "/health/",
                           "/v1/messages/x", "/v1/responses/"})
    EXPECT_EQ(path_of(path), "none") << path;
  EXPECT_EQ(path_of("/v1/sessions/a/b/export"), "/v1/sessions/{id}") << "an id before a name has no slash";
  EXPECT_EQ(path_of("/v1/responses/resp_1/input_items"), "/v1/responses/{id}/input_items");
  EXPECT_EQ(find_route("/v1/responses/resp_1/input_items", "GET").id, "resp_1");
  const RouteMatch item = find_route("/v1/conversations/conv_1/items/msg_2", "GET");
  EXPECT_EQ(item.route->path, "/v1/conversations/{id}/items/{item}");
  EXPECT_EQ(item.id, "conv_1");
  EXPECT_EQ(item.item, "msg_2");
  EXPECT_EQ(path_of("/v1/conversations/conv_1/items"), "/v1/conversations/{id}/items");
}

TEST(Routes, EachIsFoundByItsPathAndMethod) {
  for (const Route& route : routes()) {
    EXPECT_TRUE(route.method == "POST" || std::holds_alternative<Page>(route.handler) ||
                std::holds_alternative<AdapterAction>(route.handler) ||
                std::holds_alternative<SessionAction>(route.handler) ||
                std::holds_alternative<ConversationAction>(route.handler))
        << route.path;
    EXPECT_EQ(find_route(route.path, route.method).route, &route) << route.path;
  }
  EXPECT_EQ(find_route("/v1/responses/x", "DELETE").route->method, "DELETE");
  EXPECT_EQ(find_route("/v1/responses/x", "HEAD").route->method, "GET");
  EXPECT_EQ(find_route("/v1/responses/x", "PUT").route->path, "/v1/responses/{id}");
}

TEST(Routes, NameAllowedMethodsAndLabels) {
  const Route* model = find_route("/v1/models/x", "GET").route;
  EXPECT_EQ(allowed_methods("/v1/models/x"), "GET, HEAD");
  EXPECT_EQ(allowed_methods("/v1/completions"), "POST");
  EXPECT_EQ(allowed_methods("/v1/sessions"), "GET, HEAD, POST");
  EXPECT_EQ(allowed_methods("/v1/sessions/import"), "POST") << "no session has this name";
  EXPECT_EQ(allowed_methods("/v1/responses/x"), "GET, HEAD, DELETE");
  EXPECT_EQ(allowed_methods("/v1/conversations/x/items/y"), "GET, HEAD, DELETE");
  EXPECT_EQ(find_route("/v1/sessions/x/export", "DELETE").route->path, "/v1/sessions/{id}/export");
  EXPECT_EQ(route_label(model), "/v1/models");
  EXPECT_EQ(route_label(find_route("/", "GET").route), "/");
  EXPECT_EQ(route_label(nullptr), "other");
}

}  // namespace
}  // namespace anabranch::server
