// What the command line asks of the engine, and what the server asks for the same words.
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "chat/engine_request.h"
#include "cli/prompts.h"
#include "server/server_fixture.h"

namespace anabranch::cli {
namespace {

class SameRequest : public server::ServerTest {
 protected:
  // Through HTTP.
  Request served(const Json& body) {
    const auto answer = post("/v1/chat/completions", body.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return engine_.last_request();
  }
  // As `generate` and `chat` ask.
  Request asked(const Json& body, const ThinkFlags& thinking, const ResponseFormat& format) {
    SamplingOptions sampling;
    sampling.temperature = 0;
    sampling.max_tokens = 9;
    sampling.stop = {"halt"};
    GenerationOptions options = generation_options(sampling, engine_, 1);
    options.format = format;
    const auto prepared = prepare_chat(engine_, preparer_, body, thinking, std::move(options));
    EXPECT_TRUE(prepared.ok()) << prepared.error().message;
    return prepared.ok() ? engine_request(*prepared, 0, 1) : Request();
  }

  Preparer preparer_{engine_, {}};
};

const std::array kConversations = {
    Json::array({{{"role", "user"}, {"content", "Write a Python function that adds two numbers."}}}),
    Json::array({{{"role", "user"}, {"content", "Hi"}}}),
    Json::array({{{"role", "system"}, {"content", "You are brief."}},
                 {{"role", "user"}, {"content", "Prove that the square root of 2 is irrational."}},
                 {{"role", "assistant"}, {"content", "It is."}},
                 {{"role", "user"}, {"content", "Step by step, please. Grüße"}}}),
    Json::array({{{"role", "user"}, {"content", "Weather?"}},
                 {{"role", "assistant"},
                  {"content", ""},
                  {"tool_calls",
                   {{{"id", "call_1"},
                     {"type", "function"},
                     {"function", {{"name", "weather"}, {"arguments", R"({"city": "Oslo"})"}}}}}}},
                 {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "12 degrees"}}})};

TEST_F(SameRequest, ByHttpAndByTheCommandLine) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {"code": {"type": "string"}}})");
  const Json tool = Json::parse(
      R"({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}})");
  int compared = 0;
  for (const Json& messages : kConversations)
    for (const auto& [mode, budget] :
         {std::pair("auto", std::optional<int>()), {"on", 8}, {"off", std::nullopt}, {"on", std::nullopt}})
      for (const auto& [with_schema, with_tools] : {std::pair(false, false), {true, false}, {false, true}}) {
        SCOPED_TRACE(fmt::format("{} {} {} schema {} tools {}", messages.dump(), mode, budget.value_or(-1),
                                 with_schema, with_tools));
        Json said = {{"messages", messages}};
        if (with_tools) said["tools"] = Json::array({tool});
        Json body = said;
        body["temperature"] = 0;
        body["max_tokens"] = 9;
        body["stop"] = "halt";
        body["enable_thinking"] =
            std::string_view(mode) == "auto" ? Json("auto") : Json(mode == std::string("on"));
        if (budget) body["thinking_budget"] = *budget;
        ResponseFormat format;
        if (with_schema) {
          body["response_format"] = {{"type", "json_schema"},
                                     {"json_schema", {{"name", "x"}, {"schema", schema}}}};
          format.kind = ResponseFormat::Kind::schema;
          format.schema = schema;
        }
        (void)engine_.compile_grammar("none");
        const Request there = served(body);
        const std::string grammar = engine_.grammar();
        (void)engine_.compile_grammar("none");
        const Request here = asked(said, {mode, budget}, format);
        EXPECT_EQ(here.prompt, there.prompt);
        EXPECT_EQ(here.keep_at, there.keep_at);
        EXPECT_EQ(here.begun, there.begun);
        const auto policy = [](const ThinkingOptions& o) {
          return std::tuple(o.budget, o.loops, o.calls, o.closing, o.answer_start, o.answer_fence);
        };
        EXPECT_EQ(policy(here.thinking), policy(there.thinking))
            << here.thinking.closing << " / " << there.thinking.closing;
        EXPECT_EQ(here.output.thinking_open, there.output.thinking_open);
        EXPECT_EQ(here.output.max_calls, there.output.max_calls);
        EXPECT_EQ(*here.output.tools, *there.output.tools);
        EXPECT_EQ(here.stop, there.stop);
        EXPECT_EQ(here.max_tokens, there.max_tokens);
        const auto rest = [](const Request& r) {
          return std::tuple(r.sampling.temperature, r.sampling.top_p, r.sampling.top_k, r.sampling.min_p,
                            r.sampling.repetition_penalty, r.logprobs, r.bound, r.output.stop_tokens,
                            r.ignore_eos, r.cache, r.cache_salt, r.priority, r.output.only_calls,
                            r.output.goes_on, r.speculation.has_value());
        };
        EXPECT_TRUE(rest(here) == rest(there));
        EXPECT_EQ(engine_.grammar(), grammar);
        EXPECT_EQ(grammar != "none", with_schema);
        compared++;
      }
  EXPECT_GE(compared, 30);
}

// The opposite.
TEST_F(SameRequest, IsNotMadeOfOtherWords) {
  const Json messages = kConversations[1];
  const Request there = served({{"messages", messages}, {"enable_thinking", true}});
  EXPECT_NE(asked({{"messages", messages}}, {"off", std::nullopt}, {}).prompt, there.prompt);
  EXPECT_NE(asked({{"messages", kConversations[0]}}, {"on", std::nullopt}, {}).prompt, there.prompt);
}

// --lora, and the adapter's name as a model.
TEST_F(SameRequest, WithAnAdapter) {
  const auto adapters = *applied_adapters(engine_, {"/adapters/poet"});
  server::ServerModels models = server::served_by(engine_);
  models.first->adapters = {{"poet", "/adapters/poet", adapters[0].adapter}};
  start(std::move(models), {});
  const Json messages = kConversations[1];
  const Request there = served({{"model", "poet"}, {"messages", messages}});
  GenerationOptions options = generation_options({}, engine_, 1);
  apply_adapters(options, adapters);
  const auto prepared = prepare_chat(engine_, preparer_, {{"messages", messages}}, {}, std::move(options));
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  const Request here = engine_request(*prepared, 0, 1);
  ASSERT_EQ(here.adapters.size(), 1u);
  ASSERT_EQ(there.adapters.size(), 1u);
  EXPECT_EQ(here.adapters[0].adapter, there.adapters[0].adapter);
  EXPECT_EQ(here.adapters[0].scale, there.adapters[0].scale);
  EXPECT_EQ(here.cache_salt, there.cache_salt);
  EXPECT_NE(here.cache_salt, "");
  EXPECT_FALSE(applied_adapters(engine_, {"/adapters/poet", "/adapters/bad"}).ok());
}

TEST_F(SameRequest, ErrorsSpeakOfFlags) {
  const auto error_of = [&](std::string text, GenerationOptions options) {
    const auto prepared = prepare_text(preparer_, std::move(text), std::move(options));
    return prepared.ok() ? "taken" : prepared.error().message;
  };
  EXPECT_NE(error_of(std::string(5000, 'x'), {}).find("more than 1000 tokens"), std::string::npos);
  EXPECT_NE(error_of(std::string(5000, 'x'), {}).find("--context"), std::string::npos);
  GenerationOptions endless;
  endless.ignore_eos = true;
  endless.format.kind = ResponseFormat::Kind::json;
  EXPECT_NE(error_of("x", endless).find("--ignore-eos"), std::string::npos);
  EXPECT_EQ(error_of("x", {}), "taken");
}

}  // namespace
}  // namespace anabranch::cli
