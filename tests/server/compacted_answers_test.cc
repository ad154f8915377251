// Answers of POST /v1/responses with "context_management": the conversation is summarized first.
#include <climits>

#include "server/api/responses/compaction.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class CompactedAnswers : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    summarizes({{"The user likes apples."}});
  }
  // The engine notes its prompts. The answers to requests for a summary are `summary`.
  void summarizes(const Script& summary, const Script& answer = {{"Pears, too."}}) {
    engine_.script = [this, summary, answer](const Request& request) {
      prompts_.push_back(tokenizer_.decode(request.prompt, false));
      return asks_for_summary(prompts_.back()) ? summary : answer;
    };
  }
  static Json entry(const Json& threshold) {
    return Json::array({{{"type", "compaction"}, {"compact_threshold", threshold}}});
  }
  static bool asks_for_summary(const std::string& prompt) {
    return prompt.find(summary_instruction()["content"].get<std::string>()) != prompt.npos;
  }
  HttpAnswer respond(Json body, int threshold = 100) {
    prompts_.clear();
    body["reasoning"] = {{"effort", "none"}};
    if (threshold > 0) body["context_management"] = entry(threshold);
    return post("/v1/responses", body.dump());
  }
  Json answer(Json body, int threshold = 100) {
    const HttpAnswer answer = respond(std::move(body), threshold);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static std::vector<std::string> types(const Json& items) {
    std::vector<std::string> types;
    for (const Json& item : items) types.push_back(item["type"]);
    return types;
  }
  static Json with(Json items, const Json& more) {
    for (const Json& item : more) items.push_back(item);
    return items;
  }

  using Types = std::vector<std::string>;
  const Types kCompacted = {"compaction", "message"}, kPlain = {"message"};
  FakeTokenizer tokenizer_;
  std::vector<std::string> prompts_;
  const Json talk_ =
      Json::array({{{"role", "user"}, {"content", "I like apples."}},
                   {{"role", "assistant"}, {"content", "Noted."}},
                   {{"type", "function_call"}, {"call_id", "1"}, {"name", "f"}, {"arguments", "{}"}},
                   {{"type", "function_call_output"}, {"call_id", "1"}, {"output", "secret"}},
                   {{"role", "user"}, {"content", "What else?"}}});
  const Json next_ = Json::array({{{"role", "user"}, {"content", "Go on."}}});
  const std::string summary_ =
      "user: [Summary of the conversation before this message]\nThe user likes apples.\n\n[The user's last "
      "message]\nWhat else?\n";
};

TEST_F(CompactedAnswers, BeginWithTheSummary) {
  const Json response = answer({{"input", talk_}, {"instructions", "S"}});
  ASSERT_EQ(prompts_.size(), 2u);
  EXPECT_TRUE(prompts_[0].starts_with("system: S\nuser: I like apples.\n")) << prompts_[0];
  EXPECT_NE(prompts_[0].find("secret"), std::string::npos);
  EXPECT_TRUE(asks_for_summary(prompts_[0]));
  EXPECT_EQ(prompts_[1], "system: S\n" + summary_ + "assistant:");
  ASSERT_EQ(types(response["output"]), kCompacted);
  const Json& item = response["output"][0];
  EXPECT_TRUE(item["id"].get<std::string>().starts_with("cmp_"));
  EXPECT_FALSE(item["encrypted_content"].get<std::string>().empty());
  EXPECT_EQ(item.size(), 3u) << item.dump();
  EXPECT_EQ(response.dump().find("likes apples"), std::string::npos);
  EXPECT_EQ(response["output"][1]["content"][0]["text"], "Pears, too.");
  EXPECT_EQ(response["status"], "completed");
  const Json& usage = response["usage"];
  EXPECT_EQ(usage["input_tokens"], prompts_[0].size() + prompts_[1].size());
  EXPECT_EQ(usage["output_tokens"], std::string("The user likes apples.Pears, too.").size());
  EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], 6);
}

TEST_F(CompactedAnswers, AreThoseOfPromptsWithMoreTokens) {
  const int tokens =
      post("/v1/responses/input_tokens", Json{{"input", talk_}, {"reasoning", {{"effort", "none"}}}}.dump())
          .json()["input_tokens"];
  EXPECT_EQ(types(answer({{"input", talk_}}, tokens)["output"]), kPlain);
  EXPECT_EQ(prompts_.size(), 1u);
  EXPECT_EQ(types(answer({{"input", talk_}}, tokens - 1)["output"]), kCompacted);
  EXPECT_EQ(types(answer({{"input", talk_}}, 0)["output"]), kPlain);  // without the field
  // A count is that of the whole conversation.
  const Json counted =
      post("/v1/responses/input_tokens",
           Json{{"input", talk_}, {"reasoning", {{"effort", "none"}}}, {"context_management", entry(1)}}
               .dump())
          .json();
  EXPECT_EQ(counted["input_tokens"], tokens);
}

TEST_F(CompactedAnswers, AreThoseOfPromptsThatDoNotFit) {
  Json items = talk_;
  items[0]["content"] = std::string(600, '.');
  items[3]["output"] = std::string(600, '.');  // an older turn is left out of the prompt for the summary
  EXPECT_EQ(respond({{"input", items}}, 0).error_code(), "context_length_exceeded");
  for (const int threshold : {100, 1000, 5000}) {
    EXPECT_EQ(types(answer({{"input", items}}, threshold)["output"]), kCompacted);
    EXPECT_EQ(prompts_.at(1), summary_ + "assistant:");
  }
  // Without a threshold these alone are compacted.
  const Json open = Json::array({{{"type", "compaction"}}});
  EXPECT_EQ(types(answer({{"input", items}, {"context_management", open}}, 0)["output"]), kCompacted);
  EXPECT_EQ(types(answer({{"input", talk_}, {"context_management", open}}, 0)["output"]), kPlain);
}

TEST_F(CompactedAnswers, StreamTheItemFirst) {
  const auto told = events(respond({{"input", talk_}, {"stream", true}}).body);
  Json added, items = Json::array();
  int number = 0;
  for (const Json& event : told) {
    EXPECT_EQ(event["sequence_number"], number++);
    if (event["type"] == "response.output_item.added") added.push_back(event);
    if (event["type"] == "response.output_item.done") items.push_back(event["item"]);
  }
  ASSERT_GT(told.size(), 4u);
  EXPECT_EQ(told[1]["type"], "response.in_progress");
  EXPECT_EQ(told[2]["type"], "response.output_item.added");
  EXPECT_EQ(told[3]["type"], "response.output_item.done");
  ASSERT_EQ(types(items), kCompacted);
  EXPECT_EQ(told[2]["item"], items[0]);
  EXPECT_EQ(added[0]["output_index"], 0);
  EXPECT_EQ(added[1]["output_index"], 1);
  EXPECT_EQ(told.back()["type"], "response.completed");
  EXPECT_EQ(told.back()["response"]["output"], items);
}

TEST_F(CompactedAnswers, AreWholeBehindASummaryThatWasCut) {
  Script cut{{"The user likes"}};
  cut.finish = FinishReason::length;
  summarizes(cut);
  const Json whole = answer({{"input", talk_}});
  EXPECT_EQ(types(whole["output"]), Json::array({"message"}));
  EXPECT_EQ(whole["status"], "completed") << whole;
  EXPECT_EQ(events(respond({{"input", talk_}, {"stream", true}}).body).back()["type"], "response.completed");
}

// The stream has begun while the summary is written.
TEST_F(CompactedAnswers, EndWithTheirClients) {
  summarizes({.stuck = true});
  const std::string body = Json{{"input", talk_}, {"stream", true}, {"context_management", entry(1)}}.dump();
  TestClient client(port_);
  client.send(http_request("POST", "/v1/responses", body));
  EXPECT_NE(client.read_until("response.in_progress"), "");
  EXPECT_EQ(engine_.stats().running, 1);
  client.close();
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0 && s.cancelled == 1; }));
  EXPECT_EQ(prompts_.size(), 1u);
}

TEST_F(CompactedAnswers, AreContinuedFromTheItem) {
  const Json system = Json::array({{{"role", "developer"}, {"content", "D"}}});
  const Json input = with(system, talk_);
  const Json first = answer({{"input", input}});
  const std::string wanted = "system: D\n" + summary_ + "assistant: Pears, too.\nuser: Go on.\nassistant:";
  const Json& output = first["output"];
  // With all items, without those that the summary replaces, and from what is stored.
  answer({{"input", with(with(input, output), next_)}}, 0);
  EXPECT_EQ(prompts_, std::vector{wanted});
  answer({{"input", with(with(system, output), next_)}, {"store", false}}, 0);
  EXPECT_EQ(prompts_, std::vector{wanted});
  answer({{"input", next_}, {"previous_response_id", first["id"]}}, 0);
  EXPECT_EQ(prompts_, std::vector{wanted});
  // Every item before the last one is dropped, also an earlier one.
  summarizes({{"Shorter."}});
  const Json second = answer({{"input", next_}, {"previous_response_id", first["id"]}});
  EXPECT_NE(prompts_.at(0).find("The user likes apples."), std::string::npos);
  answer({{"input", with(with(with(with(input, output), next_), second["output"]), next_)}}, 0);
  EXPECT_EQ(
      prompts_.at(0),
      "system: D\nuser: [Summary of the conversation before this message]\nShorter.\n\n[The user's last "
      "message]\nGo on.\nassistant: Pears, too.\nuser: Go on.\nassistant:");
}

TEST_F(CompactedAnswers, OfConversationsAreStoredSealed) {
  const std::string conversation = post("/v1/conversations", "{}").json()["id"];
  const Json first = answer({{"input", talk_}, {"conversation", conversation}});
  const HttpAnswer kept = ask(port_, "GET", "/v1/conversations/" + conversation + "/items?order=asc");
  EXPECT_EQ(kept.body.find("likes apples."), std::string::npos);
  EXPECT_EQ(types(kept.json()["data"]), (Types{"message", "message", "function_call", "function_call_output",
                                               "message", "compaction", "message"}));
  EXPECT_EQ(kept.json()["data"][5]["encrypted_content"], first["output"][0]["encrypted_content"]);
  answer({{"input", next_}, {"conversation", conversation}}, 0);
  EXPECT_EQ(prompts_.at(0), summary_ + "assistant: Pears, too.\nuser: Go on.\nassistant:");
  // The stored response has the item, too.
  const Json stored = ask(port_, "GET", "/v1/responses/" + first["id"].get<std::string>()).json();
  EXPECT_EQ(stored["output"], first["output"]);
}

// As without a compaction: the question and its summary are taken back.
TEST_F(CompactedAnswers, ThatFailBeforeTheyBeginAreNotKept) {
  const std::string id = post("/v1/conversations", "{}").json()["id"];
  summarizes({{"The user likes apples."}}, {.stuck = true});
  const Json body = {{"input", talk_}, {"conversation", id}, {"timeout", 1}};
  EXPECT_EQ(respond(body).status, 504);
  EXPECT_EQ(prompts_.size(), 2u);
  const auto kept = [&](size_t count) {
    Json items;
    for (int i = 0; i < 500; ++i) {
      items = ask(port_, "GET", "/v1/conversations/" + id + "/items?order=asc").json()["data"];
      if (items.size() == count) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return types(items);
  };
  EXPECT_EQ(kept(0), Types());
  // A client that has read the item can go on from it.
  Json stream = body;
  stream["stream"] = true;
  respond(stream);
  EXPECT_EQ(kept(6),
            (Types{"message", "message", "function_call", "function_call_output", "message", "compaction"}));
}

TEST_F(CompactedAnswers, ThinkAsTheQuestionSays) {
  constexpr const char* kHard = "Why does the proof need compactness?";
  const auto ask_for = [&](const char* question, size_t more, const Json& wish) {
    Json items = talk_;
    items[0]["content"] = std::string(more, '.');
    items[4]["content"] = question;
    Json body = {{"input", items}, {"context_management", entry(100)}};
    body.update(wish);
    prompts_.clear();
    const Json answer = post("/v1/responses", body.dump()).json();
    EXPECT_EQ(prompts_.size(), 2u) << answer;
    EXPECT_EQ(engine_.last_request().output.thinking_open, answer["anabranch"]["thinking"]["enabled"])
        << question << more;
    return answer["anabranch"]["thinking"];
  };
  for (const size_t more : {100, 1000}) {  // what fits, and what does not
    EXPECT_EQ(ask_for("hi", more, Json::object()),
              (Json{{"enabled", false}, {"reason", "a greeting or thanks"}}));
    EXPECT_EQ(ask_for(kHard, more, Json::object())["enabled"], true);
    EXPECT_EQ(ask_for(kHard, more, {{"reasoning", {{"effort", "none"}}}})["enabled"], false);
    EXPECT_EQ(ask_for("hi", more, {{"reasoning", {{"effort", "high"}}}})["enabled"], true);
  }
}

TEST_F(CompactedAnswers, SummarizeWithoutToolsAndFormatOfTheAnswer) {
  std::vector<Request> asked;
  engine_.script = [&](const Request& request) {
    asked.push_back(request);
    return asked.size() == 1 ? Script{{"The user likes apples."}} : Script{{"{} and pears"}};
  };
  const Json tool = {{"type", "function"}, {"name", "f"}, {"parameters", {{"type", "object"}}}};
  const Json response = answer({{"input", talk_},
                                {"tools", Json::array({tool})},
                                {"max_output_tokens", 7},
                                {"text", {{"format", {{"type", "json_object"}}}}}});
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_NE(asked[0].max_tokens, 7);
  EXPECT_EQ(asked[1].max_tokens, 7);
  EXPECT_FALSE(asked[0].output.exact);
  EXPECT_TRUE(asked[1].output.exact);
  EXPECT_EQ(tokenizer_.decode(asked[0].prompt, false).find("[tools"), std::string::npos);
  const std::string prompt = tokenizer_.decode(asked[1].prompt, false);
  EXPECT_NE(prompt.find("[tools"), std::string::npos);
}

// An item takes the place of what is before it only for the key whose request it answered.
TEST_F(CompactedAnswers, AreClosedToOtherKeys) {
  ServerOptions options;
  for (const char* name : {"ann", "bob"}) options.api_keys.push_back({.key = name, .name = name});
  start(std::move(options));
  const auto as = [&](const char* key, Json body) {
    prompts_.clear();
    body["reasoning"] = {{"effort", "none"}};
    return ask(port_, "POST", "/v1/responses", body.dump(), fmt::format("x-api-key: {}\r\n", key)).json();
  };
  const Json item = as("ann", {{"input", talk_}, {"context_management", entry(100)}})["output"][0];
  const Json input = with(with(talk_, Json::array({item})), next_);
  as("ann", {{"input", input}});
  EXPECT_EQ(prompts_.at(0), summary_ + "user: Go on.\nassistant:");
  as("bob", {{"input", input}});
  EXPECT_TRUE(prompts_.at(0).starts_with("user: I like apples.\n")) << prompts_.at(0);
  EXPECT_TRUE(prompts_.at(0).ends_with(
      "user: What else?\nuser: [an earlier part of the conversation: not shown]\nuser: Go on.\nassistant:"))
      << prompts_.at(0);
}

TEST_F(CompactedAnswers, GoOnWithoutASummary) {
  const Json items = talk_;
  const std::vector<Script> failing = {
      {{" \n"}}, {{std::string(300, 'a')}}, {.finish = FinishReason::error, .error = "no memory"}};
  for (const Script& summary : failing) {
    summarizes(summary);
    const Json plain = answer({{"input", items}});
    EXPECT_EQ(types(plain["output"]), kPlain);
    ASSERT_EQ(prompts_.size(), 2u);
    EXPECT_NE(prompts_[1].find("user: I like apples."), std::string::npos);
    EXPECT_FALSE(asks_for_summary(prompts_[1]));
    answer({{"input", next_}, {"previous_response_id", plain["id"]}}, 0);
    EXPECT_NE(prompts_.at(0).find("user: I like apples."), std::string::npos) << "nothing was left out";
  }
}

TEST_F(CompactedAnswers, FailWithoutASummaryOfWhatDoesNotFit) {
  Json items = talk_;
  items[0]["content"] = std::string(1000, '.');
  summarizes({{""}});
  const HttpAnswer failed = respond({{"input", items}});
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.error_code(), "summary_empty");
  const auto told = events(respond({{"input", items}, {"stream", true}}).body);
  EXPECT_EQ(told.back()["type"], "response.failed");
  EXPECT_EQ(prompts_.size(), 1u);
  // With truncation, the answer goes on with the last turns.
  EXPECT_EQ(types(answer({{"input", items}, {"truncation", "auto"}})["output"]), kPlain);
  EXPECT_EQ(prompts_.at(1), "user: What else?\nassistant:");
  // The last turn is too long for a summary, and for an answer.
  items[4]["content"] = std::string(1000, '.');
  EXPECT_EQ(respond({{"input", items}}).error_code(), "context_length_exceeded");
}

TEST_F(CompactedAnswers, OfLongMessagesHaveTheSummaryOnly) {
  engine_.set_context(40'000);
  start({});
  for (const size_t bytes : {8 << 10, (8 << 10) + 1}) {
    const std::string last(bytes, 'x');
    answer({{"input", last}}, 1000);
    EXPECT_EQ(prompts_.at(1).find(last) != std::string::npos, bytes == 8 << 10);
    EXPECT_NE(prompts_.at(1).find("The user likes apples."), std::string::npos);
  }
}

// An agent goes on from the summary with results of tools: its task is in the next summary, too.
TEST_F(CompactedAnswers, KeepTheTaskThroughSeveralSummaries) {
  const Json first = answer({{"input", talk_}});
  const Json more =
      Json::array({{{"type", "function_call"}, {"call_id", "2"}, {"name", "f"}, {"arguments", "{}"}},
                   {{"type", "function_call_output"}, {"call_id", "2"}, {"output", std::string(50, '.')}}});
  summarizes({{"Later."}});
  answer({{"input", with(Json::array({first["output"][0]}), more)}});
  EXPECT_EQ(
      prompts_.at(1),
      "user: [Summary of the conversation before this message]\nLater.\n\n[The user's last message]\nWhat "
      "else?\nassistant:");
}

TEST_F(CompactedAnswers, RefuseOtherEntries) {
  const auto refused = [&](const Json& management) {
    const HttpAnswer refused =
        post("/v1/responses", Json{{"input", "x"}, {"context_management", management}}.dump());
    EXPECT_EQ(refused.status, 400) << management.dump();
    return refused.error_param();
  };
  for (const Json& wrong : {Json(0), Json(-1000), Json(1.5), Json("1000"), Json(true), Json(3e12)})
    EXPECT_EQ(refused(entry(wrong)), "context_management[0].compact_threshold") << wrong;
  Json two = entry(1000);
  two.push_back({{"type", "clear_tool_uses"}});
  EXPECT_EQ(refused(two), "context_management[1].type");
  EXPECT_EQ(refused(Json::array({{{"compact_threshold", 1000}}})), "context_management[0].type");
  EXPECT_EQ(refused(Json::array({"compaction"})), "context_management[0]");
  EXPECT_EQ(refused({{"type", "compaction"}}), "context_management");
  two[1] = {{"type", "compaction"}, {"compact_treshold", 1}};
  EXPECT_EQ(refused(two), "context_management[1].compact_treshold");
  for (const Json& right : {Json(1), Json(1000), Json(1000.0), Json(INT_MAX), Json()})
    EXPECT_EQ(types(answer({{"input", "x"}, {"context_management", entry(right)}}, 0)["output"]).back(),
              "message");
  EXPECT_EQ(types(answer({{"input", talk_}, {"context_management", Json::array()}}, 0)["output"]), kPlain);
  // The lowest of several.
  two = with(entry(5000), entry(100));
  EXPECT_EQ(types(answer({{"input", talk_}, {"context_management", two}}, 0)["output"]), kCompacted);
}

}  // namespace
}  // namespace anabranch::server
