#include <gtest/gtest.h>

#include "server/http/access.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

std::string path_of(std::string_view target) {
  const auto parsed = parse_target(target);
  return parsed ? parsed->path : "error";
}

TEST(HttpTarget, DecodesPaths) {
  EXPECT_EQ(path_of("/"), "/");
  EXPECT_EQ(path_of("/a/b?x=%zz#f"), "/a/b");
  EXPECT_EQ(path_of("/v1/models/a%20b%2Fc"), "/v1/models/a b/c");
  for (const char* bad : {"", "*", "x", "/%", "/%2", "/%zz", "/%00"}) EXPECT_EQ(path_of(bad), "error") << bad;
}

TEST(HttpTarget, TakesSurplusSlashes) {
  for (const char* target :
       {"/v1/models/", "//v1/models", "/v1//models", "///v1///models///?x", "/v1/models"})
    EXPECT_EQ(path_of(target), "/v1/models") << target;
  EXPECT_EQ(path_of("//"), "/");
  EXPECT_EQ(path_of("/v1/models/a%2F%2Fb%2F"), "/v1/models/a//b/");
}

TEST(HttpTarget, SplitsTheAbsoluteForm) {
  EXPECT_EQ(path_of("http://host:1/x?y"), "/x");
  EXPECT_EQ(path_of("HTTP://host"), "/");
  EXPECT_EQ(path_of("http://host?/x"), "/");
  EXPECT_EQ(parse_target("http://host:1/x?y")->authority, "host:1");
  EXPECT_EQ(parse_target("https://a@b")->authority, "a@b");
  EXPECT_EQ(parse_target("http:///x")->authority, "");
  EXPECT_FALSE(parse_target("/http://host/").value().authority.has_value());
}

TEST(HttpTarget, ReadsHostNames) {
  EXPECT_EQ(host_name("LocalHost:80"), "localhost");
  EXPECT_EQ(host_name("localhost:"), "localhost");
  EXPECT_EQ(host_name("[::1]:80"), "[::1]");
  EXPECT_EQ(host_name("127.0.0.1"), "127.0.0.1");
  for (const char* bad :
       {"", ":80", "a b", "a:b", "a:1:2", "[::1", "[]", "[::1]x", "a/b", "u@h", "[zz]", "h:123456"})
    EXPECT_FALSE(host_name(bad).has_value()) << bad;
}

TEST(HttpTarget, KnowsLoopbackNames) {
  for (const char* name : {"localhost", "app.localhost", "127.0.0.1", "127.1.2.3", "[::1]"})
    EXPECT_TRUE(is_loopback_name(name)) << name;
  for (const char* name : {"evil.example", "127.0.0.1.evil.example", "127.evil", "localhost.evil", "127.0.0",
                           "127..0.1", "127.0.0.", "127.0.0.256", "127.0.0.01", "127.0.0.1.1", "127.0.0.0001",
                           "xlocalhost", ".localhost", "", "[::]"})
    EXPECT_FALSE(is_loopback_name(name)) << name;
}

TEST(HttpTarget, ComparesOrigins) {
  EXPECT_TRUE(is_origin_of("http://Localhost:8080", "localhost:8080"));
  EXPECT_TRUE(is_origin_of("http://localhost", "localhost:80"));
  EXPECT_TRUE(is_origin_of("https://localhost:443", "localhost"));
  for (const char* other : {"http://localhost:3000", "http://localhost", "https://localhost", "null", "",
                            "http://localhost:80800", "localhost:8080"})
    EXPECT_FALSE(is_origin_of(other, "localhost:8080")) << other;
}

AccessRules rules(const std::string& bound, const std::vector<std::string>& hosts = {},
                  const std::vector<std::string>& origins = {}) {
  return make_access_rules(bound, hosts, origins).value();
}

int access(const AccessRules& rules, Headers headers, const std::string& target = "/",
           const std::string& method = "POST") {
  HttpRequest request;
  request.method = method;
  request.headers = std::move(headers);
  const auto error = check_access(request, parse_target(target).value(), rules);
  return error ? error->status : 200;
}

TEST(Access, TakesOnlyNamesOfThisMachineWhenBoundToIt) {
  const AccessRules local = rules("127.0.0.1");
  for (const char* good :
       {"localhost:11436", "127.0.0.1", "[::1]:1", "host.docker.internal:11436", "host.containers.internal"})
    EXPECT_EQ(access(local, {{"host", good}}), 200) << good;
  for (const char* bad :
       {"evil.example", "evil.internal", "evil.local", "x.host.docker.internal", "docker.internal", "local",
        ".local", "internal", "127.0.0.256", "x.local.evil.example", "192.168.0.1"})
    EXPECT_EQ(access(local, {{"host", bad}}), 403) << bad;
  EXPECT_EQ(access(rules("::1"), {{"host", "[::1]:1"}}), 200);
  EXPECT_EQ(access(rules("::1"), {{"host", "evil.example"}}), 403);
  EXPECT_EQ(access(rules("localhost"), {{"host", "evil.example:11436"}}), 403);
  EXPECT_EQ(access(local, {}), 200);  // HTTP/1.0
  EXPECT_EQ(access(local, {{"host", "a b"}}), 400);
  EXPECT_EQ(access(rules("0.0.0.0"), {{"host", "my-server:11436"}}), 200);
}

TEST(Access, TakesTheNamesItIsTold) {
  const AccessRules named = rules("127.0.0.1", {"LLM.example.com", "192.168.0.1"});
  EXPECT_EQ(access(named, {{"host", "llm.example.com:443"}}), 200);
  EXPECT_EQ(access(named, {{"host", "192.168.0.1"}}), 200);
  EXPECT_EQ(access(named, {{"host", "evil.example"}}), 403);
  // Told names, a server on a network answers to them, to addresses, and to nothing else.
  const AccessRules open = rules("0.0.0.0", {"llm.example.com"});
  for (const char* good : {"llm.example.com", "192.168.0.7:11436", "[fe80::1]", "localhost"})
    EXPECT_EQ(access(open, {{"host", good}}), 200) << good;
  EXPECT_EQ(access(open, {{"host", "evil.example"}}), 403);
  for (const char* bad : {"", "http://x", "a b", "host:80", "a/b"})
    EXPECT_FALSE(make_access_rules("127.0.0.1", {bad}, {}).ok()) << bad;
}

TEST(Access, TheTargetsHostCountsBeforeTheHeaders) {
  const AccessRules local = rules("127.0.0.1");
  EXPECT_EQ(access(local, {{"host", "localhost"}}, "http://evil.example/"), 403);
  EXPECT_EQ(access(local, {{"host", "localhost"}}, "http://user@localhost/"), 400);
  EXPECT_EQ(access(local, {{"host", "localhost"}}, "http:///"), 400);
  EXPECT_EQ(access(local, {{"host", "evil.example"}}, "http://localhost:1/"), 200);
}

TEST(Access, ApplicationsMayReadAnswers) {
  const auto allowed = [](const char* origin, const AccessRules& rules) {
    HttpRequest request;
    request.headers = {{"origin", origin}, {"access-control-request-method", "DELETE"}};
    std::string told;
    for (const auto& [name, value] : cors_headers(request, rules))
      if (name == "Access-Control-Allow-Origin" || name == "Vary") told += value + " ";
    request.method = "OPTIONS";
    if (const auto response = preflight_response(request, rules, "GET, DELETE"))
      told += response->headers[0].second;
    return told;
  };
  const AccessRules local = rules("127.0.0.1"), some = rules("127.0.0.1", {}, {"http://localhost:3000"});
  for (const char* origin : {"app://desktop", "tauri://localhost"}) {
    EXPECT_EQ(allowed(origin, local), std::string("Origin ") + origin + " GET, DELETE");
    EXPECT_EQ(allowed(origin, some), std::string("Origin ") + origin + " GET, DELETE");
  }
  for (const char* origin : {"https://evil.example", "null", "file://"}) {
    EXPECT_EQ(allowed(origin, local), "") << origin;
    EXPECT_EQ(allowed(origin, some), "Origin ") << origin;
  }
  EXPECT_EQ(allowed("http://localhost:3000", some), "Origin http://localhost:3000 GET, DELETE");
  EXPECT_EQ(allowed("https://me.example", rules("127.0.0.1", {}, {"*"})), "* GET, DELETE");
}

TEST(Access, KeepsOtherPagesOut) {
  const AccessRules local = rules("127.0.0.1");
  const std::pair<std::string, std::string> host{"host", "localhost:1"};
  EXPECT_EQ(access(local, {host, {"origin", "http://localhost:1"}}), 200);
  EXPECT_EQ(access(local, {host, {"origin", "http://localhost:1"}, {"sec-fetch-site", "same-origin"}}), 200);
  // Another port is another site's page; so is a page that says nothing but that it is one.
  EXPECT_EQ(access(local, {host, {"origin", "http://localhost:3000"}}), 403);
  EXPECT_EQ(access(local, {host, {"origin", "http://localhost:1"}, {"sec-fetch-site", "same-site"}}), 403);
  EXPECT_EQ(access(local, {host, {"sec-fetch-site", "same-site"}}), 403);
  EXPECT_EQ(access(local, {host, {"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(access(local, {host, {"origin", "https://evil.example"}}), 403);
  EXPECT_EQ(access(local, {host, {"origin", "null"}}), 403);
  EXPECT_EQ(access(local, {host, {"origin", "app://desktop"}, {"sec-fetch-site", "cross-site"}}), 200);
  // A link to a page may be followed, and a page that a proxy serves under another name is the browser's
  // word.
  AccessRules pages = local;
  pages.pages = {"/docs"};
  const std::pair<std::string, std::string> cross{"sec-fetch-site", "cross-site"},
      navigate{"sec-fetch-mode", "navigate"}, document{"sec-fetch-dest", "document"};
  EXPECT_EQ(access(pages, {host, cross, navigate, document}, "/docs", "GET"), 200);
  EXPECT_EQ(access(pages, {host, cross, navigate, document}, "/docs", "POST"), 403);
  EXPECT_EQ(access(pages, {host, cross, navigate, document}, "/v1/mcp/servers", "GET"), 403);
  EXPECT_EQ(access(pages, {host, cross, navigate, {"sec-fetch-dest", "iframe"}}, "/docs", "GET"), 403);
  EXPECT_EQ(access(pages, {host, cross, {"sec-fetch-mode", "no-cors"}, document}, "/docs", "GET"), 403);
  EXPECT_EQ(access(pages, {host, {"sec-fetch-site", "same-site"}}, "/v1/sessions", "GET"), 403);
  EXPECT_EQ(access(pages, {host, {"sec-fetch-site", "none"}}, "/v1/sessions", "GET"), 200);  // typed
  EXPECT_EQ(access(pages, {host}, "/v1/sessions", "GET"), 200);                              // a program
  // Only a scheme of its own makes an application.
  for (const char* web : {"", "HTTP://evil.example", "Https://evil.example", "blob:http://evil.example",
                          "ws://evil.example", "javascript://evil", "javascript:alert(1)", "data:text/html,x",
                          "file://", "file:///x", "://x", "app://", "a b://x", "about:blank", "NULL"})
    EXPECT_EQ(access(local, {host, {"origin", web}}), 403) << web;
  for (const char* application :
       {"app://desktop", "vscode-webview://1ab", "tauri://localhost", "chrome-extension://abc"})
    EXPECT_EQ(access(local, {host, {"origin", application}}), 200) << application;
  EXPECT_EQ(access(local, {host, {"origin", "app://desktop"}, {"origin", "http://evil.example"}}), 403);
  EXPECT_EQ(access(local, {host, {"origin", "https://evil.example"}}, "/v1/models", "GET"), 403);
  EXPECT_EQ(access(local, {host, {"origin", "https://me.example"}, {"sec-fetch-site", "same-origin"}}), 200);
  EXPECT_EQ(access(rules("0.0.0.0"), {{"host", "box:1"}, {"origin", "http://box:1"}}), 200);
  EXPECT_EQ(access(rules("0.0.0.0"), {{"host", "box:1"}, {"origin", "http://evil.example"}}), 403);
}

TEST(Access, LetsAllowedOriginsIn) {
  const AccessRules some = rules("127.0.0.1", {}, {"https://App.example", "null"});
  const std::pair<std::string, std::string> host{"host", "localhost:1"},
      cross{"sec-fetch-site", "cross-site"};
  EXPECT_EQ(access(some, {host, cross, {"origin", "https://app.example"}}), 200);
  EXPECT_EQ(access(some, {host, cross, {"origin", "null"}}), 200);
  EXPECT_EQ(access(some, {host, cross, {"origin", "http://app.example"}}), 403);
  EXPECT_EQ(access(rules("127.0.0.1", {}, {"*"}), {host, cross, {"origin", "https://any.example"}}), 200);
  for (const char* bad : {"", "app.example", "https://", "https://app.example/", "https://a b"})
    EXPECT_FALSE(make_access_rules("127.0.0.1", {}, {bad}).ok()) << bad;
}

}  // namespace
}  // namespace anabranch::server
