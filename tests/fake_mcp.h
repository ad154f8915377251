// An MCP server over HTTP within the test's process. Without more it behaves; a test replaces what is not to.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "raw_http_server.h"

namespace anabranch {

class FakeMcp {
 public:
  using Asked = RawHttpServer::Request;
  using Send = RawHttpServer::Send;

  Json tools = Json::array({{{"name", "echo"}, {"inputSchema", {{"type", "object"}}}}});
  // The text that a call answers with.
  std::function<std::string(const Json& arguments)> text = [](const Json&) { return std::string("done"); };
  // Given with the answer to `initialize`; empty: none.
  std::string session;
  // True: it has answered instead.
  std::function<bool(const Asked&, const std::string& method, const Send&)> instead;
  std::atomic<int> starts{0}, calls{0};

  // The server, once what is above is set.
  const RawHttpServer& server() {
    if (!server_)
      server_ = std::make_unique<RawHttpServer>(
          [this](const Asked& asked, const Send& send) { answer(asked, send); });
    return *server_;
  }

 private:
  void answer(const Asked& asked, const Send& send) {
    if (asked.method == "GET") {
      send(http_answer("", "", "405 Method Not Allowed"));
      return;
    }
    const auto parsed = parse_json(asked.body.empty() ? "{}" : asked.body);
    const Json message = parsed && parsed->is_object() ? *parsed : Json::object();
    const std::string method = string_at(message, "method");
    if (instead && instead(asked, method, send)) return;
    if (!message.contains("id") || method.empty()) {
      send(http_answer("", "", "202 Accepted"));
      return;
    }
    Json result = Json::object();
    std::string fields = "Content-Type: application/json\r\n";
    if (method == "initialize") {
      ++starts;
      result = {{"protocolVersion", message["params"]["protocolVersion"]},
                {"capabilities", {{"tools", Json::object()}}},
                {"serverInfo", {{"name", "fake"}, {"version", "1"}}}};
      if (!session.empty()) fields += "Mcp-Session-Id: " + session + "\r\n";
    } else if (method == "tools/list") {
      result = {{"tools", tools}};
    } else if (method == "tools/call") {
      ++calls;
      result = {
          {"content", Json::array({{{"type", "text"}, {"text", text(message["params"]["arguments"])}}})}};
    }
    send(http_answer(dump_json({{"jsonrpc", "2.0"}, {"id", message["id"]}, {"result", result}}), fields));
  }

  std::unique_ptr<RawHttpServer> server_;
};

}  // namespace anabranch
