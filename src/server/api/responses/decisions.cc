#include "server/api/responses/decisions.h"

#include <set>
#include <utility>

namespace anabranch::server {
namespace {

struct Decided {
  std::set<std::string> found;        // calls that have a decision
  std::vector<std::string> declined;  // calls
};

// The ids of the calls whose results begin at `at`, which is moved past them.
std::set<std::string> results_from(const Json& messages, size_t& at) {
  std::set<std::string> calls;
  for (; at < messages.size() && messages[at]["role"] == "tool"; ++at)
    calls.insert(string_at(messages[at], "tool_call_id"));
  return calls;
}

// Index of the first message after the last answer; 0: there is no answer.
size_t behind_last_answer(const Json& messages) {
  size_t at = messages.size();
  while (at > 0 && messages[at - 1]["role"] != "assistant") --at;
  return at;
}

// Why a call without a result did not run, as text for the model. tool: null if it is not an MCP server's, or
// not offered now.
std::string reason_of(const Decisions& decisions, const std::string& id, const ResponsesRequest& request,
                      const mcp::Tool* tool) {
  const auto decision = decisions.find(id);
  const bool decided = decision != decisions.end();
  if (decided && decision->second) return declined_text(*decision->second);
  return !decided && tool && request.tools.agent.needs_approval(*tool) ? declined_text("it was not approved")
                                                                       : "This was not run";
}

// Handles calls of MCP tools before the last answer, which a client sends again with its history, and its
// decisions on them. A call without a result gets the same "not run" result as when it was made, so the
// prompt stays the same. own: index of the request's first message.
void settle_earlier_calls(const Decisions& decisions, const ResponsesRequest& request, size_t own,
                          Json& messages, Decided& decided) {
  size_t last = behind_last_answer(messages);
  for (size_t i = own; i + 1 < last; ++i) {
    const Json calls = messages[i].value("tool_calls", Json::array());
    size_t at = i + 1;
    const auto answered = results_from(messages, at);
    for (const Json& json : calls.is_array() ? calls : Json::array()) {
      const CallParts parts = parts_of_call(json);
      const mcp::Tool* tool = request.tools.agent.find(parts.name);
      const auto decision = decisions.find(parts.id);
      if (decision != decisions.end()) decided.found.insert(parts.id);
      if (answered.contains(parts.id) || (!tool && decision == decisions.end())) continue;
      if (decision != decisions.end() && decision->second) decided.declined.push_back(parts.id);
      const auto result = not_run(reason_of(decisions, parts.id, request, tool));
      messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(at++),
                      result_message({.id = parts.id}, result));
      ++last;
    }
  }
}

}  // namespace

std::vector<std::string> decide_calls(JsonFields& fields, const Decisions& decisions,
                                      ResponsesRequest& request, Json& messages, size_t& own) {
  Decided decided;
  settle_earlier_calls(decisions, request, own, messages, decided);
  const size_t turn = behind_last_answer(messages);
  size_t at = turn;
  const auto answered = results_from(messages, at);
  const Json calls = turn > 0 ? messages[turn - 1].value("tool_calls", Json::array()) : Json::array();
  for (const Json& json : calls.is_array() ? calls : Json::array()) {
    CallParts parts = parts_of_call(json);
    const std::string& id = parts.id;
    const mcp::Tool* tool = request.tools.agent.find(parts.name);
    const auto decision = decisions.find(id);
    if (decision != decisions.end() && (tool || answered.contains(id))) decided.found.insert(id);
    if (answered.contains(id) || !tool) continue;
    AgentCall call{id, parts.name, *tool, std::move(parts.arguments), true};
    if (decision != decisions.end() && !decision->second) {
      request.approved.push_back(std::move(call));
      continue;
    }
    if (decision != decisions.end()) decided.declined.push_back(call.id);
    const auto result = not_run(reason_of(decisions, call.id, request, tool));
    messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(at), result_message(call, result));
    own += at++ < own ? 1 : 0;
  }
  if (decided.found.size() < decisions.size())
    fields.fail(
        "input", "invalid_value",
        "An 'mcp_approval_response' names no request for approval in the conversation's last answer; its "
        "tools must be among 'tools'");
  else if (!request.approved.empty() && at < messages.size())
    fields.fail("input", "invalid_value",
                "Messages cannot come with the approval of a call: send them afterwards");
  return decided.declined;
}

}  // namespace anabranch::server
