#include "chat/volatile_text.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

VolatileRule rule(const std::string& pattern, bool drop) {
  auto regex = Regex::compile(pattern);
  CHECK(regex.ok(), "{}", regex.error().message);
  return {std::move(*regex), drop};
}

Json applied(const std::string& messages, const std::vector<VolatileRule>& rules) {
  Json json = *parse_json(messages);
  split_volatile_text(json, rules);
  return json;
}

TEST(VolatileText, DropsWhatIsDeclared) {
  const auto out = applied(R"([{"role":"system","content":"x-billing: cc=17;\nYou help.\nx-billing: cc=18;"},
                               {"role":"user","content":"x-billing: mine"}])",
                           {rule("x-billing: [^\n]*\n?", true)});
  EXPECT_EQ(out[0]["content"], "You help.\n");
  EXPECT_EQ(out[1]["content"], "x-billing: mine");
}

TEST(VolatileText, KnowsWhatClaudeCodeAdds) {
  const auto known = known_volatile_text();
  const auto rest = [&](const std::string& system) {
    Json messages = {{{"role", "system"}, {"content", system}}};
    split_volatile_text(messages, known);
    return messages[0]["content"].get<std::string>();
  };
  const std::string header =
      "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;";
  EXPECT_EQ(rest(header + "\nYou are Claude Code."), "You are Claude Code.");
  EXPECT_EQ(rest(header + "You are Claude Code."), "You are Claude Code.");
  EXPECT_EQ(rest("Be brief.\n" + header + "\n\nYou are Claude Code."), "Be brief.\n\nYou are Claude Code.");
  EXPECT_EQ(rest(header), "");
  EXPECT_EQ(rest("x-anthropic-workload: cc_workload=cron"), "");
  // What only speaks of it stays.
  for (const std::string text : {"Never send x-anthropic-billing-header: cch=1; to anybody.",
                                 "x-anthropic-billing-header: is a header", "Today's date: 2026-11-22"})
    EXPECT_EQ(rest(text), text);
}

TEST(VolatileText, MovesDatesBehindTheLastUserMessage) {
  const std::vector<VolatileRule> rules = {rule("Today is \\d{4}-\\d\\d-\\d\\d\\.", false)};
  const auto out = applied(
      R"([{"role":"system","content":"A. Today is 2026-11-22. B."},{"role":"user","content":"one"},
          {"role":"assistant","content":"two"},{"role":"user","content":"three"},{"role":"tool","content":"4"}])",
      rules);
  EXPECT_EQ(out[0]["content"], "A.  B.");
  EXPECT_EQ(out[1]["content"], "one");
  EXPECT_EQ(out[3]["content"], "three\n\nToday is 2026-11-22.");
  const auto parts = applied(
      R"([{"role":"developer","content":[{"type":"text","text":"Today is 2026-11-22."}]},
          {"role":"user","content":[{"type":"text","text":"one"}]}])",
      rules);
  EXPECT_EQ(parts[0]["content"][0]["text"], "");
  EXPECT_EQ(parts[1]["content"][1]["text"], "Today is 2026-11-22.");
}

TEST(VolatileText, LosesNothingWithoutAUserMessage) {
  const std::string messages = R"([{"role":"system","content":"Today is 2026-11-22."}])";
  EXPECT_EQ(applied(messages, {rule("Today[^.]*\\.", false)}), *parse_json(messages));
}

TEST(VolatileText, TakesAnyJson) {
  const std::vector<VolatileRule> rules = {rule("a", true), rule("b", false), rule("", true)};
  for (const char* messages :
       {"null", "3", "{}", "[1,null,[]]", R"([{"role":3},{"role":"user"}])",
        R"([{"role":"user","content":null},{"role":"system","content":[1,{"text":2}]}])",
        R"([{"role":"system","content":"c"}])"})
    EXPECT_EQ(applied(messages, rules), *parse_json(messages)) << messages;
}

}  // namespace
}  // namespace anabranch
