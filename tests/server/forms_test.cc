// Forms of answers on their way from a request to the engine.
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Forms : public ServerTest {
 protected:
  Answer ask(const std::string& more) {
    return post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],)" + more + "}");
  }
};

TEST_F(Forms, GrammarsGoToTheEngineAsTheyAre) {
  for (const std::string text : {"root ::= \"a\"", "root ::= \"Regex(\" [\\](\"] # Regex(\n",
                                 "root ::= RegexLike (\"a\")\nRegexLike ::= \"b\""}) {
    EXPECT_EQ(ask(R"("grammar":)" + Json(text).dump()).status, 200) << text;
    EXPECT_EQ(engine_.grammar(), text);
  }
}

TEST_F(Forms, MacrosWithPatternsAreRefused) {
  for (const std::string text : {"root ::= Regex(\"a\")", "root ::= \"a\" | Regex # why\n (\"((a))\")",
                                 "root ::= Substring(\"abc\")", "root ::= [\"] Regex(\"a\")"}) {
    const Answer answer = ask(R"("grammar":)" + Json(text).dump());
    EXPECT_EQ(answer.status, 400) << text;
    EXPECT_EQ(answer.json()["error"]["param"], "grammar") << text;
  }
}

TEST_F(Forms, AnAnswerWithoutAnEndHasNone) {
  const Answer answer = ask(R"("ignore_eos":true,"max_tokens":5,"response_format":{"type":"json_object"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["param"], "ignore_eos");
  EXPECT_EQ(ask(R"("ignore_eos":true,"max_tokens":5)").status, 200);
}

// A tool whose schema a grammar shows.
Json weather(bool strict) {
  const Json schema = {{"type", "object"}, {"properties", {{"city", {{"const", "Oslo"}}}}}};
  return {{{"type", "function"},
           {"function", {{"name", "weather"}, {"strict", strict}, {"parameters", schema}}}}};
}

TEST_F(Forms, OnlyStrictOrForcedCallsAreHeldToSchemas) {
  const std::string form = R"("response_format":{"type":"json_object"},)";
  const auto held = [&](const std::string& more, bool strict) {
    EXPECT_EQ(ask(more + R"("tools":)" + weather(strict).dump()).status, 200);
    return engine_.grammar().find("Oslo") != std::string::npos;
  };
  EXPECT_FALSE(held(form, false));
  EXPECT_NE(engine_.grammar().find("weather"), std::string::npos);
  EXPECT_TRUE(held(form, true));
  EXPECT_TRUE(held(form + R"("tool_choice":"required",)", false));
  EXPECT_TRUE(held(R"("tool_choice":"required",)", false));
}

TEST_F(Forms, AWrongFormIsRefusedBesideAForcedCall) {
  const std::string call = R"("tool_choice":"required","tools":)" + weather(false).dump();
  const auto answer = [&](const std::string& schema) {
    return ask(R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + schema + "}}," + call);
  };
  EXPECT_EQ(answer(R"({"type":"null"})").status, 200);
  EXPECT_EQ(engine_.grammar().find("null"), std::string::npos);
  EXPECT_EQ(answer(R"({"type":"text"})").status, 400);
  EXPECT_EQ(answer(R"({"not":{}})").json()["error"]["param"], "response_format");
  EXPECT_EQ(ask(R"j("grammar":"root ::= Regex(\"a\")",)j" + call).status, 400);
}

}  // namespace
}  // namespace anabranch::server
