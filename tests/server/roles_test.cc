// What keys may do (docs/server.md): each route has a role, and a key that lacks it is refused.
#include <fstream>

#include "server/api/routes.h"
#include "server/http/api_keys.h"
#include "server/server_fixture.h"
#include "temp_dir.h"

namespace anabranch::server {
namespace {

constexpr Role kRoles[] = {Role::chat, Role::tools, Role::models, Role::admin};
constexpr const char* kNames[] = {"chat", "tools", "models", "admin"};

class Roles : public ServerTest {
 protected:
  // A key with one role each, named by it, and one with all.
  void SetUp() override {
    ServerOptions options;
    for (int i = 0; i < 4; ++i)
      options.api_keys.push_back({.key = kNames[i], .name = kNames[i], .roles = role_bit(kRoles[i])});
    options.api_keys.push_back({.key = "all", .name = "all"});
    start(options);
  }
  HttpAnswer as(const std::string& key, std::string_view method, std::string_view path,
                const std::string& body = "{}") {
    return ask(port_, std::string(method), std::string(path), method == "GET" ? "" : body,
               "x-api-key: " + key + "\r\n");
  }
};

std::string with_ids(std::string_view path) {
  std::string out(path);
  for (const char* part : {"{id}", "{item}"})
    if (const size_t at = out.find(part); at != out.npos) out.replace(at, std::string_view(part).size(), "x");
  return out;
}

TEST_F(Roles, EachRouteIsForKeysWithItsRole) {
  for (const Route& route : routes())
    for (int i = 0; i < 4; ++i) {
      const std::string where = fmt::format("{} {} as {}", route.method, route.path, kNames[i]);
      const HttpAnswer answer = as(kNames[i], route.method, with_ids(route.path));
      const bool may = route.role >= Role::any || route.role == kRoles[i];
      EXPECT_EQ(answer.status == 403, !may) << where << ": " << answer.status;
      EXPECT_NE(answer.status, 401) << where;
      EXPECT_NE(as("all", route.method, with_ids(route.path)).status, 403) << where;
    }
}

TEST_F(Roles, WhatShowsOthersAffairsAndWhatChangesModelsIsNotForChat) {
  for (const char* path : {"/metrics", "/slots"}) EXPECT_EQ(as("chat", "GET", path).status, 403) << path;
  for (const char* path : {"/v1/models/load", "/v1/models/unload", "/v1/models/pull", "/api/pull",
                           "/v1/states/lookup", "/v1/mcp/servers"})
    EXPECT_EQ(as("chat", "POST", path).status, 403) << path;
  EXPECT_EQ(as("chat", "GET", "/health").json().size(), 1u) << "only the status";
  EXPECT_GT(as("admin", "GET", "/health").json().size(), 1u);
  EXPECT_EQ(as("chat", "GET", "/v1/models").status, 200);
}

TEST_F(Roles, TheErrorNamesTheRoleAndWhereToGiveIt) {
  const HttpAnswer answer = as("chat", "POST", "/v1/models/load", R"({"model":"x"})");
  EXPECT_EQ(answer.error_code(), "missing_role");
  for (const char* part : {"'chat'", "'models'", "roles=", "--api-key-file"})
    EXPECT_NE(answer.body.find(part), std::string::npos) << part << ": " << answer.body;
  const std::string hi = R"({"model":"m","max_tokens":3,"messages":[{"role":"user","content":"a"}]})";
  const HttpAnswer message = as("tools", "POST", "/v1/messages", hi);
  EXPECT_EQ(message.status, 403);
  EXPECT_EQ(message.json()["error"]["type"], "permission_error");
}

// Requests for answers may name MCP servers, which is the other role's.
TEST_F(Roles, AnswersWithToolsOfServersNeedTheirRole) {
  for (
      const auto& [path, body] :
      {std::pair{"/v1/responses",
                 R"({"model":"m","input":"x","tools":[{"type":"\u006dcp","server_label":"s"}]})"},
       std::pair{"/v1/responses/input_tokens",
                 R"({"model":"m","input":"x","tools":[{"type":"mcp","server_label":"s"}]})"},
       std::pair{
           "/v1/messages",
           R"({"model":"m","max_tokens":3,"messages":[{"role":"user","content":"a"}],"mcp_servers":[{"type":"url","name":"s"}]})"}}) {
    const HttpAnswer answer = as("chat", "POST", path, body);
    EXPECT_EQ(answer.status, 403) << path << answer.body;
    EXPECT_NE(answer.body.find("'tools'"), std::string::npos) << answer.body;
    EXPECT_EQ(as("all", "POST", path, body).status, 400) << "there is no such server";
  }
}

TEST_F(Roles, AreReadFromTheKeyFile) {
  const std::string path = anabranch::testing::temp_path("roles.keys");
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_key_file(path);
  };
  const auto keys = *read("plain\nann k1 roles=chat\nbob k2 concurrent=2 roles=chat,tools,models\neve k3\n");
  EXPECT_EQ(keys[0].roles, kAllRoles);
  EXPECT_EQ(keys[1].roles, role_bit(Role::chat));
  EXPECT_EQ(keys[2].roles, role_bit(Role::chat) | role_bit(Role::tools) | role_bit(Role::models));
  EXPECT_EQ(keys[3].roles, kAllRoles);
  for (const char* bad : {"ann k1 roles=", "ann k1 roles=chat,", "ann k1 roles=,chat", "ann k1 roles=root",
                          "ann k1 roles=Chat", "ann k1 roles=any", "ann k1 roles", "ann k1 role=chat"})
    EXPECT_FALSE(read(bad).ok()) << bad;
}

TEST_F(Roles, ChangeWithTheKeys) {
  EXPECT_EQ(as("admin", "GET", "/metrics").status, 200);
  ASSERT_TRUE(server_->set_api_keys({{.key = "admin", .name = "admin", .roles = role_bit(Role::chat)}}).ok());
  EXPECT_EQ(as("admin", "GET", "/metrics").status, 403);
}

TEST_F(Roles, AKeyWithoutTokensLoadsAndUnloadsNothing) {
  ServerOptions options;
  options.api_keys = {{.key = "one", .tokens_per_minute = 3}, {.key = "two"}};
  start(options);
  EXPECT_EQ(as("one", "POST", "/v1/completions", R"({"prompt":"hello there","max_tokens":9})").status, 200);
  for (const char* path : {"/v1/models/load", "/v1/models/unload", "/v1/models/pull", "/api/pull"}) {
    const HttpAnswer answer = as("one", "POST", path, R"({"model":"x"})");
    EXPECT_EQ(answer.status, 429) << path << answer.body;
    EXPECT_NE(as("two", "POST", path, R"({"model":"x"})").status, 429) << path;
  }
  EXPECT_EQ(as("one", "GET", "/v1/models").status, 200);
}

}  // namespace
}  // namespace anabranch::server
