// State of an answer whose calls of MCP tools this server runs: the conversation so far, the tools, which
// calls need approval, and the limits.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chat/chat_request.h"
#include "mcp/agent.h"
#include "mcp/servers.h"
#include "mcp/toolbox.h"
#include "sessions/consent_store.h"

namespace anabranch::server {

// The MCP servers whose tools requests may use.
struct ServerTools {
  std::shared_ptr<mcp::Servers> servers;  // null: none
  mcp::AgentLimits limits;                // of one answer
  std::shared_ptr<ConsentStore> consent;  // null: questions are remembered until the server ends
};

// Ids of one call: the chat message has "call_x", the items of the Responses API "mcp_x" and "mcpr_x" (of the
// request for approval).
std::string call_id_with(const char* prefix, const std::string& id);

struct AgentCall {
  std::string id;        // "call_..."
  std::string function;  // the tool's name for the model
  mcp::Tool tool;
  Json arguments;         // an object, or the text if it is not an object
  bool approved = false;  // by the request, after an answer that asked for it
  std::string refusal;    // why it cannot run, as text for the model; empty: it can
};

// The result of a call that the user declined. reason: may be empty.
std::string declined_text(const std::string& reason);

// The question to approve before the call runs. owner: the name of the API key whose user may answer it.
ConsentQuestion question_of(const AgentCall& call, const std::string& owner);

// The reason why an approved call may not run, as text for the model; empty: it may run.
std::string refusal_of(ConsentStore::Verdict verdict);

// Parts of a call in a chat message, {"id", "type", "function": {"name", "arguments"}}; the call may be
// malformed. Arguments that are the text of a JSON object are parsed into that object.
struct CallParts {
  std::string id, name;
  Json arguments;
};
CallParts parts_of_call(const Json& call);

// The tools that a request may use, as the model sees them.
struct AgentTools {
  std::shared_ptr<mcp::Servers> servers;  // null: the request uses none
  mcp::Toolbox toolbox;
  std::map<std::string, mcp::ApprovalRule> rules;  // by server; a server without one needs no approval
  std::set<std::string> others;                    // names of functions that the client runs
  // Where questions for approval are remembered, for the key of this name. Null: nothing is asked.
  std::shared_ptr<ConsentStore> consent;
  std::string owner;
  // Tools (server, name) that need no approval by their rule, but whose definition is not the one that the
  // owner first used or last approved.
  std::set<std::pair<std::string, std::string>> changed;
  bool allowed = true;  // the key has the role `tools`
  // See RequestDefaults::list_tools.
  std::function<Result<std::vector<mcp::Tool>>(const std::string& server)> list = {};

  // The tool that the model means by this name; null: none of these.
  const mcp::Tool* find(const std::string& function) const {
    return others.contains(function) ? nullptr : toolbox.find(function);
  }

  // Whether neither an MCP server nor the client has such a function. This server answers its calls with the
  // names of the tools that exist.
  bool is_unknown(const std::string& function) const {
    return !toolbox.empty() && !others.contains(function) && !toolbox.find(function);
  }
  // The tool that the answer shows for a call of this function, if this server answers the call. An unknown
  // function is shown as a tool of that name on the first server. None: the client runs the function.
  std::optional<mcp::Tool> answered_here(const std::string& function) const;

  bool needs_approval(const mcp::Tool& tool) const {
    const auto rule = rules.find(tool.server);
    return rule != rules.end() &&
           (rule->second.needs_approval(tool.name) || changed.contains({tool.server, tool.name}));
  }
  // Fills `changed` from the tools of the toolbox.
  void note_changes();
};

// Sorts the tool results after each assistant message into the order of that message's calls, as templates
// expect.
void sort_results(Json& messages);

// Token limit of one turn. asked: the request's limit; -1: no limit.
int most_tokens(int asked, const mcp::AgentLimits& limits);

// Used on the I/O thread only; run_call() runs the calls elsewhere.
class AgentRun {
 public:
  // waiting: approved calls of the conversation's last message.
  AgentRun(AgentTools tools, ChatRequest request, std::vector<AgentCall> waiting, mcp::AgentLimits limits,
           double now);

  const std::shared_ptr<mcp::Servers>& servers() const { return tools_.servers; }
  // The calls to run now.
  bool has_waiting() const { return !waiting_.empty(); }
  std::vector<AgentCall> take_waiting() { return std::exchange(waiting_, {}); }

  // Adds the chat message of a turn that the model has ended, and its number of tokens. Returns more about
  // its calls: {call id: {"server_label", "name", "approval_request_id"?}}.
  Json add_turn(const Json& message, int tokens);
  void add_result(const AgentCall& call, const mcp::CallResult& result);
  // Replaces the conversation so far, and the choice whether to think.
  void go_on_from(ChatRequest chat);
  // Whether it is the model's turn: all its calls have results, and no limit is reached.
  bool goes_on(double now);
  // The limit that ended the run, as a clause; empty: no limit was reached.
  const std::string& stopped() const { return stopped_; }
  // The request for the model's next turn.
  ChatRequest next_request() const;
  // The number of further calls that may run, and bytes of output for them. Calls beyond that do not run;
  // their results say so, and the model can answer with what it knows.
  int calls_left() const { return calls_left_; }
  size_t bytes_left() const { return bytes_left_; }
  double seconds_left(double now) const { return budget_.seconds_left(now); }

 private:
  void add_call(CallParts parts, Json& known);
  // Whether all waiting calls failed before. The model then answers once more, without tools.
  bool only_repeats() const;

  const AgentTools tools_;
  ChatRequest request_;
  std::vector<AgentCall> waiting_;
  mcp::FailedCalls failed_;
  bool last_turn_ = false;
  bool others_wait_ = false;  // calls that the client runs or approves
  mcp::AgentBudget budget_;   // of steps, tokens and time
  int calls_left_;
  size_t bytes_left_;
  int tokens_left_;  // of the answer
  std::string stopped_;
};

// Calls the tool; to be run on a worker. most_bytes: limit of its output.
mcp::CallResult run_call(const AgentCall& call, mcp::Servers& servers, const std::string& owner,
                         size_t most_bytes, const mcp::Cancelled& cancelled);
// The result of a call that does not run. why: a sentence.
mcp::CallResult not_run(std::string why);
// The result as a message of the conversation.
Json result_message(const AgentCall& call, const mcp::CallResult& result);

}  // namespace anabranch::server
