#include "server/api/routes.h"

#include <gtest/gtest.h>

#include <map>

namespace anabranch::server {
namespace {

std::string_view path_of(std::string_view path) {
  const RouteMatch match = find_route(path);
  return match.route ? match.route->path : "none";
}

TEST(Routes, FindsPathsAndIds) {
  EXPECT_EQ(path_of("/v1/models"), "/v1/models");
  EXPECT_EQ(path_of("/"), "/");
  EXPECT_EQ(find_route("/v1/models/org/name").id, "org/name");
  for (const char* path :
       {"", "/v1", "/v1/models/", "/v1/modelsx", "/V1/models", "/health/", "/v1/messages/x"})
    EXPECT_EQ(path_of(path), "none") << path;
}

TEST(Routes, EachPathHasOneMethodAndIsFound) {
  std::map<std::string_view, std::string_view> methods;
  for (const Route& route : routes()) {
    EXPECT_TRUE(methods.emplace(route.path, route.method).second) << route.path << " is there twice";
    EXPECT_EQ(route.method == "GET", std::holds_alternative<Page>(route.handler)) << route.path;
    EXPECT_EQ(find_route(route.path).route, &route) << route.path;
  }
}

TEST(Routes, NameAllowedMethodsAndLabels) {
  const Route* model = find_route("/v1/models/x").route;
  EXPECT_EQ(allowed_methods(*model), "GET, HEAD");
  EXPECT_EQ(allowed_methods(*find_route("/v1/completions").route), "POST");
  EXPECT_EQ(route_label(model), "/v1/models");
  EXPECT_EQ(route_label(find_route("/").route), "/");
  EXPECT_EQ(route_label(nullptr), "other");
}

}  // namespace
}  // namespace anabranch::server
