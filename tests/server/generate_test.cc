// /v1/generate: what is taken, whole answers, streams, cancelling, errors.
#include <thread>

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Generate : public ServerTest {
 protected:
  HttpAnswer generate(const std::string& extra = "") {
    return post("/v1/generate",
                R"({"prompt_token_ids":[104,105])" + (extra.empty() ? "" : "," + extra) + "}");
  }
  HttpAnswer cancel(const std::string& id) { return post("/v1/generate/" + id + "/cancel", "{}"); }
  void says(Script script) {
    engine_.script = [script](const Request&) { return script; };
  }
  bool runs(int requests) const {
    return engine_.wait_for([&](const EngineStats& stats) { return stats.running == requests; });
  }
};

const std::vector<int> kHello = {'H', 'e', 'l', 'l', 'o', kEndToken};

TEST_F(Generate, WholeAnswers) {
  says({{"Hel", "lo"}});
  const Json answer = generate(R"("request_id":"a-1","max_tokens":70,"temperature":0.5,"top_k":3,"seed":9,
      "repetition_penalty":1.5,"stop_token_ids":[44,7],"cache_salt":"s","ignore_eos":true,"priority":2)")
                          .json();
  const Request request = engine_.last_request();
  EXPECT_EQ(request.prompt, std::vector<int>({104, 105}));
  EXPECT_EQ(request.max_tokens, 70);
  EXPECT_EQ(request.bound, TokenBound::all);
  EXPECT_EQ(request.output.stop_tokens, std::vector<int>({44, 7}));
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.seed, 9u);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.cache_salt, "s");
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.priority, 2);
  EXPECT_EQ(request.output.max_calls, INT_MAX);
  EXPECT_EQ(answer["id"], "a-1");
  EXPECT_EQ(answer["object"], "generate");
  EXPECT_EQ(answer["model"], "fake-1b");
  EXPECT_EQ(answer["token_ids"].get<std::vector<int>>(), kHello);
  EXPECT_EQ(answer["finish_reason"], "stop");
  EXPECT_TRUE(answer["stop_reason"].is_null());
  EXPECT_TRUE(answer["logprobs"].is_null());
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_TRUE(generate().json()["id"].get<std::string>().starts_with("gen-"));
}

TEST_F(Generate, TellsTheStopTokenAndTheLength) {
  EXPECT_EQ(generate(R"("stop_token_ids":[256])").json()["stop_reason"], kEndToken);
  const Json cut = generate(R"("stop_token_ids":[256],"max_tokens":2)").json();
  EXPECT_EQ(cut["finish_reason"], "length");
  EXPECT_EQ(cut["token_ids"].dump(), "[72,101]");
  EXPECT_TRUE(cut["stop_reason"].is_null());
}

TEST_F(Generate, StreamsSayWhatWholeAnswersSay) {
  says({{"Hel", "\xc3", "lo"}});  // half a character has its chunk, too
  const std::string asked = R"("logprobs":true,"top_logprobs":1)";
  const Json whole = generate(asked).json();
  const auto all = events(generate(asked + R"(,"stream":true)").body);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all.back(), "[DONE]");
  Json ids = Json::array(), logprobs = Json::array();
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    EXPECT_EQ(all[i]["object"], "generate.chunk");
    EXPECT_EQ(all[i]["token_ids"].empty(), i == 3) << i;
    for (const Json& id : all[i]["token_ids"]) ids.push_back(id);
    if (i == 3) break;
    EXPECT_TRUE(all[i]["finish_reason"].is_null());
    for (const Json& entry : all[i]["logprobs"]) logprobs.push_back(entry);
  }
  EXPECT_EQ(ids, whole["token_ids"]);
  EXPECT_EQ(logprobs, whole["logprobs"]);
  EXPECT_EQ(logprobs.size(), 7u);
  EXPECT_EQ(logprobs[0].dump(),
            R"({"token_id":72,"logprob":-0.28125,"top_logprobs":[{"token_id":200,"logprob":-0.5}]})");
  for (const char* name : {"finish_reason", "stop_reason", "usage"}) EXPECT_EQ(all[3][name], whole[name]);
}

TEST_F(Generate, IsCancelledByItsId) {
  says({{"ab"}, std::chrono::milliseconds(1), FinishReason::stop, "", true});
  for (const char* stream : {"false", "true"}) {
    HttpAnswer answer;
    std::thread client([&] { answer = generate(fmt::format(R"("request_id":"x","stream":{})", stream)); });
    EXPECT_TRUE(runs(1));
    EXPECT_EQ(generate(R"("request_id":"x")").error_code(), "request_id_in_use");
    EXPECT_EQ(cancel("y").error_code(), "request_not_found");
    EXPECT_EQ(cancel("x").json().dump(), R"({"id":"x","cancelled":true})");
    client.join();
    EXPECT_EQ(answer.status, 200);
    const bool whole = std::string_view(stream) == "false";
    const auto all = whole ? std::vector<Json>() : events(answer.body);
    EXPECT_TRUE(whole || all.back() == "[DONE]");
    const Json end = whole ? answer.json() : all[all.size() - 2];
    EXPECT_EQ(end["finish_reason"], "cancelled") << answer.body;
    EXPECT_EQ(cancel("x").status, 404);
  }
  EXPECT_EQ(ask(port_, "GET", "/v1/generate/x/cancel").status, 405);
}

TEST_F(Generate, OnlyTheSameKeyCancels) {
  ServerOptions options;
  options.api_keys = {{"one", "a"}, {"two", "b"}};
  start(std::move(options));
  says({{"ab"}, std::chrono::milliseconds(1), FinishReason::stop, "", true});
  const auto with = [&](const char* key, const std::string& path, const std::string& body) {
    return ask(port_, "POST", path, body, std::string("Authorization: Bearer ") + key + "\r\n");
  };
  const std::string body = R"({"prompt_token_ids":[1],"request_id":"x"})";
  std::thread first(
      [&] { EXPECT_EQ(with("one", "/v1/generate", body).json()["finish_reason"], "cancelled"); });
  std::thread second(
      [&] { EXPECT_EQ(with("two", "/v1/generate", body).json()["finish_reason"], "cancelled"); });
  EXPECT_TRUE(runs(2)) << "two keys may use the same id";
  EXPECT_EQ(cancel("x").status, 401);
  EXPECT_EQ(with("one", "/v1/generate/x/cancel", "").status, 200);
  first.join();
  EXPECT_TRUE(runs(1));
  EXPECT_EQ(with("one", "/v1/generate/x/cancel", "").status, 404);
  EXPECT_EQ(with("two", "/v1/generate/x/cancel", "").status, 200);
  second.join();
}

TEST_F(Generate, RefusesWhatItCannotDo) {
  const auto param = [&](const std::string& body) { return post("/v1/generate", body).error_param(); };
  EXPECT_EQ(param("{}"), "prompt_token_ids");
  EXPECT_EQ(param(R"({"prompt_token_ids":"text"})"), "prompt_token_ids");
  EXPECT_EQ(param(R"({"prompt_token_ids":[]})"), "prompt_token_ids");
  EXPECT_EQ(param(R"({"prompt_token_ids":[1,-1]})"), "prompt_token_ids[1]");
  EXPECT_EQ(param(R"({"prompt_token_ids":[1,300]})"), "prompt_token_ids[1]");
  EXPECT_EQ(param(R"({"prompt_token_ids":[1,1.5]})"), "prompt_token_ids[1]");
  EXPECT_EQ(param(R"({"prompt_token_ids":[[1]]})"), "prompt_token_ids[0]");
  EXPECT_EQ(param(R"({"prompt_token_ids":[1],"stop_token_ids":[18446744073709551615]})"),
            "stop_token_ids[0]");
  EXPECT_EQ(generate(R"("stop":"x")").error_param(), "stop");
  EXPECT_EQ(generate(R"("prompt":"x")").error_param(), "prompt");
  EXPECT_EQ(generate(R"("n":2)").error_param(), "n");
  EXPECT_EQ(generate(R"("top_logprobs":2)").error_param(), "top_logprobs");
  EXPECT_EQ(generate(R"("request_id":"a b")").error_param(), "request_id");
  EXPECT_EQ(generate(R"("request_id":")" + std::string(129, 'a') + "\"").error_param(), "request_id");
  EXPECT_EQ(generate(R"("request_id":7)").error_param(), "request_id");
  std::string many = "1";
  for (int i = 0; i < 256; ++i) many += ",1";
  EXPECT_EQ(generate(R"("stop_token_ids":[)" + many + "]").error_param(), "stop_token_ids");
  many = "1";
  for (int i = 1; i < 1000; ++i) many += ",1";
  const HttpAnswer longer = post("/v1/generate", R"({"prompt_token_ids":[)" + many + "]}");
  EXPECT_EQ(longer.error_code(), "context_length_exceeded");
  EXPECT_EQ(longer.error_param(), "prompt_token_ids");
  engine_.max_queue = 0;
  EXPECT_EQ(generate().status, 429);
}

}  // namespace
}  // namespace anabranch::server
