#include <gtest/gtest.h>

#include "server/api.h"
#include "server/http_target.h"

namespace anabranch::server {
namespace {

TEST(HttpTarget, DecodesPaths) {
  EXPECT_EQ(target_path("/").value(), "/");
  EXPECT_EQ(target_path("/a/b?x=%zz#f").value(), "/a/b");
  EXPECT_EQ(target_path("/v1/models/a%20b%2Fc").value(), "/v1/models/a b/c");
  EXPECT_EQ(target_path("http://host:1/x?y").value(), "/x");
  EXPECT_EQ(target_path("HTTP://host").value(), "/");
  for (const char* bad : {"", "*", "x", "/%", "/%2", "/%zz", "/%00"})
    EXPECT_FALSE(target_path(bad).ok()) << bad;
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
                           "127..0.1", "127.0.0.", "xlocalhost", ".localhost", "", "[::]"})
    EXPECT_FALSE(is_loopback_name(name)) << name;
}

int access(const std::string& bound, Headers headers) {
  HttpRequest request;
  request.headers = std::move(headers);
  const auto error = check_access(request, bound);
  return error ? error->status : 200;
}

TEST(Access, TakesOnlyNamesOfThisMachineWhenBoundToIt) {
  EXPECT_EQ(access("127.0.0.1", {{"host", "localhost:11436"}}), 200);
  EXPECT_EQ(access("127.0.0.1", {{"host", "127.0.0.1"}}), 200);
  EXPECT_EQ(access("127.0.0.1", {{"host", "[::1]:1"}}), 200);
  EXPECT_EQ(access("::1", {{"host", "[::1]:1"}}), 200);
  EXPECT_EQ(access("::1", {{"host", "evil.example"}}), 403);
  EXPECT_EQ(access("localhost", {{"host", "evil.example:11436"}}), 403);
  EXPECT_EQ(access("127.0.0.1", {}), 200);  // HTTP/1.0
  EXPECT_EQ(access("127.0.0.1", {{"host", "a b"}}), 400);
  EXPECT_EQ(access("127.0.0.1", {{"host", "localhost"}, {"host", "localhost"}}), 400);
  EXPECT_EQ(access("0.0.0.0", {{"host", "my-server:11436"}}), 200);
}

TEST(Access, KeepsOtherSitesPagesOut) {
  EXPECT_EQ(access("127.0.0.1", {{"host", "localhost"}, {"origin", "http://localhost:3000"}}), 200);
  EXPECT_EQ(access("127.0.0.1", {{"host", "localhost"}, {"origin", "https://evil.example"}}), 403);
  EXPECT_EQ(access("127.0.0.1", {{"host", "localhost"}, {"origin", "null"}}), 403);
  EXPECT_EQ(access("127.0.0.1", {{"host", "localhost"}, {"origin", "app://desktop"}}), 200);
  EXPECT_EQ(access("0.0.0.0", {{"host", "box:1"}, {"origin", "http://box:1"}}), 200);
  EXPECT_EQ(access("0.0.0.0", {{"host", "box:1"}, {"origin", "http://evil.example"}}), 403);
}

}  // namespace
}  // namespace anabranch::server
