// The MCP servers in a chat: lists what they offer, asks which calls the user allows, and runs calls.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "cli/options.h"
#include "mcp/agent.h"
#include "mcp/servers.h"
#include "mcp/toolbox.h"
#include "output/tool_call.h"

namespace anabranch::cli {

class ToolDesk {
 public:
  // Asks the user on the terminal. Returns the line, or nothing at the end of input. Unset: nobody can be
  // asked.
  using Ask = std::function<std::optional<std::string>(const std::string& question)>;

  // Errors: those of mcp::read_config; invalid (--mcp-allow names an unknown server); io (the log).
  static Result<std::unique_ptr<ToolDesk>> open(const McpFlags& flags, Ask ask,
                                                const std::atomic<bool>& interrupt);

  const mcp::AgentLimits& limits() const { return limits_; }
  // Asks all servers for their tools. If a server fails, this is logged and its tools are left out.
  // try_failed: also try servers whose start failed. By default they are skipped, because one that hangs
  // would delay each message.
  void refresh(bool try_failed = false);
  // OpenAI's array; null: there are no tools.
  Json functions() const;
  struct Outcome {
    std::string text;  // for the model
    bool failed = false;
  };
  // Shows the call, asks for consent if it must, and runs it.
  Outcome run(const ToolCall& call, mcp::AgentBudget& budget);

  // A summary for people.
  std::string summary() const;  // "3 tools of 2 servers"
  std::string list_tools();
  std::string list_resources();
  std::string list_prompts();
  // A resource as text to put before a message. words: "URI" or "SERVER URI".
  Result<std::string> resource(const std::string& words);
  // A prompt's messages. words: "NAME" or "SERVER.NAME", then arguments as name=value or name="two words".
  Result<Json> prompt(const std::string& words);

 private:
  ToolDesk(const McpFlags& flags, std::vector<mcp::ServerConfig> configs, Ask ask,
           const std::atomic<bool>& interrupt);
  // Whether the call may run; otherwise the reason, for the model.
  std::optional<std::string> refusal(const mcp::Tool& tool, const Json& arguments);
  mcp::Permission ask(const mcp::Tool& tool);
  bool show_pages(std::string_view text);

  const mcp::AgentLimits limits_;
  const Ask ask_;
  const mcp::Cancelled cancelled_;  // Ctrl-C
  mcp::Servers servers_;
  mcp::Consent consent_;
  mcp::Toolbox toolbox_;
};

}  // namespace anabranch::cli
