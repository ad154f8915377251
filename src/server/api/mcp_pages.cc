#include "server/api/mcp_pages.h"

#include <atomic>
#include <utility>

#include "server/http/api_error.h"

namespace anabranch::server {
namespace {

const char* name_of(mcp::ServerState::State state) {
  return state == mcp::ServerState::State::connected ? "connected"
         : state == mcp::ServerState::State::failed  ? "failed"
                                                     : "idle";
}

Json prompt_json(const mcp::PromptInfo& prompt) {
  Json arguments = Json::array();
  for (const mcp::PromptArgument& one : prompt.arguments)
    arguments.push_back({{"name", one.name}, {"description", one.description}, {"required", one.required}});
  return {{"name", prompt.name},
          {"title", prompt.title},
          {"description", prompt.description},
          {"arguments", std::move(arguments)}};
}

Json server_json(const mcp::ServerState& server) {
  Json json = {{"id", server.name},
               {"object", "mcp_server"},
               {"title", server.title},
               {"transport", server.http ? "http" : "stdio"},
               {"state", name_of(server.state)},
               {"error", server.error.empty() ? Json() : Json(server.error)},
               {"tools", Json::array()},
               {"resources", Json::array()},
               {"prompts", Json::array()}};
  for (const mcp::Tool& tool : server.tools.items)
    json["tools"].push_back({{"name", tool.name},
                             {"title", tool.title},
                             {"description", tool.description},
                             {"input_schema", tool.input_schema},
                             {"annotations", tool.annotations}});
  for (const mcp::Resource& one : server.resources.items)
    json["resources"].push_back({{"uri", one.uri},
                                 {"name", one.name},
                                 {"title", one.title},
                                 {"description", one.description},
                                 {"mime_type", one.mime_type}});
  for (const mcp::PromptInfo& prompt : server.prompts.items) json["prompts"].push_back(prompt_json(prompt));
  return json;
}

}  // namespace

Json mcp_servers_json(const mcp::Servers* servers) {
  Json data = Json::array();
  if (servers)
    for (const mcp::ServerState& server : servers->states()) data.push_back(server_json(server));
  return {{"object", "list"}, {"data", std::move(data)}};
}

void ask_mcp_servers(std::shared_ptr<mcp::Servers> servers, const std::string& owner, WaitPool& workers,
                     const Post& post, std::shared_ptr<ResponseStream> out) {
  const auto left = std::make_shared<std::atomic<bool>>(false);
  out->on_client_left([left] { *left = true; });
  // Its deleter answers when the last job has ended or was dropped.
  const std::shared_ptr<void> last(nullptr, [servers, post, out](void*) {
    post([servers, out] { out->respond(json_response(mcp_servers_json(servers.get()))); });
  });
  if (!servers) return;
  for (const std::string& name : servers->names())
    workers.submit(owner, {name}, [servers, name, left, last, &workers] {
      const mcp::Cancelled cancelled = [&] { return *left || workers.stopping(); };
      if (!servers->tools(name, cancelled)) return;  // the server's state shows the failure
      (void)servers->resources(name, cancelled);
      (void)servers->prompts(name, cancelled);
    });
}

Json mcp_calls_json(const mcp::Servers* servers, const std::string& owner) {
  Json data = Json::array();
  if (servers)
    for (const mcp::CallRecord& call : servers->recent_calls(owner))
      data.push_back({{"at", call.at},
                      {"server_label", call.server},
                      {"name", call.tool},
                      {"seconds", call.seconds},
                      {"output_bytes", call.output_bytes},
                      {"error", call.error.empty() ? Json() : Json(call.error)}});
  return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace anabranch::server
