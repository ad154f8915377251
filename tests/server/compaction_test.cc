// POST /v1/responses/compact, and the items that it makes in later inputs.
#include "server/api/responses/compaction.h"

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Compactions : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    says("The user likes apples.");
  }
  void says(const std::string& text) {
    engine_.script = [text](const Request&) { return Script{{text}}; };
  }
  Json compact(const Json& body) {
    const HttpAnswer answer = post("/v1/responses/compact", body.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  // The prompt of a request with these items.
  std::string prompt_of(const Json& items) {
    EXPECT_EQ(
        post("/v1/responses", Json{{"input", items}, {"reasoning", {{"effort", "none"}}}}.dump()).status,
        200);
    return engine_.last_prompt();
  }
  const Json talk_ =
      Json::array({{{"role", "user"}, {"content", "I like apples."}},
                   {{"role", "assistant"}, {"content", "Noted."}},
                   {{"type", "function_call"}, {"call_id", "1"}, {"name", "f"}, {"arguments", "{}"}},
                   {{"type", "function_call_output"}, {"call_id", "1"}, {"output", "secret"}},
                   {{"role", "user"}, {"content", "Go on."}}});
};

TEST_F(Compactions, AnswerWithTheUsersMessagesAndASealedSummary) {
  const Json answer = compact({{"model", "fake-1b"}, {"input", talk_}, {"instructions", "S"}});
  const Request asked = engine_.last_request();
  const std::string prompt = engine_.last_prompt();
  EXPECT_TRUE(prompt.starts_with("system: S\nuser: I like apples.\n")) << prompt;
  EXPECT_NE(prompt.find("secret"), prompt.npos);
  EXPECT_NE(prompt.find("\nuser: " + summary_instruction()["content"].get<std::string>()), prompt.npos);
  EXPECT_EQ(asked.max_tokens, 250);  // a quarter of the context
  EXPECT_FALSE(asked.output.thinking_open);
  EXPECT_EQ(answer["object"], "response.compaction");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("resp_"));
  EXPECT_TRUE(answer["created_at"].is_number_integer());
  EXPECT_EQ(answer["usage"]["input_tokens"], asked.prompt.size());
  EXPECT_GT(answer["usage"]["output_tokens"], 0);
  const Json& output = answer["output"];
  ASSERT_EQ(output.size(), 3u) << output.dump();
  EXPECT_EQ(output[0]["content"][0]["text"], "I like apples.");
  EXPECT_EQ(output[1]["content"][0]["text"], "Go on.");
  for (int i : {0, 1}) {
    EXPECT_EQ(output[i]["type"], "message");
    EXPECT_EQ(output[i]["role"], "user");
    EXPECT_TRUE(output[i]["id"].is_string());
  }
  EXPECT_EQ(output[2]["type"], "compaction");
  EXPECT_TRUE(output[2]["id"].get<std::string>().starts_with("cmp_"));
  EXPECT_EQ(output.dump().find("likes apples"), std::string::npos);
}

TEST_F(Compactions, ItemsAreReadBack) {
  Json items = compact({{"model", "fake-1b"}, {"input", talk_}})["output"];
  items.push_back({{"role", "user"}, {"content", "What do I like?"}});
  EXPECT_EQ(
      prompt_of(items),
      "user: I like apples.\nuser: Go on.\nuser: [Summary of the conversation before this message]\nThe user "
      "likes apples.\nuser: What do I like?\nassistant:");
  items[2]["type"] = "compaction_summary";
  EXPECT_NE(prompt_of(items).find("The user likes apples."), std::string::npos);
  // One that was changed, or that another server made, or a thought that this server sealed.
  items[2]["type"] = "compaction";
  const std::string sealed = items[2]["encrypted_content"];
  for (const std::string& other :
       {std::string("gAAAA"), sealed.substr(4), Sealer("").seal("x", "compaction", "")}) {
    items[2]["encrypted_content"] = other;
    EXPECT_NE(prompt_of(items).find("[an earlier part of the conversation: not shown]"), std::string::npos);
  }
  items[2].erase("encrypted_content");
  EXPECT_NE(prompt_of(items).find("not shown]"), std::string::npos);
}

TEST_F(Compactions, SealedTextsAreBoundToTheirKindAndOwner) {
  const Sealer sealer("");
  const std::string sealed = sealer.seal("x", "compaction", "ann");
  const auto text = [&](const std::string& given, const std::string& owner) {
    return string_at(message_of_compaction({{"encrypted_content", given}}, sealer, owner), "content");
  };
  EXPECT_NE(text(sealed, "ann").find("\nx"), std::string::npos);
  EXPECT_NE(text(sealed, "bob").find("not shown]"), std::string::npos);
  EXPECT_NE(text(sealed, "").find("not shown]"), std::string::npos);
  EXPECT_NE(text(sealer.seal("x", kSealedThought, "ann"), "ann").find("not shown]"), std::string::npos);
  EXPECT_FALSE(sealer.open(sealed, kSealedThought, "ann")) << "nor is a summary a thought";
  EXPECT_EQ(sealer.open(sealer.seal("", "a", ""), "a", ""), "");
}

TEST_F(Compactions, OfOneKeyAreClosedToAnother) {
  ServerOptions options;
  for (const char* name : {"ann", "bob"}) options.api_keys.push_back({.key = name, .name = name});
  start(std::move(options));
  const auto as = [&](const char* key, const std::string& path, const Json& body) {
    return ask(port_, "POST", path, body.dump(), fmt::format("x-api-key: {}\r\n", key)).json();
  };
  const Json items = as("ann", "/v1/responses/compact", {{"model", "fake-1b"}, {"input", talk_}})["output"];
  as("bob", "/v1/responses", {{"input", items}});
  EXPECT_NE(engine_.last_prompt().find("not shown]"), std::string::npos);
  as("ann", "/v1/responses", {{"input", items}});
  EXPECT_NE(engine_.last_prompt().find("The user likes apples."), std::string::npos);
}

TEST_F(Compactions, ConversationsKeepTheSealedItem) {
  Json items = compact({{"model", "fake-1b"}, {"input", talk_}})["output"];
  const std::string sealed = items[2]["encrypted_content"];
  const std::string conversation =
      post("/v1/conversations", Json{{"items", Json::array({items[2]})}}.dump()).json()["id"];
  says("Fine.");
  post("/v1/responses", Json{{"input", items}, {"conversation", conversation}}.dump());
  const std::string path = "/v1/conversations/" + conversation + "/items?order=asc";
  const HttpAnswer kept = ask(port_, "GET", path);
  EXPECT_EQ(kept.body.find("likes apples."), std::string::npos);
  for (const size_t at : {0, 3}) {
    EXPECT_EQ(kept.json()["data"][at]["type"], "compaction") << kept.body;
    EXPECT_EQ(kept.json()["data"][at]["encrypted_content"], sealed);
  }
  post("/v1/responses", Json{{"input", "And?"}, {"conversation", conversation}}.dump());
  const std::string prompt = engine_.last_prompt();
  EXPECT_NE(prompt.find("The user likes apples."), prompt.rfind("The user likes apples."));
  EXPECT_EQ(prompt.find(sealed), std::string::npos);
}

TEST_F(Compactions, ContinueStoredResponses) {
  const std::string id =
      post("/v1/responses", R"({"input":"I like pears.","reasoning":{"effort":"none"}})").json()["id"];
  const Json answer =
      compact({{"model", "fake-1b"}, {"previous_response_id", id}, {"input", "And plums."}})["output"];
  ASSERT_EQ(answer.size(), 3u) << answer.dump();
  EXPECT_EQ(answer[0]["content"][0]["text"], "I like pears.");
  EXPECT_EQ(answer[1]["content"][0]["text"], "And plums.");
  EXPECT_NE(engine_.last_prompt().find("assistant: The user likes apples."), std::string::npos);
  // Nothing is stored.
  EXPECT_EQ(
      ask(port_, "GET", "/v1/responses/" + compact({{"model", "m"}, {"input", "x"}})["id"].get<std::string>())
          .status,
      404);
  const HttpAnswer gone = post("/v1/responses/compact", R"({"model":"m","previous_response_id":"resp_no"})");
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.error_code(), "previous_response_not_found");
}

TEST_F(Compactions, OfCompactionsSummarizeTheSummary) {
  Json items = compact({{"model", "fake-1b"}, {"input", talk_}})["output"];
  says("Shorter.");
  items.push_back({{"role", "user"}, {"content", "Next."}});
  const Json again = compact({{"model", "fake-1b"}, {"input", items}})["output"];
  EXPECT_NE(engine_.last_prompt().find("The user likes apples."), std::string::npos);
  ASSERT_EQ(again.size(), 4u) << again.dump();  // the old summary is not among them
  EXPECT_EQ(again[2]["content"][0]["text"], "Next.");
  EXPECT_NE(prompt_of(again).find("Shorter."), std::string::npos);
  EXPECT_EQ(engine_.last_prompt().find("The user likes apples."), std::string::npos);
  // Nor is one that a stored conversation has.
  const std::string id = post("/v1/responses", Json{{"input", items}}.dump()).json()["id"];
  const Json stored = compact({{"model", "fake-1b"}, {"previous_response_id", id}})["output"];
  EXPECT_EQ(stored.size(), 4u) << stored.dump();
}

TEST_F(Compactions, LeaveOutTheOldestWhatDoesNotFitWithTheSummary) {
  Json items = Json::array();
  for (int i = 0; i < 6; i++) {
    items.push_back({{"role", "user"}, {"content", "q" + std::to_string(i) + std::string(100, '.')}});
    items.push_back({{"role", "assistant"}, {"content", "a" + std::to_string(i)}});
  }
  const Json answer = compact({{"model", "fake-1b"}, {"input", items}});
  EXPECT_LE(engine_.last_request().prompt.size() + 250, 1000u);
  EXPECT_EQ(engine_.last_prompt().find("q0"), std::string::npos);
  EXPECT_NE(engine_.last_prompt().find("q5"), std::string::npos);
  EXPECT_EQ(answer["output"].size(), 7u);  // the user's messages are all there
}

TEST_F(Compactions, AreStoredWithoutTheirText) {
  ResponseContext context(std::move(*SessionStores::open({})), nullptr, "");
  const std::string sealed = context.sealer.seal("secret", "compaction", "ann");
  const Json item = {{"type", "compaction"}, {"encrypted_content", sealed}};
  const auto request =
      parse_responses_request(Json{{"input", Json::array({item})}}.dump(), {SamplingParams{}, {}, 300, {}},
                              context, "ann", [] { return false; })
          .value();
  EXPECT_NE(request.chat.messages.dump().find("secret"), std::string::npos);
  EXPECT_FALSE(request.chat.messages[0].contains(kSealedSummary));
  const Json fields = Json::object();
  JsonFields errors(fields);
  const Json added = messages_of_items(errors, "items", Json::array({item}), context, "ann")[0];
  for (Json message : {request.added.at(0).message, added}) {
    EXPECT_EQ(message.dump().find("secret"), std::string::npos);
    EXPECT_EQ(message[kSealedSummary], sealed);
    Json others = message;
    show_summary(others, context.sealer, "bob");
    EXPECT_EQ(others.dump().find("secret"), std::string::npos);
    show_summary(message, context.sealer, "ann");
    EXPECT_EQ(message, request.chat.messages[0]);
  }
}

TEST_F(Compactions, KeepTheOldSummaryWhenTurnsAreLeftOut) {
  Json items = compact({{"model", "fake-1b"}, {"input", talk_}})["output"];
  for (int i = 0; i < 9; i++) {
    items.push_back({{"role", "user"}, {"content", "q" + std::to_string(i) + std::string(100, '.')}});
    items.push_back({{"role", "assistant"}, {"content", "a"}});
  }
  compact({{"model", "fake-1b"}, {"input", items}});
  EXPECT_EQ(engine_.last_prompt().find("q0"), std::string::npos);
  EXPECT_NE(engine_.last_prompt().find("The user likes apples."), std::string::npos);
  // So does an answer.
  post("/v1/responses", Json{{"input", items}, {"truncation", "auto"}}.dump());
  EXPECT_EQ(engine_.last_prompt().find("q0"), std::string::npos);
  EXPECT_NE(engine_.last_prompt().find("The user likes apples."), std::string::npos);
}

TEST_F(Compactions, RefuseATurnThatLeavesNoRoom) {
  const auto with = [&](size_t bytes) {
    return post("/v1/responses/compact",
                Json{{"model", "fake-1b"}, {"input", std::string(bytes, '.')}}.dump());
  };
  EXPECT_EQ(with(400).status, 200);
  for (const size_t bytes : {600, 1100}) {  // it fits into the context alone, or not even so
    const HttpAnswer refused = with(bytes);
    EXPECT_EQ(refused.status, 400) << bytes;
    EXPECT_EQ(refused.error_code(), "context_length_exceeded");
  }
}

TEST_F(Compactions, ThatAreEmptyOrCutAreErrors) {
  const auto code = [&] {
    const HttpAnswer answer = post("/v1/responses/compact", R"({"model":"m","input":"x"})");
    EXPECT_EQ(answer.status, 500) << answer.body;
    return answer.error_code();
  };
  for (const char* text : {"", " \n\t"}) {
    says(text);
    EXPECT_EQ(code(), "summary_empty");
  }
  says(std::string(300, 'a'));  // the limit is 250
  EXPECT_EQ(code(), "summary_incomplete");
}

TEST_F(Compactions, KeepASummaryThatRepeatedItself) {
  engine_.script = [](const Request&) {
    return Script{.parts = {"Ann likes apples. It goes on and on"}, .cut = "answer_loop"};
  };
  Json items = compact({{"model", "fake-1b"}, {"input", talk_}})["output"];
  items.push_back({{"role", "user"}, {"content", "Go on."}});
  post("/v1/responses", Json{{"input", items}}.dump());
  EXPECT_NE(engine_.last_prompt().find("Ann likes apples. It goes on and on"), std::string::npos);
}

TEST_F(Compactions, AreNotReadAhead) {
  engine_.keep_states();
  says("The user likes apples, which is enough text to be worth reading.");
  start({});
  const auto requests = [&] { return engine_.stats().requests; };
  const uint64_t before = requests();
  post("/v1/responses", R"({"input":"x","reasoning":{"effort":"none"}})");
  EXPECT_TRUE(engine_.wait_for([&](const EngineStats& s) { return s.requests == before + 2; }))
      << "an answer is, in this test";
  compact({{"model", "fake-1b"}, {"input", "x"}});
  EXPECT_FALSE(engine_.wait_for([&](const EngineStats& s) { return s.requests > before + 3; }, 1));
}

TEST_F(Compactions, RefuseWhatARequestForAnAnswerRefuses) {
  EXPECT_EQ(post("/v1/responses/compact", R"({"model":"m"})").error_param(), "input");
  EXPECT_EQ(post("/v1/responses/compact", R"({"model":"m","input":7})").error_param(), "input");
  EXPECT_EQ(post("/v1/responses/compact", "[]").status, 400);
  EXPECT_EQ(post("/v1/responses/compact", R"({"model":"m","inptu":"x"})").error_code(), "unknown_parameter");
  engine_.script = [](const Request&) { return Script{.finish = FinishReason::error, .error = "no memory"}; };
  EXPECT_EQ(post("/v1/responses/compact", R"({"model":"m","input":"x"})").status, 500);
}

}  // namespace
}  // namespace anabranch::server
