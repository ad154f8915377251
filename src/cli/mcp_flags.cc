#include "cli/mcp_flags.h"

#include "cli/flag_groups.h"
#include "cli/flags.h"

namespace anabranch::cli {

void add_mcp_allow_flag(CLI::App& app, McpFlags& o) {
  const Group group(app, "Tools");
  app.add_option(
         "--mcp-allow", o.allow,
         "Let the model call this server's tools (SERVER), or one tool (SERVER.TOOL), without asking (may "
         "be given several times)")
      ->needs(app.get_option("--mcp-config"))
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_mcp_flags(CLI::App& app, McpFlags& o) {
  const Group group(app, "Tools");
  auto* config = app.add_option("--mcp-config", o.config,
                                "JSON file of MCP servers (\"mcpServers\"), whose tools the model may use "
                                "(docs/mcp.md)");
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->needs(config);
  };
  add("--mcp-log", o.log, "Append a line of JSON about each call, with its arguments, to this file");
  add("--mcp-max-steps", o.limits.steps,
      "Turns of the model for one answer, those with calls included (default: 16)")
      ->check(CLI::Range(1, 10000));
  add("--mcp-max-seconds", o.limits.seconds,
      "Seconds for one answer, your consent not counted (default: 600)")
      ->check(number_in(1.0f, 86400.0f));
  add("--mcp-max-tokens", o.limits.tokens, "Tokens that the model may write for one answer (default: 32768)")
      ->check(CLI::Range(1, 1 << 27));
  add("--mcp-max-output", o.server_limits.output_bytes,
      "Text of one call's result that the model gets; more is cut (default: 64KB)")
      ->transform(size_flag())
      ->check(number_in(256.0f, 16777216.0f));
}

}  // namespace anabranch::cli
