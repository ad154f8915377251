// Response formats on their way from a request to the engine.
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class ResponseFormats : public ServerTest {
 protected:
  HttpAnswer ask(const std::string& more) {
    return post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],)" + more + "}");
  }
};

TEST_F(ResponseFormats, GrammarsGoToTheEngineAsTheyAre) {
  for (const std::string text : {"root ::= \"a\"", "root ::= \"Regex(\" [\\](\"] # Regex(\n",
                                 "root ::= RegexLike (\"a\")\nRegexLike ::= \"b\""}) {
    EXPECT_EQ(ask(R"("grammar":)" + Json(text).dump()).status, 200) << text;
    EXPECT_EQ(engine_.grammar(), text);
  }
}

TEST_F(ResponseFormats, MacrosWithPatternsAreRefused) {
  for (const std::string text : {"root ::= Regex(\"a\")", "root ::= \"a\" | Regex # why\n (\"((a))\")",
                                 "root ::= Substring(\"abc\")", "root ::= [\"] Regex(\"a\")"}) {
    const HttpAnswer answer = ask(R"("grammar":)" + Json(text).dump());
    EXPECT_EQ(answer.status, 400) << text;
    EXPECT_EQ(answer.json()["error"]["param"], "grammar") << text;
  }
}

TEST_F(ResponseFormats, AnAnswerWithoutAnEndHasNone) {
  const HttpAnswer answer =
      ask(R"("ignore_eos":true,"max_tokens":5,"response_format":{"type":"json_object"})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["param"], "ignore_eos");
  EXPECT_EQ(ask(R"("ignore_eos":true,"max_tokens":5)").status, 200);
}

// Every field that asks for a form, and a part of the grammar that it becomes.
TEST_F(ResponseFormats, OtherServersFieldsAreObeyed) {
  const struct {
    const char *field, *grammar;
  } cases[] = {
      {R"("response_format":{"type":"json_object","schema":{"const":"Oslo"}})", "Oslo"},
      {R"("response_format":{"type":"json_schema","schema":{"const":"Oslo"}})", "Oslo"},
      {R"("text":{"format":{"type":"json_schema","schema":{"const":"Oslo"}}})", "Oslo"},
      {R"("format":{"const":"Oslo"})", "Oslo"},
      {R"("format":"json")", "{"},
      {R"("guided_json":"{\"const\":\"Oslo\"}")", "Oslo"},
      {R"("guided_choice":["Oslo","Rome"])", "Rome"},
      {R"("guided_regex":"Os[l]o")", "[l]"},
      {R"("regex":"^Os[l]o$")", "[l]"},
      {R"("guided_grammar":"root ::= \"Oslo\"")", "Oslo"},
      {R"("ebnf":"root ::= \"Oslo\"")", "Oslo"},
      {R"("structured_outputs":{"json":{"const":"Oslo"}})", "Oslo"},
      {R"("structured_outputs":{"json_object":true})", "{"},
      {R"("structured_outputs":{"regex":"Os[l]o","disable_any_whitespace":false})", "[l]"},
      {R"("structured_outputs":{"choice":["Oslo"],"grammar":null})", "Oslo"},
      {R"("structured_outputs":{"grammar":"root ::= \"Oslo\""})", "Oslo"},
      {R"("guided_choice":["Oslo"],"guided_decoding_backend":"xgrammar","min_tokens":0,"bad_words":[])",
       "Oslo"},
  };
  for (const auto& c : cases) {
    const HttpAnswer answer = ask(c.field);
    EXPECT_EQ(answer.status, 200) << c.field << answer.body;
    EXPECT_NE(engine_.grammar().find(c.grammar), std::string::npos) << c.field << "\n" << engine_.grammar();
  }
}

TEST_F(ResponseFormats, WhatCannotBeObeyedIsRefusedByName) {
  const struct {
    const char *field, *param;
  } cases[] = {
      {R"("structural_tag":{})", "structural_tag"},
      {R"("structured_outputs":{"structural_tag":"{}"})", "structured_outputs.structural_tag"},
      {R"("structured_outputs":{"choice":["a"],"whitespace_pattern":" "})",
       "structured_outputs.whitespace_pattern"},
      {R"("structured_outputs":{"json":{},"disable_any_whitespace":true})",
       "structured_outputs.disable_any_whitespace"},
      {R"("structured_outputs":{"json":"{"})", "structured_outputs.json"},
      {R"("structured_outputs":{"regex":"a","choice":["b"]})", "structured_outputs.choice"},
      {R"("guided_choice":[])", "guided_choice"},
      {R"("guided_choice":["a",1])", "guided_choice"},
      {R"("guided_choice":["a"],"guided_regex":"b")", "guided_regex"},
      {R"("guided_regex":"(a")", "guided_regex"},
      {R"j("regex":"a(?=b)")j", "regex"},
      {R"("regex":7)", "regex"},
      {R"j("ebnf":"root ::= Regex(\"a\")")j", "ebnf"},
      {R"("guided_whitespace_pattern":" ?")", "guided_whitespace_pattern"},
      {R"("guided_decoding_backend":"xgrammar:disable-any-whitespace")", "guided_decoding_backend"},
      {R"("grammar_lazy":true)", "grammar_lazy"},
      {R"("format":"yaml")", "format"},
      {R"("text":{"format":{"type":"grammar"}})", "text.format.type"},
      {R"("response_format":{"type":"regex","pattern":"a"})", "response_format.type"},
      {R"("response_format":{"type":"structural_tag"})", "response_format.type"},
      {R"("response_format":{"type":"json_object","schema":7})", "response_format"},
      {R"("bad_words":["x"])", "bad_words"},
      {R"("use_beam_search":true)", "use_beam_search"},
  };
  for (const auto& c : cases) {
    const HttpAnswer answer = ask(c.field);
    EXPECT_EQ(answer.status, 400) << c.field;
    if (answer.status == 400) {
      EXPECT_EQ(answer.json()["error"]["param"], c.param) << answer.body;
    }
  }
}

TEST_F(ResponseFormats, AnthropicsFieldsAreObeyed) {
  const auto ask = [&](const std::string& more) {
    return post("/v1/messages",
                R"({"max_tokens":9,"messages":[{"role":"user","content":"hi"}],)" + more + "}");
  };
  for (const std::string field :
       {R"("output_config":{"format":{"type":"json_schema","schema":{"const":"Oslo"}}})",
        R"("output_format":{"type":"json_schema","schema":{"const":"Oslo"}})",
        R"("guided_choice":["Oslo"])"}) {
    EXPECT_EQ(ask(field).status, 200) << field;
    EXPECT_NE(engine_.grammar().find("Oslo"), std::string::npos) << field;
  }
  const std::string tool =
      R"("tools":[{"name":"f","strict":STRICT,"input_schema":{"type":"object","properties":{"c":{"const":"Rome"}}}}])";
  const auto with = [&](const char* strict) {
    return std::string(tool).replace(tool.find("STRICT"), 6, strict);
  };
  EXPECT_EQ(ask(with("true")).status, 200);
  EXPECT_NE(engine_.grammar().find("Rome"), std::string::npos);
}

// A tool whose schema a grammar shows.
Json weather(bool strict) {
  const Json schema = {{"type", "object"}, {"properties", {{"city", {{"const", "Oslo"}}}}}};
  return {{{"type", "function"},
           {"function", {{"name", "weather"}, {"strict", strict}, {"parameters", schema}}}}};
}

TEST_F(ResponseFormats, OnlyStrictOrForcedCallsAreHeldToSchemas) {
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

TEST_F(ResponseFormats, AWrongFormIsRefusedBesideAForcedCall) {
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
