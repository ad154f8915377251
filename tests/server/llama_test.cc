// llama-server's routes: what is taken, whole answers, streams, tokens, errors.
#include "server/api/llama/format.h"
#include "server/api/llama/request.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Llama : public ServerTest {
 protected:
  HttpAnswer complete(const std::string& prompt, const std::string& extra = "") {
    return post("/completion", "{\"prompt\":" + prompt + (extra.empty() ? "" : "," + extra) + "}");
  }
  void says(std::vector<std::string> parts, FinishReason finish = FinishReason::stop) {
    engine_.script = [parts, finish](const Request&) { return Script{parts, {}, finish}; };
  }
};

std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> out;
  std::istringstream in(body);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("data: ")) out.push_back(parse_json(line.substr(6)).value());
  return out;
}

TEST_F(Llama, WholeAnswers) {
  const Json answer =
      complete(R"("hi")", R"("n_predict":70,"temperature":0.5,"repeat_penalty":1.5,"stop":["x"],
      "seed":-1,"cache_prompt":false,"logit_bias":[["ab",-3],[7,false]],"id_slot":3,"return_tokens":true)")
          .json();
  EXPECT_EQ(engine_.last_prompt(), "hi");
  const Request request = engine_.last_request();
  EXPECT_EQ(request.max_tokens, 70);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_FALSE(request.cache);
  const auto& bias = request.sampling.logit_bias;
  EXPECT_EQ(bias.size(), 3u);  // "a", "b" and 7
  EXPECT_NE(std::find(bias.begin(), bias.end(), std::pair(7, -100.0f)), bias.end());
  EXPECT_EQ(answer["content"], "Hello, world.");
  EXPECT_EQ(answer["stop_type"], "eos");
  EXPECT_EQ(answer["prompt"], "hi");
  EXPECT_EQ(answer["tokens"].size(), 14u);
  EXPECT_EQ(answer["tokens_predicted"], 14);
  EXPECT_EQ(answer["timings"]["predicted_n"], 13);
  EXPECT_EQ(answer["timings"]["prompt_n"].get<int>() + answer["timings"]["cache_n"].get<int>(), 3);
  EXPECT_EQ(answer["generation_settings"]["n_predict"], 70);
  EXPECT_EQ(answer["has_new_line"], false);
}

TEST_F(Llama, SeveralPromptsAndSomeFields) {
  const Json list = complete(R"(["ab",[97,98],{"prompt_string":"c"}])",
                             R"("response_fields":["content","timings/predicted_n"])")
                        .json();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[1].dump(), R"({"content":"Hello, world.","timings/predicted_n":13})");
  EXPECT_FALSE(complete(R"([97,"b",99])").json().is_array());
  EXPECT_EQ(engine_.last_prompt(), "abc");
}

TEST_F(Llama, Streams) {
  says({"a\n", "b"}, FinishReason::length);
  const auto events = events_of(complete(R"("hi")", R"("stream":true,"return_progress":true)").body);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["prompt_progress"]["total"], 3);
  EXPECT_EQ(events[1]["content"], "a\n");
  EXPECT_EQ(events[1]["tokens"].size(), 2u);
  EXPECT_EQ(events[1]["stop"], false);
  EXPECT_EQ(events[2]["content"], "b");
  EXPECT_EQ(events[3]["stop_type"], "limit");
  EXPECT_EQ(events[3]["content"], "");
  EXPECT_EQ(events[3]["has_new_line"], true);
}

TEST_F(Llama, TokensAndTemplates) {
  EXPECT_EQ(post("/tokenize", R"({"content":"ab"})").json().dump(), R"({"tokens":[97,98]})");
  EXPECT_EQ(post("/tokenize", R"({"content":"a","with_pieces":true})").json()["tokens"][0].dump(),
            R"({"id":97,"piece":"a"})");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[97,98]})").json()["content"], "ab");
  EXPECT_EQ(post("/apply-template", R"({"messages":[{"role":"user","content":"hi"}]})").json()["prompt"],
            "user: hi\nassistant:");
  EXPECT_EQ(post("/v1/chat/completions/input_tokens", R"({"messages":[{"role":"user","content":"hi"}]})")
                .json()["input_tokens"],
            19);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[-1]})").status, 400);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[99999999]})").status, 400);
}

TEST_F(Llama, PropsAndSlots) {
  const Json props = ask(port_, "GET", "/props").json();
  EXPECT_EQ(props["model_alias"], "fake-1b");
  EXPECT_EQ(ask(port_, "GET", "/slots").json().size(), props["total_slots"].get<size_t>());
  EXPECT_EQ(ask(port_, "GET", "/models").status, 200);
}

TEST_F(Llama, Errors) {
  EXPECT_EQ(complete("5").error_param(), "prompt");
  EXPECT_EQ(complete(R"({"multimodal_data":"x","prompt_string":"a"})").error_param(), "prompt");
  EXPECT_EQ(complete(R"("a")", R"("mirostat":3)").error_param(), "mirostat");
  EXPECT_EQ(complete(R"("a")", R"("logit_bias":[[1]])").error_param(), "logit_bias");
  EXPECT_EQ(complete(R"("a")", R"("logit_bias":"x")").error_param(), "logit_bias");
  EXPECT_EQ(post("/completion", "{}").error_param(), "prompt");
  EXPECT_EQ(post("/infill", R"({"input_prefix":"a"})").error_param(), "input_suffix");
  EXPECT_EQ(post("/infill", R"({"input_prefix":"a","input_suffix":"b"})").error_code(), "unsupported_value");
  EXPECT_EQ(post("/infill", R"({"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"f"}]})")
                .error_param(),
            "input_extra[0].text");
  const Json error = complete("\"" + std::string(100000, 'a') + "\"").json()["error"];
  EXPECT_GT(error["n_prompt_tokens"], error["n_ctx"]);
}

TEST_F(Llama, TimingsInOpenAisAnswers) {
  const Json answer = post("/v1/completions", R"({"prompt":"hi"})").json();
  EXPECT_EQ(answer["timings"]["predicted_n"], 13);
}

}  // namespace
}  // namespace anabranch::server
