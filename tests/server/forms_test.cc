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

}  // namespace
}  // namespace anabranch::server
