// What requests for embeddings and rankings may ask, and what refuses them.
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class EmbeddingRequests : public ServerTest {
 protected:
  void SetUp() override {
    engine_.mutable_info().pooling = Pooling::last;
    engine_.mutable_info().hidden = 4;
    start({});
  }
  HttpAnswer embed(const Json& input) { return post("/v1/embeddings", Json{{"input", input}}.dump()); }
  void expect_refused(const HttpAnswer& answer, const std::string& part) {
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find(part), std::string::npos) << answer.body;
    EXPECT_EQ(engine_.stats().requests, 0u);
  }
};

TEST_F(EmbeddingRequests, AreForModelsThatMakeThem) {
  engine_.mutable_info().pooling.reset();
  expect_refused(embed("a"), "--pooling");
  engine_.mutable_info().pooling = Pooling::rank;
  expect_refused(embed("a"), "/v1/rerank");
  expect_refused(post("/v1/rerank", R"({"query":"a","documents":["b"]})"), "no reranker");
}

TEST_F(EmbeddingRequests, HaveAMostOfTexts) {
  expect_refused(embed(Json(std::vector<std::string>(2049, "a"))), "2048");
  expect_refused(
      post("/v1/rerank", Json{{"query", "a"}, {"documents", std::vector<std::string>(2049, "b")}}.dump()),
      "2048");
}

TEST_F(EmbeddingRequests, TokensAreThoseOfTheModel) {
  const int vocab = engine_.tokenizer().vocab_size();
  expect_refused(embed({1, vocab}), "token ids");
  expect_refused(embed({-1}), "token ids");
  expect_refused(embed(Json::array()), "input");
  embed({1, vocab - 1});
  EXPECT_EQ(engine_.last_request().prompt.back(), vocab - 1);
}

TEST_F(EmbeddingRequests, TextsEndBeforeTheContextDoes) {
  engine_.set_context(100);
  expect_refused(embed(std::string(99, 'a')), "context_length_exceeded");
  embed(std::string(98, 'a'));  // behind the token that begins a text
  EXPECT_EQ(engine_.last_request().prompt.size(), 99u);
}

}  // namespace
}  // namespace anabranch::server
