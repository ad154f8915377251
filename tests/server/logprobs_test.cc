// Log probabilities in both routes, whole and streamed: every sampled token has its own, none is lost.
#include <cmath>

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Logprobs : public ServerTest {
 protected:
  Json choice(const std::string& path, const std::string& body) {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json()["choices"][0];
  }
  Json chat(const std::string& extra) { return choice("/v1/chat/completions", chat_body(extra)); }
  Json completion(const std::string& extra) {
    return choice("/v1/completions", R"({"prompt":"a")" + extra + "}");
  }
  // A stream's text and log probabilities, each list joined.
  Json joined(const std::string& path, const std::string& body, const char* text_key) {
    Json out = {{"text", ""}, {"logprobs", Json::object()}};
    for (const Json& event : events(post(path, body).body)) {
      if (!event.is_object()) continue;
      const Json& one = event["choices"][0];
      const Json& part = one.contains("delta") ? one["delta"] : one;
      if (part.contains(text_key))
        out["text"] = out["text"].get<std::string>() + part[text_key].get<std::string>();
      if (one["logprobs"].is_null()) continue;
      for (const auto& [key, list] : one["logprobs"].items())
        for (const Json& entry : list) out["logprobs"][key].push_back(entry);
    }
    return out;
  }
  static std::string chat_body(const std::string& extra) {
    return R"({"messages":[{"role":"user","content":"hi"}])" + extra + "}";
  }
};

TEST_F(Logprobs, ChatHasOpenAisShape) {
  const Json logprobs = chat(R"(,"logprobs":true,"top_logprobs":2)")["logprobs"];
  EXPECT_EQ(engine_.last_request().logprobs, 2);
  EXPECT_TRUE(logprobs["refusal"].is_null());
  const Json& content = logprobs["content"];
  ASSERT_EQ(content.size(), 14u);  // "Hello, world." and the token that ends the turn
  EXPECT_EQ(content[0]["token"], "H");
  EXPECT_EQ(content[0]["bytes"].dump(), "[72]");
  EXPECT_EQ(content[0]["logprob"], -72.0 / 256);
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "bytes:\\xc9");
  EXPECT_EQ(content[0]["top_logprobs"][1]["bytes"].dump(), "[201]");
  EXPECT_EQ(content[0]["top_logprobs"][1]["logprob"], -1);
  EXPECT_EQ(content[13]["token"], "<|end|>");
  EXPECT_EQ(chat(R"(,"logprobs":true)")["logprobs"]["content"][0]["top_logprobs"].dump(), "[]");
  EXPECT_TRUE(chat("")["logprobs"].is_null());
  EXPECT_EQ(engine_.last_request().logprobs, -1);
}

TEST_F(Logprobs, CompletionsHaveTheOldShape) {
  // Two bytes each, and a token of half a character.
  engine_.script = [](const Request&) { return Script{{"a\xc3\xbc", "b"}}; };
  const Json one = completion(R"(,"logprobs":1)");
  EXPECT_EQ(one["text"],
            "a\xc3\xbc"
            "b");
  const Json& logprobs = one["logprobs"];
  EXPECT_EQ(logprobs["tokens"].dump(), R"(["a","bytes:\\xc3","bytes:\\xbc","b","<|end|>"])");
  EXPECT_EQ(logprobs["text_offset"].dump(), "[0,1,1,2,3]");
  EXPECT_EQ(logprobs["token_logprobs"][3], -98.0 / 256);
  EXPECT_EQ(logprobs["top_logprobs"][0].dump(), R"({"bytes:\\xc8":-0.5,"a":-0.37890625})");
  EXPECT_EQ(completion(R"(,"logprobs":0)")["logprobs"]["top_logprobs"][0].dump(), R"({"a":-0.37890625})");
  EXPECT_TRUE(completion(R"(,"logprobs":false)")["logprobs"].is_null());
  EXPECT_TRUE(completion("")["logprobs"].is_null());
}

TEST_F(Logprobs, StreamsSayWhatWholeAnswersSay) {
  struct Case {
    Script script;
    std::string extra;
  };
  const Case cases[] = {
      {{{"Hello", ", ", "world", "."}}, ""},
      {{{"a", "\xe4", "\xbd", "\xa0", "b", "\xf0\x9f"}}, ""},    // held back, and cut at the end
      {{{"x", "E", "N", "x", "E", "N"}}, R"(,"stop":["END"])"},  // held back until the end
      {{{"x", "E", "N", "D", "y"}}, R"(,"stop":["END"])"},
      {{{"so ", "\n", "</think>", "\n\nYes"}}, R"(,"enable_thinking":true)"},
      {{{"one", "two"}}, R"(,"max_tokens":4)"},
      {{{""}}, ""},  // nothing but the end of the turn
  };
  for (const Case& c : cases) {
    engine_.script = [&](const Request&) { return c.script; };
    const std::string what = fmt::format("{} {}", Json(c.script.parts[0]).dump(), c.extra);
    const std::string wanted = c.extra + R"(,"logprobs":true,"top_logprobs":1)", stream = R"(,"stream":true)";
    const Json whole = chat(wanted);
    Json streamed = joined("/v1/chat/completions", chat_body(wanted + stream), "content");
    EXPECT_EQ(streamed["text"], whole["message"]["content"]) << what;
    EXPECT_EQ(streamed["logprobs"]["content"], whole["logprobs"]["content"]) << what;
    EXPECT_FALSE(whole["logprobs"]["content"].empty()) << what;

    const std::string old = R"({"prompt":"a","logprobs":2)" + c.extra;
    const Json text = choice("/v1/completions", old + "}");
    streamed = joined("/v1/completions", old + stream + "}", "text");
    EXPECT_EQ(streamed["text"], text["text"]) << what;
    EXPECT_EQ(streamed["logprobs"].dump(), text["logprobs"].dump()) << what;
  }
}

// A chunk carries the log probabilities of the tokens up to its text, not later ones.
TEST_F(Logprobs, ComeWithTheirText) {
  engine_.script = [](const Request&) { return Script{{"ab", "\xe4", "\xbd\xa0", "c"}}; };
  std::vector<size_t> counts;
  for (const Json& event : events(ask(server_->port(), "POST", "/v1/chat/completions",
                                      chat_body(R"(,"logprobs":true,"stream":true)"))
                                      .body)) {
    if (!event.is_object()) continue;
    const Json& logprobs = event["choices"][0]["logprobs"];
    counts.push_back(logprobs.is_null() ? 0 : logprobs["content"].size());
  }
  // The role; "ab"; three bytes at once; "c" and, if it comes with it, the end; the finish.
  ASSERT_EQ(counts.size(), 5u);
  EXPECT_EQ(counts[0], 0u);
  EXPECT_EQ(counts[1], 2u);
  EXPECT_EQ(counts[2], 3u);
  EXPECT_EQ(counts[3] + counts[4], 2u);
}

// llama-server's clients read the first token of each part only.
TEST_F(Logprobs, AreOfOneTokenInEachPartOfLlamaServersStream) {
  engine_.script = [](const Request&) { return Script{{"abc", "\xe4\xbd\xa0"}}; };
  std::string parts;
  for (const Json& event : events(post("/completion", R"({"prompt":"hi","n_probs":2,"stream":true})").body)) {
    if (!event.is_object() || event["stop"] == true) continue;
    std::string tokens;
    for (const Json& token : event["completion_probabilities"]) tokens += string_at(token, "token") + " ";
    EXPECT_EQ(event["tokens"].size(), event["completion_probabilities"].size());
    parts += fmt::format("{}: {}{}; ", string_at(event, "content"), tokens, event["tokens_predicted"].dump());
  }
  // The bytes of one letter have no text of their own, and neither has the token that ends the answer.
  EXPECT_EQ(parts, "a: a 1; b: b 2; c: c 3; 你: bytes:\\xe4 bytes:\\xbd bytes:\\xa0 <|end|> 7; ");
}

}  // namespace
}  // namespace anabranch::server
