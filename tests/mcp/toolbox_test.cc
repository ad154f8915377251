// Names that models see, consent, and the limits of a run.
#include "mcp/toolbox.h"

#include <gtest/gtest.h>

#include <set>

#include "mcp/agent.h"
#include "mcp/message.h"
#include "mcp/text.h"

namespace anabranch::mcp {
namespace {

Tool tool(const std::string& server, const std::string& name, const std::string& description = "d") {
  return {server, name, "", description, {{"type", "object"}}, Json::object()};
}

TEST(Toolbox, NamesAreUniqueAndPlain) {
  Toolbox box;
  for (const Tool& one :
       {tool("time", "now"), tool("a b", "ü"), tool("a.b", "c"), tool("a_b", "c"), tool("a b", "c"),
        tool("s", std::string(200, 'x')), tool("s", std::string(201, 'x'))})
    box.add(one);
  const Json functions = box.functions();
  ASSERT_EQ(functions.size(), 7u);
  std::set<std::string> names;
  for (const Json& function : functions) {
    const std::string name = function["function"]["name"];
    EXPECT_LE(name.size(), 64u);
    EXPECT_EQ(name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"),
              name.npos);
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 7u);
  EXPECT_EQ(functions[0]["function"]["name"], "time__now");
  EXPECT_EQ(box.find("time__now")->name, "now");
  EXPECT_EQ(box.name_of(tool("time", "now")), "time__now");
  EXPECT_EQ(box.find("now")->server, "time");
  EXPECT_EQ(box.find("c"), nullptr);  // three have it
  EXPECT_EQ(box.find("other"), nullptr);
  box.add(tool("time", "now", "new"));
  EXPECT_EQ(box.functions().size(), 7u);
  EXPECT_EQ(box.find("time__now")->description, "new");
}

TEST(Consent, IsToATool) {
  Consent consent;
  EXPECT_EQ(consent.of(tool("a", "b")), Permission::ask);
  consent.allow("a.b");
  consent.allow("c");
  EXPECT_EQ(consent.of(tool("a", "b")), Permission::allow);
  EXPECT_EQ(consent.of(tool("a", "x")), Permission::ask);
  EXPECT_EQ(consent.of(tool("c", "x")), Permission::allow);
  consent.remember(tool("c", "x"), Permission::refuse);
  EXPECT_EQ(consent.of(tool("c", "x")), Permission::refuse);
  consent.remember(tool("d", "e"), Permission::allow);
  EXPECT_EQ(consent.of(tool("d", "e")), Permission::allow);
  EXPECT_EQ(consent.of(tool("d", "e", "another description")), Permission::ask);
}

TEST(Consent, RulesOfTheResponsesApi) {
  const auto needs = [](const char* rule, const char* name) {
    const auto read = ApprovalRule::read(*parse_json(rule));
    EXPECT_TRUE(read.ok()) << rule;
    return read.ok() && read->needs_approval(name);
  };
  EXPECT_TRUE(needs("null", "a"));
  EXPECT_TRUE(needs(R"("always")", "a"));
  EXPECT_FALSE(needs(R"("never")", "a"));
  EXPECT_FALSE(needs(R"({"never": {"tool_names": ["a"]}})", "a"));
  EXPECT_TRUE(needs(R"({"never": {"tool_names": ["a"]}})", "b"));
  EXPECT_TRUE(needs(R"({"never": {"tool_names": ["a"]}, "always": {"tool_names": ["a"]}})", "a"));
  for (const char* wrong : {"1", R"("sometimes")", R"({"never": ["a"]})", R"({"never": {"tool_names": [1]}})",
                            R"({"other": {"tool_names": []}})"})
    EXPECT_FALSE(ApprovalRule::read(*parse_json(wrong)).ok()) << wrong;
}

TEST(AgentBudget, EachLimitEndsARun) {
  const auto exceeded = [](auto use, double now = 1) {
    AgentBudget budget({.steps = 2, .calls = 3, .seconds = 10, .tokens = 100, .output_bytes = 50}, 0);
    use(budget);
    return budget.exceeded(now).value_or("");
  };
  EXPECT_EQ(exceeded([](auto& b) { b.add_step(99), b.add_call(1), b.add_call(48); }), "");
  EXPECT_EQ(exceeded([](auto& b) { b.add_step(1), b.add_step(1); }), "it took 2 steps, which is the limit");
  EXPECT_NE(exceeded([](auto& b) { b.add_step(100); }), "");
  EXPECT_NE(exceeded([](auto& b) { b.add_call(0), b.add_call(0), b.add_call(0); }), "");
  EXPECT_NE(exceeded([](auto& b) { b.add_call(50); }), "");
  EXPECT_NE(exceeded([](auto&) {}, 10), "");
  EXPECT_EQ(exceeded([](auto& b) { b.add_pause(5); }, 12), "");
}

TEST(Text, LosesWhatActsOrHides) {
  EXPECT_EQ(printable("a\x1b[31mb\x07\r\n\tc\u202e\u009b"), "a[31mb\n\tc");
  EXPECT_EQ(printable("\xff\xfe\xe2\x82"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(without_controls("\x1b[31mä\n\t\u009b\u00a0\x7f\xff"), "[31mä\n\t\u00a0\xff");
  EXPECT_EQ(one_line("a\nb", 10), "a b");
  EXPECT_EQ(one_line("äääää", 5), "ää...");
  EXPECT_EQ(beginning("äää", 3), "ä");
  std::string hidden;
  for (int i = 0; i < 100; i++) hidden += "\u202e";
  EXPECT_EQ(one_line(hidden + "end", 10), "...") << "more follows what is hidden";
}

TEST(Message, Forms) {
  const Limits limits;
  const auto kind = [&](const char* text) {
    const auto parsed = parse_messages(text, limits);
    return parsed.ok() ? static_cast<int>(parsed->front().kind) : -1;
  };
  using Kind = Message::Kind;
  EXPECT_EQ(kind(R"({"jsonrpc":"2.0","id":1,"method":"ping"})"), static_cast<int>(Kind::request));
  EXPECT_EQ(kind(R"({"jsonrpc":"2.0","method":"x","params":null})"), static_cast<int>(Kind::notification));
  EXPECT_EQ(kind(R"([{"jsonrpc":"2.0","id":"a","result":{}}])"), static_cast<int>(Kind::result));
  EXPECT_EQ(kind(R"({"jsonrpc":"2.0","id":null,"error":{"code":1e3,"message":2}})"),
            static_cast<int>(Kind::error));
  for (const char* wrong :
       {"", "1", "{}", R"({"jsonrpc":"1.0","id":1,"method":"x"})",
        R"({"jsonrpc":"2.0","id":null,"method":"x"})", R"({"jsonrpc":"2.0","id":1,"method":2})",
        R"({"jsonrpc":"2.0","id":1,"method":"x","params":[1]})", R"({"jsonrpc":"2.0","id":1,"result":5})",
        R"({"jsonrpc":"2.0","result":{}})", R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"2.0","id":1,"error":"x"})"})
    EXPECT_EQ(kind(wrong), -1) << wrong;
  EXPECT_EQ(request_text(1, "a", nullptr), R"({"jsonrpc":"2.0","id":1,"method":"a"})");
  EXPECT_EQ(error_text("x", -1, "m"), R"({"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"m"}})");
}

TEST(Message, ABatchHasALimit) {
  const auto batch = [](int count) {
    Json out = Json::array();
    for (int i = 0; i < count; i++) out.push_back({{"jsonrpc", "2.0"}, {"method", "x"}});
    return parse_messages(dump_json(out), Limits()).ok();
  };
  EXPECT_TRUE(batch(1024));
  EXPECT_FALSE(batch(1025));
}

}  // namespace
}  // namespace anabranch::mcp
