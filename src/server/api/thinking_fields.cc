#include "server/api/thinking_fields.h"

#include <climits>

namespace anabranch::server {
namespace {

// A level of thinking and its budget in tokens. "high" equals the default budget.
struct Effort {
  const char* name;
  int budget;
};
constexpr Effort kEfforts[] = {
    {"none", 0},      {"minimal", 512}, {"low", 2048}, {"medium", 8192}, {"high", kDefaultThinkingBudget},
    {"xhigh", 65536}, {"max", INT_MAX}};

void say(ThinkingWish& wish, ThinkMode mode, const std::string& field) {
  if (wish.mode) return;
  wish.mode = mode;
  wish.said_by = fmt::format("the request's {}", field);
}

void say(ThinkingWish& wish, std::optional<bool> on, const std::string& field) {
  if (on) say(wish, *on ? ThinkMode::on : ThinkMode::off, field);
}

void limit(ThinkingWish& wish, std::optional<int64_t> tokens) {
  if (tokens && !wish.budget) wish.budget = *tokens < 0 ? INT_MAX : static_cast<int>(*tokens);
}

std::optional<int64_t> tokens_in(JsonFields& fields, const char* name) {
  return fields.integer(name, -1, INT_MAX);
}

// true, false or "auto"
void read_switch(JsonFields& fields, const std::string& prefix, ThinkingWish& wish) {
  const Json* value = fields.find("enable_thinking");
  if (!value) return;
  if (value->is_string() && *value == "auto")
    return say(wish, ThinkMode::automatic, prefix + "enable_thinking");
  if (value->is_boolean()) return say(wish, value->get<bool>(), prefix + "enable_thinking");
  fields.fail("enable_thinking", value->is_string() ? "invalid_value" : "invalid_type",
              fmt::format("'{}enable_thinking' must be true, false or \"auto\", not {}", prefix,
                          value->is_string() ? value->dump() : json_type(*value)));
}

const Effort* read_effort(JsonFields& fields, const std::string& prefix, const char* name) {
  const std::string* text = fields.string(name);
  if (!text) return nullptr;
  for (const Effort& effort : kEfforts)
    if (*text == effort.name) return &effort;
  std::string levels;
  for (const Effort& effort : kEfforts)
    levels += fmt::format("{}{}", levels.empty() ? "" : ", ", effort.name);
  fields.fail(name, "invalid_value",
              fmt::format("'{}{}' is {}, but must be one of {}", prefix, name, Json(*text).dump(), levels));
  return nullptr;
}

// Reads the fields of a nested object, if present; its first error becomes the request's.
template <class Read>
void read_inside(JsonFields& fields, const char* name, const Read& read) {
  const Json* object = fields.object(name);
  if (!object) return;
  JsonFields inner(*object, fmt::format("{}.", name));
  read(inner);
  if (inner.error()) fields.fail(*inner.error());
}

void read_anthropic(JsonFields& fields, ThinkingWish& wish) {
  read_inside(fields, "thinking", [&](JsonFields& inner) {
    limit(wish, tokens_in(inner, "budget_tokens"));
    const std::string* type = inner.string("type");
    if (!type) return;
    if (*type == "enabled" || *type == "disabled" || *type == "between_tools")
      say(wish, *type == "enabled", "thinking.type");
    else if (*type == "adaptive")
      say(wish, ThinkMode::automatic, "thinking.type");
    else
      inner.fail(
          "type", "invalid_value",
          fmt::format("'thinking.type' is {}, but must be enabled, disabled, between_tools or adaptive",
                      Json(*type).dump()));
  });
}

struct NamedEffort {
  const Effort* effort = nullptr;
  const char* field = "";
};

// Reads "think" (a boolean or a level) and other fields with levels. Returns the levels by precedence.
std::vector<NamedEffort> read_efforts(JsonFields& fields, ThinkingWish& wish) {
  std::vector<NamedEffort> levels;
  const auto add = [&](const Effort* effort, const char* field) {
    if (effort) levels.push_back({effort, field});
  };
  const Json* think = fields.find("think");
  if (think && think->is_boolean())
    say(wish, think->get<bool>(), "think");
  else
    add(read_effort(fields, "", "think"), "think");
  read_anthropic(fields, wish);
  read_inside(fields, "reasoning", [&](JsonFields& inner) {
    limit(wish, tokens_in(inner, "max_tokens"));
    say(wish, inner.boolean("enabled"), "reasoning.enabled");
    add(read_effort(inner, "reasoning.", "effort"), "reasoning.effort");
  });
  add(read_effort(fields, "", "reasoning_effort"), "reasoning_effort");
  return levels;
}

}  // namespace

ThinkingWish read_thinking(JsonFields& fields) {
  ThinkingWish wish;
  read_switch(fields, "", wish);
  read_inside(fields, "chat_template_kwargs",
              [&](JsonFields& inner) { read_switch(inner, "chat_template_kwargs.", wish); });
  for (const char* name : {"max_thinking_tokens", "thinking_budget", "thinking_token_budget",
                           "thinking_budget_tokens", "reasoning_budget"})
    limit(wish, tokens_in(fields, name));
  const auto levels = read_efforts(fields, wish);
  for (const auto& [effort, field] : levels) {
    const bool on = effort->budget > 0;
    say(wish, on, field);
    if (!on) continue;
    limit(wish, effort->budget);
    if (wish.effort.empty()) wish.effort = effort->name;
  }
  if (wish.budget == 0) say(wish, false, "thinking budget of 0");
  return wish;
}

}  // namespace anabranch::server
