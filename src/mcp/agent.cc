#include "mcp/agent.h"

namespace anabranch::mcp {
namespace {

std::string definition(const Tool& tool) {
  return dump_json(Json::array({tool.server, tool.name, tool.description, tool.input_schema}));
}

Error wrong_rule() {
  return {ErrorKind::invalid,
          "'require_approval' is \"always\", \"never\", or an object of these with \"tool_names\""};
}

Result<std::set<std::string>> tool_names(const Json& filter) {
  const auto names = filter.is_object() ? filter.find("tool_names") : filter.end();
  if (names == filter.end() || !names->is_array()) return wrong_rule();
  std::set<std::string> out;
  for (const Json& name : *names) {
    if (!name.is_string()) return wrong_rule();
    out.insert(name.get<std::string>());
  }
  return out;
}

}  // namespace

std::optional<std::string> AgentBudget::exceeded(double now) const {
  if (steps_ >= limits_.steps) return fmt::format("it took {} steps, which is the limit", steps_);
  if (calls_ >= limits_.calls) return fmt::format("it made {} calls, which is the limit", calls_);
  if (tokens_ >= limits_.tokens)
    return fmt::format("it wrote {} tokens; the limit is {}", tokens_, limits_.tokens);
  if (bytes_ >= limits_.output_bytes)
    return fmt::format("the tools' answers have {} bytes; the limit is {}", bytes_, limits_.output_bytes);
  if (seconds_left(now) <= 0) return fmt::format("it took longer than {:g} s", limits_.seconds);
  return std::nullopt;
}

void Consent::remember(const Tool& tool, Permission permission) {
  remembered_[definition(tool)] = permission;
}

Permission Consent::of(const Tool& tool) const {
  if (const auto at = remembered_.find(definition(tool)); at != remembered_.end()) return at->second;
  return named_.contains(tool.server) || named_.contains(tool.server + "." + tool.name) ? Permission::allow
                                                                                        : Permission::ask;
}

Result<ApprovalRule> ApprovalRule::read(const Json& rule) {
  ApprovalRule out;
  if (rule.is_null() || rule == "always") return out;
  if (rule == "never") {
    out.always_ = false;
    return out;
  }
  if (!rule.is_object()) return wrong_rule();
  for (const auto& [key, filter] : rule.items()) {
    if (filter.is_null()) continue;
    if (key != "always" && key != "never") return wrong_rule();
    TRY(auto names, tool_names(filter));
    (key == "always" ? out.always_of_ : out.never_of_) = std::move(names);
  }
  return out;
}

bool ApprovalRule::needs_approval(const std::string& tool) const {
  if (always_of_.contains(tool)) return true;
  if (never_of_.contains(tool)) return false;
  return always_;
}

}  // namespace anabranch::mcp
