#include "server/api/agent_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "mcp/text.h"

namespace anabranch::server {
namespace {

constexpr size_t kShownName = 100;  // bytes of a name that the model made up

std::string text_of(const AgentCall& call) {
  return call.function + " " + dump_json(call.arguments);
}

}  // namespace

std::optional<mcp::Tool> AgentTools::answered_here(const std::string& function) const {
  if (const mcp::Tool* tool = find(function)) return *tool;
  if (!is_unknown(function)) return std::nullopt;
  mcp::Tool stand_in;
  stand_in.server = toolbox.first().server;
  stand_in.name = function;
  return stand_in;
}

std::string call_id_with(const char* prefix, const std::string& id) {
  return prefix + id.substr(id.find('_') + 1);
}

std::string declined_text(const std::string& reason) {
  return "The user declined this call" + (reason.empty() ? "" : ": " + reason);
}

CallParts parts_of_call(const Json& call) {
  CallParts parts{string_at(call, "id"), "", Json()};
  const auto function = call.is_object() ? call.find("function") : call.end();
  if (function == call.end() || !function->is_object()) return parts;
  parts.name = string_at(*function, "name");
  parts.arguments = function->value("arguments", Json());
  if (!parts.arguments.is_string()) return parts;
  if (auto parsed = parse_json(parts.arguments.get_ref<const std::string&>()); parsed && parsed->is_object())
    parts.arguments = std::move(*parsed);
  return parts;
}

int most_tokens(int asked, const mcp::AgentLimits& limits) {
  return asked < 0 ? limits.tokens : std::min(asked, limits.tokens);
}

namespace {

// Normalizes the value, so that equal values give equal text: clients and tool servers may order members and
// write whole numbers differently.
Json in_order(const Json& json) {
  if (json.is_array()) {
    Json out = Json::array();
    for (const Json& one : json) out.push_back(in_order(one));
    return out;
  }
  if (json.is_object()) {
    std::map<std::string, Json> members;
    for (const auto& [name, value] : json.items()) members.emplace(name, in_order(value));
    Json out = Json::object();
    for (auto& [name, value] : members) out[name] = std::move(value);
    return out;
  }
  constexpr double kExact = 9007199254740992;  // 2^53: whole numbers below it are exact
  if (json.is_number_float() && std::abs(json.get<double>()) < kExact &&
      std::nearbyint(json.get<double>()) == json.get<double>())
    return static_cast<int64_t>(json.get<double>());
  return json;
}

}  // namespace

ConsentQuestion question_of(const AgentCall& call, const std::string& owner) {
  const Json shown = Json::array({call.tool.title, call.tool.description, call.tool.input_schema,
                                  call.tool.annotations, call.tool.origin});
  const std::string arguments =
      call.arguments.is_string() ? call.arguments.get<std::string>() : dump_json(in_order(call.arguments));
  return {owner, call.id, call.tool.server, call.tool.name, arguments, dump_json(in_order(shown))};
}

std::string refusal_of(ConsentStore::Verdict verdict) {
  switch (verdict) {
    case ConsentStore::Verdict::granted:
      return "";
    case ConsentStore::Verdict::not_asked:
      return "This was not run: nobody was asked for it, or it has been run before. Call it again if it is "
             "needed";
    case ConsentStore::Verdict::other_call:
      return "This was not run: another call was shown when approval was asked for";
    case ConsentStore::Verdict::changed_tool:
      return "This was not run: the tool has changed since approval was asked for. Call it again if it is "
             "needed";
  }
  return "";
}

void AgentTools::note_changes() {
  if (!consent) return;
  for (const mcp::Tool& tool : toolbox.tools()) {
    const auto rule = rules.find(tool.server);
    if (rule == rules.end() || rule->second.needs_approval(tool.name)) continue;
    const ConsentQuestion q = question_of({.tool = tool}, owner);
    if (consent->has_changed(owner, tool.server, tool.name, q.shown)) changed.emplace(tool.server, tool.name);
  }
}

void sort_results(Json& messages) {
  for (size_t turn = 0; turn < messages.size(); ++turn) {
    const auto calls = messages[turn].find("tool_calls");
    if (calls == messages[turn].end() || !calls->is_array()) continue;
    std::map<std::string, size_t> place;
    for (const Json& call : *calls) place.emplace(string_at(call, "id"), place.size());
    size_t end = turn + 1;
    while (end < messages.size() && string_at(messages[end], "role") == "tool") ++end;
    const auto of = [&](const Json& result) {
      const auto at = place.find(string_at(result, "tool_call_id"));
      return at == place.end() ? place.size() : at->second;
    };
    std::stable_sort(messages.begin() + static_cast<std::ptrdiff_t>(turn + 1),
                     messages.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](const Json& one, const Json& other) { return of(one) < of(other); });
  }
}

AgentRun::AgentRun(AgentTools tools, ChatRequest request, std::vector<AgentCall> waiting,
                   mcp::AgentLimits limits, double now)
    : tools_(std::move(tools)),
      request_(std::move(request)),
      waiting_(std::move(waiting)),
      budget_(limits, now),
      calls_left_(limits.calls),
      bytes_left_(limits.output_bytes),
      tokens_left_(most_tokens(request_.options.max_tokens, limits)) {}

Json AgentRun::add_turn(const Json& message, int tokens) {
  budget_.add_step(tokens);
  tokens_left_ = std::max(0, tokens_left_ - tokens);
  request_.messages.push_back(message);
  if (request_.continuation) {  // the turn began with the request's text
    Json& turn = request_.messages.back();
    turn["content"] = request_.continuation->content + string_at(turn, "content");
    if (!request_.continuation->reasoning.empty())
      turn["reasoning_content"] = request_.continuation->reasoning + string_at(turn, "reasoning_content");
    request_.continuation.reset();
  }
  Json known = Json::object();
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return known;
  if (last_turn_) return known;
  for (const Json& call : *calls) add_call(parts_of_call(call), known);
  last_turn_ = only_repeats();
  return known;
}

void AgentRun::add_call(CallParts parts, Json& known) {
  const std::string id = parts.id;
  const auto tool = tools_.answered_here(parts.name);
  if (!tool) {
    others_wait_ = true;
    return;
  }
  const bool unknown = tools_.is_unknown(parts.name);
  known[id] = {{"server_label", tool->server}, {"name", tool->name}};
  if (!unknown && tools_.needs_approval(*tool)) {
    known[id]["approval_request_id"] = call_id_with("mcpr_", id);
    others_wait_ = true;
    if (tools_.consent)
      tools_.consent->ask(question_of({id, parts.name, *tool, std::move(parts.arguments)}, tools_.owner));
    return;
  }
  AgentCall call{id, parts.name, *tool, std::move(parts.arguments)};
  if (unknown)
    call.refusal = fmt::format("There is no tool '{}'. There are: {}", mcp::one_line(parts.name, kShownName),
                               tools_.toolbox.names());
  waiting_.push_back(std::move(call));
}

bool AgentRun::only_repeats() const {
  return !waiting_.empty() && std::ranges::all_of(waiting_, [&](const AgentCall& call) {
    return failed_.contains(text_of(call));
  });
}

void AgentRun::add_result(const AgentCall& call, const mcp::CallResult& result) {
  calls_left_ = std::max(0, calls_left_ - 1);
  bytes_left_ -= std::min(bytes_left_, result.text.size());
  failed_.add(text_of(call), result.is_error);
  request_.messages.push_back(result_message(call, result));
}

void AgentRun::go_on_from(ChatRequest chat) {
  request_.messages = std::move(chat.messages);
  request_.images = std::move(chat.images);
  request_.options.thinking = std::move(chat.options.thinking);
}

bool AgentRun::goes_on(double now) {
  if (others_wait_) return false;
  if (tokens_left_ == 0) stopped_ = "it has as many tokens as it may have";
  if (const auto limit = budget_.exceeded(now)) stopped_ = *limit;
  return stopped_.empty();
}

ChatRequest AgentRun::next_request() const {
  ChatRequest next = request_;
  sort_results(next.messages);
  next.options.max_tokens = tokens_left_;
  // A forced call was made in the first turn. If the forcing tool_choice stayed, the model would call for
  // ever.
  const bool may_call = next.tool_choice.kind != ToolChoice::Kind::none && !last_turn_;
  next.tool_choice = {may_call ? ToolChoice::Kind::automatic : ToolChoice::Kind::none};
  return next;
}

mcp::CallResult run_call(const AgentCall& call, mcp::Servers& servers, const std::string& owner,
                         size_t most_bytes, const mcp::Cancelled& cancelled) {
  if (!call.arguments.is_object()) return not_run("The arguments are no JSON object");
  mcp::CallResult result = servers.call(call.tool, call.arguments, cancelled, owner);
  if (result.text.size() <= most_bytes) return result;
  result.text.resize(mcp::beginning(result.text, most_bytes).size());
  result.truncated = true;
  return result;
}

mcp::CallResult not_run(std::string why) {
  return {.text = std::move(why), .is_error = true};
}

Json result_message(const AgentCall& call, const mcp::CallResult& result) {
  return {{"role", "tool"},
          {"content", mcp::text_for_model(result.is_error, result.text)},
          {"tool_call_id", call.id}};
}

}  // namespace anabranch::server
