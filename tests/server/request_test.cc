// Request bodies: what is taken, what is refused and how.
#include <gtest/gtest.h>

#include "server/api/openai/request.h"

namespace anabranch::server {
namespace {

RequestDefaults defaults() {
  return {SamplingParams{0.25f, 7, 0.9f, 0.05f, 0}, {}, 300};
}

// {"messages": [a user's message], <extra>}
std::string body(const std::string& extra) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (extra.empty() ? "" : "," + extra) + "}";
}

ChatRequest chat(const std::string& text) {
  auto result = parse_chat_request(text, defaults());
  if (!result) {
    ADD_FAILURE() << text << ": " << result.error().message;
    return {};
  }
  return result.value();
}

ApiError chat_error(const std::string& text) {
  const auto result = parse_chat_request(text, defaults());
  if (!result) return result.error();
  ADD_FAILURE() << "taken: " << text;
  return {};
}

TEST(ChatRequest, TakesTheModelsDefaults) {
  const ChatRequest request = chat(body(""));
  EXPECT_EQ(request.options.sampling.temperature, 0.25f);
  EXPECT_EQ(request.options.sampling.top_k, 7);
  EXPECT_EQ(request.options.sampling.top_p, 0.9f);
  EXPECT_EQ(request.options.sampling.min_p, 0.05f);
  EXPECT_FALSE(request.options.seed.has_value());
  EXPECT_EQ(request.options.max_tokens, -1);
  EXPECT_FALSE(request.options.stream);
  EXPECT_TRUE(request.tools.is_null());
  EXPECT_FALSE(request.options.thinking.mode.has_value());
  EXPECT_FALSE(request.options.thinking.budget.has_value());
}

TEST(ChatRequest, ReadsEveryOption) {
  const ChatRequest request =
      chat(body(R"("model":"default","temperature":0,"top_p":0.5,"top_k":3,"min_p":0.1,
      "seed":-1,"stop":["a","b"],"max_tokens":5,"max_completion_tokens":6,"stream":true,
      "stream_options":{"include_usage":true},"chat_template_kwargs":{"enable_thinking":false,"x":1},
      "user":"u","metadata":{"a":1},"store":false,"n":1,"logprobs":false,"presence_penalty":0.0,
      "response_format":{"type":"text"},"tool_choice":"auto","logit_bias":{},"service_tier":null)"));
  EXPECT_EQ(request.options.sampling.temperature, 0.0f);
  EXPECT_EQ(request.options.sampling.top_p, 0.5f);
  EXPECT_EQ(request.options.sampling.top_k, 3);
  EXPECT_EQ(request.options.sampling.min_p, 0.1f);
  EXPECT_EQ(request.options.seed, UINT64_MAX);
  EXPECT_EQ(request.options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.options.max_tokens, 6);
  EXPECT_TRUE(request.options.stream);
  EXPECT_TRUE(request.options.include_usage);
  EXPECT_EQ(request.options.thinking.mode, ThinkMode::off);
  EXPECT_EQ(request.chat.extra.dump(), R"({"x":1})");
  EXPECT_EQ(chat(body(R"("stop":"x","enable_thinking":true,"max_tokens":3.0)")).options.stop.size(), 1u);
  EXPECT_EQ(chat(body(R"("max_tokens":3.0)")).options.max_tokens, 3);
}

TEST(ChatRequest, ATopPOfZeroTakesTheLikeliestToken) {
  for (const char* zero : {"0", "0.0"}) {
    const SamplingParams sampling = chat(body(fmt::format(R"("top_p":{},"top_k":5)", zero))).options.sampling;
    EXPECT_EQ(sampling.top_k, 1);
    EXPECT_EQ(sampling.top_p, 1);
  }
  EXPECT_EQ(chat(body(R"("top_p":0.001)")).options.sampling.top_k, 7) << "the default";
}

TEST(ChatRequest, TheNewerLimitOfTokensIsOfThoughtsToo) {
  const auto bound = [](const char* extra) { return chat(body(extra)).options.bound; };
  EXPECT_EQ(bound(R"("max_tokens":5)"), TokenBound::answer);
  EXPECT_EQ(bound(R"("max_completion_tokens":5)"), TokenBound::shared);
  EXPECT_EQ(bound(R"("max_tokens":5,"max_completion_tokens":null)"), TokenBound::answer);
  EXPECT_EQ(bound(R"("max_completion_tokens":5,"max_tokens":3)"), TokenBound::shared);
}

TEST(ChatRequest, OfTwoLimitsOfTokensTheNewerFieldHolds) {
  EXPECT_EQ(chat(body(R"("max_tokens":5,"max_completion_tokens":3)")).options.max_tokens, 3);
  EXPECT_EQ(chat(body(R"("max_completion_tokens":5,"max_tokens":3)")).options.max_tokens, 5);
}

TEST(ChatRequest, ReadsPenaltiesBiasAndLogprobs) {
  const auto options = [](const std::string& extra) { return chat(body(extra)).options; };
  auto read = options(R"("presence_penalty":-2,"frequency_penalty":0.5,"repetition_penalty":1.25,
      "repetition_context_size":20,"logit_bias":{"0":-100,"299":2.5},"logprobs":true,"top_logprobs":20)");
  EXPECT_EQ(read.sampling.presence_penalty, -2.0f);
  EXPECT_EQ(read.sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(read.sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(read.sampling.repetition_window, 20);
  EXPECT_EQ(read.sampling.logit_bias, (std::vector<std::pair<int, float>>{{0, -100.0f}, {299, 2.5f}}));
  EXPECT_EQ(read.logprobs, 20);
  read = options(R"("repetition_penalty":0,"logit_bias":null,"logprobs":false,"top_logprobs":0)");
  EXPECT_FALSE(read.sampling.penalises());
  EXPECT_TRUE(read.sampling.logit_bias.empty());
  EXPECT_EQ(read.logprobs, -1);
  EXPECT_EQ(options(R"("logprobs":true)").logprobs, 0);
  RequestDefaults penalising = defaults();
  penalising.sampling.repetition_penalty = 1.5f;  // the model's recommendation
  const auto penalty = [&](const std::string& extra) {
    const auto result = parse_chat_request(body(extra), penalising);
    return result.value().options.sampling.repetition_penalty;
  };
  EXPECT_EQ(penalty(""), 1.5f);
  EXPECT_EQ(penalty(R"("repetition_penalty":1)"), 1.0f);
}

TEST(ChatRequest, ReadsSpeculation) {
  RequestDefaults with_mtp = defaults();
  with_mtp.draft_sources = {DraftSource::ngram, DraftSource::mtp};
  const auto parse = [&](const std::string& value) {
    return parse_chat_request(body("\"speculation\":" + value), with_mtp);
  };
  const auto mode = [&](const std::string& value) {
    return parse(value).value().options.speculation.value();
  };
  EXPECT_TRUE(mode(R"("auto")").automatic);
  EXPECT_EQ(mode(R"({"depth":3})").depth, 3);
  EXPECT_TRUE(mode(R"({"depth":3})").automatic);
  EXPECT_FALSE(mode(R"("off")").automatic);
  EXPECT_EQ(mode(R"("off")").source, DraftSource::none);
  EXPECT_EQ(mode(R"({"source":"mtp","depth":15})").source, DraftSource::mtp);
  EXPECT_EQ(mode(R"({"source":"mtp","depth":15})").depth, 15);
  const auto message = [&](const std::string& value) {
    const auto result = parse(value);
    return result ? "taken" : result.error().message;
  };
  for (const auto& [value, part] : std::vector<std::pair<const char*, const char*>>{
           {R"("draft")", "'speculation': the model was not loaded with what \"draft\" needs"},
           {R"("fast")", "'speculation': \"fast\" is no kind of speculation; auto, off, ngram"},
           {R"("none")", "\"none\" is no kind"},
           {R"({"source":"off","depth":3})", "'speculation': speculation is off, but a depth of 3"},
           {R"({"source":"mtp","depth":16})", "speculation.depth"},
           {R"(3)", "speculation.source"}})
    EXPECT_NE(message(value).find(part), std::string::npos) << value << ": " << message(value);
}

TEST(ChatRequest, ANullFieldIsAnAbsentField) {
  const ChatRequest request = chat(body(R"("temperature":null,"stop":null,"max_tokens":null,"stream":null,
      "tools":null,"logprobs":null,"n":null,"response_format":null,"model":null,"seed":null)"));
  EXPECT_EQ(request.options.sampling.temperature, 0.25f);
  EXPECT_TRUE(request.options.stop.empty());
}

TEST(ChatRequest, NormalisesMessagesForTheTemplate) {
  const ChatRequest request = chat(R"({"messages":[
      {"role":"developer","content":"be brief"},
      {"role":"user","name":"ann","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"reasoning":"hm","tool_calls":[
         {"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
         {"id":"2","type":"function","function":{"name":"g","arguments":"not json"}}]},
      {"role":"tool","tool_call_id":"1","content":"42","unknown":true}]})");
  EXPECT_EQ(request.messages[0].dump(), R"({"role":"system","content":"be brief"})");
  EXPECT_EQ(request.messages[1].dump(), R"({"role":"user","content":"ab","name":"ann"})");
  EXPECT_EQ(request.messages[2]["content"], "");
  EXPECT_EQ(request.messages[2]["reasoning_content"], "hm");
  EXPECT_EQ(request.messages[2]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(request.messages[2]["tool_calls"][1]["function"]["arguments"], "not json");
  EXPECT_EQ(request.messages[3].dump(), R"({"role":"tool","content":"42","tool_call_id":"1"})");
}

TEST(ChatRequest, TakesHistoriesOfOtherTimes) {
  const ChatRequest request = chat(R"({"messages":[
      {"role":"user","content":"a"},
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"}},
      {"role":"function","name":"f","content":{"y":2}},
      {"role":"tool","tool_call_id":"1"},
      {"role":"system","content":null},
      {"role":"assistant","tool_calls":[{"function":{"name":"g","arguments":null}},
         {"function":{"name":"h","arguments":[1]}},{"function":{"name":"i","arguments":"{\"z\": \"a\nb\"}"}}]}]})");
  EXPECT_EQ(request.messages[1]["tool_calls"].dump(),
            R"([{"type":"function","function":{"name":"f","arguments":{"x":1}}}])");
  EXPECT_EQ(request.messages[2].dump(), R"({"role":"tool","content":"{\"y\":2}","name":"f"})");
  EXPECT_EQ(request.messages[3].dump(), R"({"role":"tool","content":"","tool_call_id":"1"})");
  EXPECT_EQ(request.messages[4]["content"], "");
  const Json& calls = request.messages[5]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"].dump(), "{}");
  EXPECT_EQ(calls[1]["function"]["arguments"], "[1]");
  EXPECT_EQ(calls[2]["function"]["arguments"]["z"], "a\nb");
}

TEST(ChatRequest, OnlyAllowedToolsAreOffered) {
  const auto asks = [](const char* mode, const char* name) {
    return body(fmt::format(
        R"("tools":[{{"type":"function","function":{{"name":"f"}}}},{{"type":"function","function":{{"name":"g"}}}}],
           "tool_choice":{{"type":"allowed_tools","allowed_tools":{{"mode":"{}",
             "tools":[{{"type":"function","function":{{"name":"{}"}}}}]}}}})",
        mode, name));
  };
  for (const char* mode : {"auto", "required"}) {
    const ChatRequest request = chat(asks(mode, "g"));
    ASSERT_EQ(request.tools.size(), 1u);
    EXPECT_EQ(request.tools[0]["function"]["name"], "g");
    EXPECT_EQ(request.tool_choice.kind == ToolChoice::Kind::required, mode == std::string("required"));
  }
  EXPECT_EQ(chat_error(asks("auto", "h")).param, "tool_choice");
  EXPECT_EQ(chat_error(asks("none", "f")).param, "tool_choice.allowed_tools.mode");
}

TEST(ChatRequest, LimitsItsTools) {
  const auto with = [](size_t count) {
    Json tools = Json::array();
    for (size_t i = 0; i < count; i++)
      tools.push_back({{"type", "function"}, {"function", {{"name", fmt::format("f{}", i)}}}});
    return body("\"tools\":" + tools.dump());
  };
  EXPECT_EQ(chat(with(kMaxTools)).tools.size(), kMaxTools);
  EXPECT_EQ(chat_error(with(kMaxTools + 1)).param, "tools");
}

TEST(ChatRequest, TakesMlxLmsDefaults) {
  const std::string mlx =
      R"("presence_context_size":20,"frequency_context_size":20,"repetition_context_size":20,"top_logprobs":-1,)"
      R"("stop":"","max_tokens":0,"xtc_probability":0.0,"xtc_threshold":0.0,"adapters":null,"role_mapping":null,)"
      R"("draft_model":"default_model","num_draft_tokens":3,"repetition_penalty":0.0,"logit_bias":null)";
  const GenerationOptions options = chat(body(mlx)).options;
  EXPECT_EQ(options.sampling.presence_window, 20);
  EXPECT_EQ(options.sampling.frequency_window, 20);
  EXPECT_EQ(options.logprobs, -1);
  EXPECT_TRUE(options.stop.empty());
  EXPECT_EQ(options.max_tokens, 0);
  EXPECT_TRUE(options.speculation->automatic);
  EXPECT_EQ(options.speculation->depth, 3);
  EXPECT_FALSE(chat(body(R"("num_draft_tokens":0)")).options.speculation->automatic);
  EXPECT_EQ(chat(body(R"("num_draft_tokens":99)")).options.speculation->depth, kMaxDraft);
  const auto ours_counts = chat(body(R"("speculation":"off","num_draft_tokens":5)")).options.speculation;
  EXPECT_FALSE(ours_counts->automatic);
  EXPECT_EQ(chat(body(R"("logprobs":true,"top_logprobs":-1)")).options.logprobs, 0);
  RequestDefaults ours = defaults();
  ours.draft_model = "small";
  EXPECT_TRUE(parse_chat_request(body(R"("draft_model":"small")"), ours).ok());
  const auto text = [](const char* request) {
    return parse_completion_request(request, defaults()).value().options.logprobs;
  };
  EXPECT_EQ(text(R"({"prompt":"a","logprobs":true})"), 0);
  EXPECT_EQ(text(R"({"prompt":"a","logprobs":true,"top_logprobs":4})"), 4);
  EXPECT_EQ(text(R"({"prompt":"a","logprobs":false})"), -1);
}

TEST(ChatRequest, ARefusalThatComesBackIsText) {
  const ChatRequest request = chat(R"({"messages":[{"role":"user","content":"a"},
      {"role":"assistant","content":[{"type":"refusal","refusal":"I can't "},{"type":"text","text":"help."}]},
      {"role":"assistant","content":null,"refusal":"No."},
      {"role":"assistant","content":"Yes.","refusal":null}],"continue_final_message":false})");
  EXPECT_EQ(request.messages[1]["content"], "I can't help.");
  EXPECT_EQ(request.messages[2]["content"], "No.");
  EXPECT_EQ(request.messages[3]["content"], "Yes.");
  EXPECT_EQ(
      chat_error(R"({"messages":[{"role":"user","content":[{"type":"refusal","refusal":"No."}]}]})").param,
      "messages[0].content[0].type");
}

TEST(ChatRequest, PassesToolsUnlessToldNotTo) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2}}}])";
  EXPECT_EQ(chat(body(tools)).tools.dump(),
            R"([{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2}}}])");
  EXPECT_FALSE(chat(body(tools + R"(,"tool_choice":"none")")).tools.is_null());
  EXPECT_EQ(chat(body(tools + R"(,"tool_choice":"none")")).tool_choice.kind, ToolChoice::Kind::none);
  EXPECT_TRUE(chat(body(R"("tools":[])")).tools.is_null());
}

struct BadCase {
  const char* extra;
  const char* param;
  const char* code;
};

TEST(ChatRequest, RefusesWrongAndUnbuiltFieldsByName) {
  const BadCase cases[] = {
      {R"("temperature":"hot")", "temperature", "invalid_type"},
      {R"("temperature":-1)", "temperature", "invalid_value"},
      {R"("temperature":1e999)", "", "invalid_json"},
      {R"("top_p":1.5)", "top_p", "invalid_value"},
      {R"("top_k":1.5)", "top_k", "invalid_type"},
      {R"("top_k":99999999999999999999)", "top_k", "invalid_value"},
      {R"("min_p":true)", "min_p", "invalid_type"},
      {R"("seed":"x")", "seed", "invalid_type"},
      {R"("max_tokens":-2)", "max_tokens", "invalid_value"},
      {R"("max_completion_tokens":"many")", "max_completion_tokens", "invalid_type"},
      {R"("stream":1)", "stream", "invalid_type"},
      {R"("stream_options":[])", "stream_options", "invalid_type"},
      {R"("stream_options":{"include_usage":1})", "stream_options.include_usage", "invalid_type"},
      {R"("stop":7)", "stop", "invalid_type"},
      {R"("stop":["a",7])", "stop[1]", "invalid_type"},
      {R"("stop":[""])", "stop[0]", "invalid_value"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop",
       "invalid_value"},
      {R"("model":7)", "model", "invalid_type"},
      {R"("n":0)", "n", "invalid_value"},
      {R"("n":17)", "n", "invalid_value"},
      {R"("n":"2")", "n", "invalid_type"},
      {R"("n":2,"best_of":3)", "best_of", "unsupported_value"},
      {R"("stream_options":{"include_usage":true})", "stream_options", "invalid_value"},
      {R"("user":5)", "user", "invalid_type"},
      {R"("store":"yes")", "store", "invalid_type"},
      {R"("metadata":[])", "metadata", "invalid_type"},
      {R"("service_tier":3)", "service_tier", "invalid_type"},
      {R"("verbosity":true)", "verbosity", "invalid_type"},
      {R"("web_search_options":{})", "web_search_options", "unsupported_value"},
      {R"("audio":{"voice":"x","format":"wav"})", "audio", "unsupported_value"},
      {R"("logprobs":1)", "logprobs", "invalid_type"},
      {R"("top_logprobs":3)", "top_logprobs", "invalid_value"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "invalid_value"},
      {R"("logprobs":true,"top_logprobs":-2)", "top_logprobs", "invalid_value"},
      {R"("presence_penalty":2.1)", "presence_penalty", "invalid_value"},
      {R"("frequency_penalty":-3)", "frequency_penalty", "invalid_value"},
      {R"("frequency_penalty":"high")", "frequency_penalty", "invalid_type"},
      {R"("repetition_penalty":-1)", "repetition_penalty", "invalid_value"},
      {R"("repetition_penalty":1e-6)", "repetition_penalty", "invalid_value"},
      {R"("repetition_context_size":-1)", "repetition_context_size", "invalid_value"},
      {R"("presence_context_size":-1)", "presence_context_size", "invalid_value"},
      {R"("xtc_probability":1.5)", "xtc_probability", "invalid_value"},
      {R"("adapters":"lora")", "adapters", "unsupported_value"},
      {R"("draft_model":"other")", "draft_model", "unsupported_value"},
      {R"("num_draft_tokens":-1)", "num_draft_tokens", "invalid_value"},
      {R"("role_mapping":{"user":"U"})", "role_mapping", "unsupported_value"},
      {R"("logit_bias":[5])", "logit_bias", "invalid_type"},
      {R"("logit_bias":{"300":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"-1":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5x":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"":1})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":1,"05":2})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":101})", "logit_bias.5", "invalid_value"},
      {R"("logit_bias":{"5":"1"})", "logit_bias.5", "invalid_type"},
      {R"("logit_bias":{"5":null})", "logit_bias.5", "invalid_type"},
      {R"("tool_choice":"required")", "tool_choice", "invalid_value"},
      {R"("tool_choice":"some")", "tool_choice", "invalid_value"},
      {R"("tool_choice":7)", "tool_choice", "invalid_type"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice", "invalid_value"},
      {R"("response_format":{"type":"xml"})", "response_format.type", "unsupported_value"},
      {R"("response_format":{})", "response_format.type", "missing_required_parameter"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema",
       "missing_required_parameter"},
      {R"("response_format":{"type":"json_object"},"grammar":"root ::= \"a\"")", "grammar", "invalid_value"},
      {R"("response_format":"text")", "response_format", "invalid_type"},
      {R"("modalities":["text","audio"])", "modalities", "unsupported_value"},
      {R"("functions":[{"name":"f"}])", "functions", "unsupported_value"},
      {R"("tools":{})", "tools", "invalid_type"},
      {R"("tools":[{"type":"function"}])", "tools[0]", "invalid_value"},
      {R"("tools":[{"type":"retrieval","function":{"name":"f"}}])", "tools[0]", "invalid_value"},
      {R"("enable_thinking":"yes")", "enable_thinking", "invalid_value"},
      {R"("enable_thinking":1)", "enable_thinking", "invalid_type"},
      {R"("max_thinking_tokens":"many")", "max_thinking_tokens", "invalid_type"},
      {R"("thinking_budget":1.5)", "thinking_budget", "invalid_type"},
      {R"("thinking_token_budget":-2)", "thinking_token_budget", "invalid_value"},
      {R"("thinking_budget_tokens":99999999999)", "thinking_budget_tokens", "invalid_value"},
      {R"("reasoning_budget":[])", "reasoning_budget", "invalid_type"},
      {R"("reasoning_effort":"huge")", "reasoning_effort", "invalid_value"},
      {R"("reasoning_effort":3)", "reasoning_effort", "invalid_type"},
      {R"("think":1)", "think", "invalid_type"},
      {R"("think":"much")", "think", "invalid_value"},
      {R"("thinking":true)", "thinking", "invalid_type"},
      {R"("thinking":{"type":"on"})", "thinking.type", "invalid_value"},
      {R"("thinking":{"type":"enabled","budget_tokens":"1024"})", "thinking.budget_tokens", "invalid_type"},
      {R"("reasoning":"high")", "reasoning", "invalid_type"},
      {R"("reasoning":{"effort":"huge"})", "reasoning.effort", "invalid_value"},
      {R"("reasoning":{"max_tokens":-2})", "reasoning.max_tokens", "invalid_value"},
      {R"("reasoning":{"enabled":"yes"})", "reasoning.enabled", "invalid_type"},
      {R"("chat_template_kwargs":{"enable_thinking":1})", "chat_template_kwargs.enable_thinking",
       "invalid_type"},
      {R"("chat_template_kwargs":{"enable_thinking":"yes"})", "chat_template_kwargs.enable_thinking",
       "invalid_value"},
      {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages", "invalid_value"},
      {R"("chat_template_kwargs":5)", "chat_template_kwargs", "invalid_type"},
  };
  const auto salt = [](size_t size) { return fmt::format(R"("cache_salt":"{}")", std::string(size, 's')); };
  EXPECT_EQ(chat(body(salt(1024))).options.cache_salt.size(), 1024u);
  EXPECT_EQ(chat_error(body(salt(1025))).param, "cache_salt");
  for (const BadCase& c : cases) {
    const ApiError error = chat_error(body(c.extra));
    EXPECT_EQ(error.param, c.param) << c.extra << ": " << error.message;
    EXPECT_EQ(error.code, c.code) << c.extra << ": " << error.message;
    EXPECT_EQ(error.status, 400) << c.extra;
    EXPECT_NE(error.message, "");
  }
}

TEST(ChatRequest, RefusesBadMessagesByPlace) {
  const BadCase cases[] = {
      {R"({})", "messages", "missing_required_parameter"},
      {R"({"messages":[]})", "messages", "invalid_value"},
      {R"({"messages":{}})", "messages", "invalid_type"},
      {R"({"messages":["hi"]})", "messages[0]", "invalid_type"},
      {R"({"messages":[{"content":"hi"}]})", "messages[0].role", "missing_required_parameter"},
      {R"({"messages":[{"role":"king","content":"hi"}]})", "messages[0].role", "invalid_value"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content", "missing_required_parameter"},
      {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content", "invalid_type"},
      {R"({"messages":[{"role":"user","content":[7]}]})", "messages[0].content[0]", "invalid_type"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text",
       "missing_required_parameter"},
      {R"({"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]})",
       "messages[0].content[0].type", "unsupported_value"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"1"}]}]})",
       "messages[1].tool_calls[0]", "invalid_value"},
  };
  for (const BadCase& c : cases) {
    const ApiError error = chat_error(c.extra);
    EXPECT_EQ(error.param, c.param) << c.extra << ": " << error.message;
    EXPECT_EQ(error.code, c.code) << c.extra << ": " << error.message;
  }
}

TEST(ChatRequest, NamesThePositionOfBadJson) {
  const ApiError error = chat_error(R"({"messages": [}])");
  EXPECT_EQ(error.code, "invalid_json");
  EXPECT_NE(error.message.find("byte 14"), std::string::npos) << error.message;
  EXPECT_EQ(chat_error("[]").code, "invalid_type");
  EXPECT_EQ(chat_error("").code, "invalid_json");
  EXPECT_EQ(chat_error("{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}").code, "invalid_json");
  EXPECT_EQ(chat_error(std::string(100000, '[')).code, "invalid_json");
}

TEST(CompletionRequest, TakesTextTokensOrAListOfEither) {
  const auto prompt = [](const std::string& json) {
    auto result = parse_completion_request(R"({"prompt":)" + json + "}", defaults());
    EXPECT_TRUE(result.ok()) << json;
    return result.value().prompts.at(0);
  };
  EXPECT_EQ(std::get<std::string>(prompt(R"("abc")")), "abc");
  EXPECT_EQ(std::get<std::string>(prompt(R"(["abc"])")), "abc");
  EXPECT_EQ(std::get<std::vector<int>>(prompt("[1,2]")), (std::vector<int>{1, 2}));
  EXPECT_EQ(std::get<std::vector<int>>(prompt("[[1,2]]")), (std::vector<int>{1, 2}));
  const auto list = parse_completion_request(R"({"prompt":["a",[1,2],"b"],"n":2,"best_of":2})", defaults());
  ASSERT_TRUE(list.ok());
  const auto& request = list.value();
  EXPECT_EQ(request.options.choices, 2);
  EXPECT_EQ(request.prompts, (std::vector<TextOrTokens>{"a", std::vector<int>{1, 2}, "b"}));
  std::string many = "\"a\"";
  for (int i = 1; i < 33; ++i) many += ",\"a\"";
  EXPECT_TRUE(parse_completion_request("{\"prompt\":[" + many + "]}", defaults()).ok());
  const auto too_many = parse_completion_request("{\"n\":2,\"prompt\":[" + many + "]}", defaults());
  ASSERT_TRUE(!too_many.ok());
  EXPECT_EQ(too_many.error().param, "prompt");
  for (const char* bad : {R"({"prompt":["a",[-1]]})", R"({"prompt":["a",3]})", R"({"prompt":[-1]})",
                          R"({"prompt":[1,"a"]})", R"({"prompt":{}})", R"({"prompt":[1.5]})",
                          R"({"prompt":[4294967296]})", R"({})", R"({"prompt":"a","echo":1})",
                          R"({"prompt":"a","echo":true,"suffix":"b"})", R"({"prompt":"a","suffix":5})",
                          R"({"prompt":"a","logprobs":21})", R"({"prompt":"a","top_logprobs":2})",
                          R"({"prompt":"a","logprobs":-1})", R"({"prompt":"a","best_of":2})"}) {
    auto result = parse_completion_request(bad, defaults());
    ASSERT_TRUE(!result.ok()) << bad;
    EXPECT_EQ(result.error().status, 400) << bad;
  }
}

}  // namespace
}  // namespace anabranch::server
