#include "mcp/config.h"

#include <gtest/gtest.h>

namespace anabranch::mcp {
namespace {

std::optional<std::string> variable(const std::string& name) {
  if (name == "HOME") return "/home/me";
  if (name == "EMPTY") return "";
  return std::nullopt;
}

Result<std::vector<ServerConfig>> parse(const std::string& servers) {
  return parse_config(R"({"mcpServers": )" + servers + "}", "file", variable);
}

std::string problem(const std::string& servers) {
  const auto parsed = parse(servers);
  EXPECT_FALSE(parsed.ok()) << servers;
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(Config, TheCommonFormWorksUnchanged) {
  const auto servers = parse(R"({
    "files": {"command": "npx", "args": ["-y", "server", "${HOME}/docs", "${NONE:-none} ${EMPTY:-e}$"],
              "env": {"KEY": "${HOME}"}, "cwd": "/tmp", "alwaysAllow": [], "timeout": 30000},
    "off": {"command": "x", "disabled": true},
    "web": {"type": "streamable-http", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${NO:-k}"},
            "timeout": 45},
    "plain": {"url": "http://127.0.0.1:1/mcp"}})");
  ASSERT_TRUE(servers.ok()) << servers.error().message;
  ASSERT_EQ(servers->size(), 3u);
  const ServerConfig& files = servers->at(0);
  EXPECT_EQ(files.name, "files");
  EXPECT_FALSE(files.http);
  EXPECT_EQ(files.args, (std::vector<std::string>{"-y", "server", "/home/me/docs", "none e$"}));
  EXPECT_EQ(files.env.at("KEY"), "/home/me");
  EXPECT_EQ(files.call_timeout_s, 30);
  EXPECT_TRUE(servers->at(1).http);
  EXPECT_EQ(servers->at(1).headers.at("Authorization"), "Bearer k");
  EXPECT_EQ(servers->at(1).call_timeout_s, 45);
  EXPECT_TRUE(servers->at(2).http);
}

TEST(Config, ErrorsNameTheServer) {
  EXPECT_EQ(
      problem(R"({"a": {"command": "${NO}"}})"),
      "file: server 'a': 'command' needs the variable NO, which is not set: set it, or write ${NO:-DEFAULT}");
  EXPECT_NE(problem(R"({"a": {"type": "sse", "url": "http://x/sse"}})").find("streamable HTTP"),
            std::string::npos);
  EXPECT_NE(problem(R"({"a": {}})").find("'command'"), std::string::npos);
  EXPECT_NE(problem(R"({"a": {"url": "ftp://x"}})").find("'url'"), std::string::npos);
  EXPECT_NE(problem(R"({"a": {"type": "pipe", "command": "x"}})").find("\"pipe\""), std::string::npos);
  for (const char* wrong :
       {R"({"a": 1})", R"({"": {"command": "x"}})", R"({"a": {"command": ["x"]}})",
        R"({"a": {"command": "x", "args": "y"}})", R"({"a": {"command": "x", "args": [1]}})",
        R"({"a": {"command": "x", "env": {"A=B": "c"}}})", R"({"a": {"command": "x", "timeout": -1}})",
        R"({"a": {"command": "x", "disabled": "no"}})",
        R"({"a": {"url": "http://x", "headers": {"A": "b\r\nC: d"}}})",
        R"({"a": {"url": "http://x\r\nHost: y"}})", R"({"a": {"url": "http://"}})",
        R"({"a": {"command": "x", "timeout": 86401000}})", R"([])"})
    EXPECT_FALSE(problem(wrong).empty());
  for (const char* good :
       {R"({"a": {"url": "http://x", "headers": {"A": "b"}}})", R"({"a": {"url": "https://x"}})",
        R"({"a": {"command": "x", "timeout": 86400000}})"})
    EXPECT_TRUE(parse(good).ok()) << good;
  EXPECT_FALSE(parse_config("{", "file", variable).ok());
  EXPECT_FALSE(parse_config(R"({"servers": {}})", "file", variable).ok());
  EXPECT_EQ(read_config("/no/such/file").error().kind, ErrorKind::not_found);
}

TEST(Config, HasALimitOfServers) {
  const auto servers = [](int count) {
    Json out = Json::object();
    for (int i = 0; i < count; i++) out[std::to_string(i)] = {{"command", "x"}};
    return parse(dump_json(out)).ok();
  };
  EXPECT_TRUE(servers(64));
  EXPECT_FALSE(servers(65));
}

}  // namespace
}  // namespace anabranch::mcp
