// Every API takes every sampler's field, under each of its names, and what it cannot obey is an error that
// names the field as it was sent.
#include "server/api/sampler_fields.h"

#include <map>

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

struct Api {
  const char* path;
  Json body;
  const char* inside;  // where the fields stand, with a period; "": in the body
};

const Json kHi = {{{"role", "user"}, {"content", "hi"}}};

std::vector<Api> apis() {
  return {{"/v1/chat/completions", {{"messages", kHi}}, ""},
          {"/v1/completions", {{"prompt", "hi"}}, ""},
          {"/v1/responses", {{"input", "hi"}, {"store", false}}, ""},
          {"/v1/messages", {{"messages", kHi}, {"max_tokens", 50}}, ""},
          {"/v1/generate", {{"prompt_token_ids", {65}}}, ""},
          {"/completion", {{"prompt", "hi"}}, ""},
          {"/api/chat", {{"messages", kHi}, {"stream", false}}, "options."},
          {"/api/generate", {{"prompt", "hi"}, {"stream", false}}, "options."}};
}

class Samplers : public ServerTest {
 protected:
  HttpAnswer ask(const Api& api, const Json& fields) {
    Json body = api.body;
    (*api.inside ? body["options"] : body).update(fields);
    return post(api.path, body.dump());
  }
  Request taken(const Api& api, const Json& fields) {
    const HttpAnswer answer = ask(api, fields);
    EXPECT_EQ(answer.status, 200) << api.path << fields.dump() << answer.body;
    return engine_.last_request();
  }
  // The message, if the error names the field as it was sent; else what is wrong.
  std::string refused(const Api& api, const Json& fields, const std::string& field) {
    const HttpAnswer answer = ask(api, fields);
    if (answer.status != 400) return fmt::format("{} {}: {}", api.path, fields.dump(), answer.status);
    const Json error = answer.json()["error"];
    const std::string message = error.is_string() ? error.get<std::string>() : string_at(error, "message");
    if (message.find("'" + (api.inside + field)) == message.npos) return "does not name it: " + message;
    return "";
  }
};

TEST_F(Samplers, AreTakenUnderEveryName) {
  const std::map<std::string, float SamplingParams::*> numbers = {
      {"repetition_penalty", &SamplingParams::repetition_penalty},
      {"repeat_penalty", &SamplingParams::repetition_penalty},
      {"typical_p", &SamplingParams::typical_p},
      {"typ_p", &SamplingParams::typical_p},
      {"top_n_sigma", &SamplingParams::top_n_sigma},
      {"dynatemp_range", &SamplingParams::dynatemp_range},
      {"dynatemp_exponent", &SamplingParams::dynatemp_exponent},
      {"xtc_probability", &SamplingParams::xtc_probability},
      {"xtc_threshold", &SamplingParams::xtc_threshold},
      {"mirostat_tau", &SamplingParams::mirostat_tau},
      {"mirostat_eta", &SamplingParams::mirostat_eta}};
  for (const Api& api : apis()) {
    for (const auto& [name, field] : numbers)
      EXPECT_EQ(taken(api, {{name, 0.75}}).sampling.*field, 0.75f) << name;
    for (const int version : {0, 1, 2})
      EXPECT_EQ(taken(api, {{"mirostat", version}}).sampling.mirostat, version);
    const Request dry = taken(api, {{"dry_multiplier", 0.8},
                                    {"dry_base", 1.5},
                                    {"dry_allowed_length", 3},
                                    {"dry_penalty_last_n", 64},
                                    {"dry_sequence_breakers", {"\n", "User:"}}});
    EXPECT_EQ(dry.sampling.dry.multiplier, 0.8f);
    EXPECT_EQ(dry.sampling.dry.base, 1.5f);
    EXPECT_EQ(dry.sampling.dry.allowed_length, 3);
    EXPECT_EQ(dry.sampling.dry.window, 64);
    EXPECT_EQ(dry.sampling.dry.breakers, (std::vector<std::string>{"\n", "User:"}));
    const Request plain = taken(api, Json::object());
    EXPECT_EQ(plain.sampling.dry.breakers, (std::vector<std::string>{"\n", ":", "\"", "*"}));
    EXPECT_EQ(plain.sampling.dry.window, -1);
    EXPECT_EQ(taken(api, {{"repeat_penalty", 1.5}, {"repeat_last_n", 7}}).sampling.repetition_window, 7);
    for (const char* name : {"min_tokens", "min_new_tokens"})
      EXPECT_EQ(taken(api, {{name, 5}}).output.min_tokens, 5) << name;
    EXPECT_EQ(taken(api, {{"stop_token_ids", {70, 71}}}).output.stop_tokens, (std::vector<int>{70, 71}));
  }
}

TEST_F(Samplers, ValuesThatMeanOffAreOff) {
  for (const Api& api : apis()) {
    const Request plain = taken(api, Json::object());
    const Request off = taken(api, {{"dry_multiplier", 0},
                                    {"mirostat", 0},
                                    {"dynatemp_range", 0.0},
                                    {"typical_p", 0},
                                    {"top_n_sigma", -1},
                                    {"xtc_probability", 0},
                                    {"repeat_penalty", 1.0},
                                    {"min_tokens", 0},
                                    {"stop_token_ids", Json::array()},
                                    {"include_stop_str_in_output", false},
                                    {"dry_base", 0},
                                    {"tfs_z", 1},
                                    {"top_a", 0},
                                    {"bad_words", Json::array()},
                                    {"stop_regex", ""},
                                    {"use_beam_search", false},
                                    {"dry_sequence_breakers", nullptr}});
    EXPECT_FALSE(off.sampling.changes_logits() || off.sampling.filters_on_host()) << api.path;
    EXPECT_EQ(off.sampling.dry.base, plain.sampling.dry.base);
    EXPECT_EQ(off.sampling.top_n_sigma, 0) << "the engine refuses less";
    EXPECT_EQ(taken(api, {{"top_k", -1}}).sampling.top_k, 0);
    EXPECT_EQ(off.output.min_tokens + off.output.stop_tokens.size() + off.output.keep_stop, 0u);
    EXPECT_EQ(taken(api, {{"typical_p", 1}, {"top_n_sigma", 0}}).sampling.filters_on_host(), false);
    // A window of no tokens, as llama-server and Ollama have it.
    EXPECT_FALSE(taken(api, {{"repeat_penalty", 1.5}, {"repeat_last_n", 0}}).sampling.penalises());
    EXPECT_FALSE(taken(api, {{"dry_multiplier", 1}, {"dry_penalty_last_n", 0}}).sampling.dry.on());
  }
}

TEST_F(Samplers, WhatCannotBeObeyedIsAnErrorInTheClientsWords) {
  const std::vector<std::pair<Json, const char*>> wrong = {
      {{{"repeat_penalty", 0.001}}, "repeat_penalty"},
      {{{"repeat_penalty", "x"}}, "repeat_penalty"},
      {{{"repetition_penalty", 101}}, "repetition_penalty"},
      {{{"typical_p", 1.5}}, "typical_p"},
      {{{"typ_p", -0.1}}, "typ_p"},
      {{{"mirostat", 3}}, "mirostat"},
      {{{"mirostat", true}}, "mirostat"},
      {{{"mirostat_tau", -1}}, "mirostat_tau"},
      {{{"mirostat_eta", "fast"}}, "mirostat_eta"},
      {{{"dynatemp_range", -0.5}}, "dynatemp_range"},
      {{{"dynatemp_exponent", -1}}, "dynatemp_exponent"},
      {{{"top_n_sigma", -2}}, "top_n_sigma"},
      {{{"xtc_probability", 2}}, "xtc_probability"},
      {{{"dry_multiplier", -1}}, "dry_multiplier"},
      {{{"dry_base", 1e9}}, "dry_base"},
      {{{"dry_allowed_length", 1.5}}, "dry_allowed_length"},
      {{{"dry_penalty_last_n", -2}}, "dry_penalty_last_n"},
      {{{"dry_sequence_breakers", "\n"}}, "dry_sequence_breakers"},
      {{{"dry_sequence_breakers", {"a", 5}}}, "dry_sequence_breakers[1]"},
      {{{"dry_sequence_breakers", {""}}}, "dry_sequence_breakers[0]"},
      {{{"dry_sequence_breakers", {std::string(65, 'x')}}}, "dry_sequence_breakers[0]"},
      {{{"dry_sequence_breakers", std::vector<std::string>(65, "x")}}, "dry_sequence_breakers"},
      {{{"min_tokens", -1}}, "min_tokens"},
      {{{"min_new_tokens", 1.5}}, "min_new_tokens"},
      {{{"stop_token_ids", 5}}, "stop_token_ids"},
      {{{"stop_token_ids", {1, -1}}}, "stop_token_ids[1]"},
      {{{"stop_token_ids", {1 << 30}}}, "stop_token_ids[0]"},
      {{{"stop_token_ids", {engine_.tokenizer().vocab_size()}}}, "stop_token_ids[0]"},
      {{{"stop_token_ids", std::vector<int>(257, 1)}}, "stop_token_ids"},
      {{{"include_stop_str_in_output", 1}}, "include_stop_str_in_output"},
      {{{"bad_words", {"x"}}}, "bad_words"},
      {{{"allowed_token_ids", {1}}}, "allowed_token_ids"},
      {{{"stop_regex", "a+"}}, "stop_regex"},
      {{{"use_beam_search", true}}, "use_beam_search"},
      {{{"logits_processors", {"x"}}}, "logits_processors"},
      {{{"tfs_z", 0.5}}, "tfs_z"},
      {{{"top_a", 0.2}}, "top_a"}};
  for (const Api& api : apis())
    for (const auto& [fields, field] : wrong) EXPECT_EQ(refused(api, fields, field), "");
}

// More tokens than an answer may have, by each API's name for that.
TEST_F(Samplers, TheLeastIsNotMoreThanTheMost) {
  const std::map<std::string, const char*> most = {{"/v1/responses", "max_output_tokens"},
                                                   {"/completion", "n_predict"},
                                                   {"/api/chat", "num_predict"},
                                                   {"/api/generate", "num_predict"}};
  for (const Api& api : apis()) {
    const std::string name = most.contains(api.path) ? most.at(api.path) : "max_tokens";
    EXPECT_EQ(refused(api, {{"min_tokens", 6}, {name, 5}}, "min_tokens"), "");
    EXPECT_EQ(refused(api, {{"min_new_tokens", 6}, {name, 5}}, "min_new_tokens"), "");
    EXPECT_EQ(taken(api, {{"min_tokens", 5}, {name, 5}}).output.min_tokens, 5);
  }
  const Api chat = apis()[0];
  EXPECT_EQ(refused(chat, {{"min_tokens", 6}, {"max_completion_tokens", 5}}, "min_tokens"), "");
}

TEST_F(Samplers, AnAnswerMayKeepItsStopString) {
  for (const Api& api : apis()) {
    const std::string path = api.path;
    if (path == "/v1/generate") {
      EXPECT_EQ(refused(api, {{"include_stop_str_in_output", true}}, "include_stop_str_in_output"), "");
      continue;
    }
    if (path == "/v1/responses") continue;  // has no stop strings
    const char* stop = path == "/v1/messages" ? "stop_sequences" : "stop";
    const auto body = [&](bool keep) {
      return ask(api, {{stop, {"world"}}, {"include_stop_str_in_output", keep}}).body;
    };
    EXPECT_NE(body(true).find("Hello, world\""), std::string::npos) << path << body(true);
    EXPECT_NE(body(false).find("Hello, \""), std::string::npos) << path << body(false);
  }
}

TEST_F(Samplers, TheTextOfAStopTokenIsHidden) {
  const Api chat = apis()[0];
  const int comma = engine_.tokenizer().encode(",", false).front();
  const auto content = [&](const Json& fields) -> std::string {
    return ask(chat, fields).json()["choices"][0]["message"]["content"];
  };
  engine_.script = [](const Request&) { return Script{{"Hello", ","}}; };
  EXPECT_EQ(content(Json::object()), "Hello,");
  EXPECT_EQ(content({{"stop_token_ids", {comma}}}), "Hello");
  EXPECT_EQ(content({{"stop_token_ids", {comma}}, {"include_stop_str_in_output", true}}), "Hello,");
}

TEST_F(Samplers, LlamaServersSettingsHaveThem) {
  const Json settings = post("/completion", R"({"prompt":"hi","mirostat":1,"dry_base":2,"typical_p":0.5})")
                            .json()["generation_settings"];
  EXPECT_EQ(settings["mirostat"], 1);
  EXPECT_EQ(settings["dry_base"], 2);
  EXPECT_EQ(settings["typical_p"], 0.5);
  EXPECT_EQ(settings["dry_sequence_breakers"].size(), 4u);
}

}  // namespace
}  // namespace anabranch::server
