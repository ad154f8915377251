// Thoughts and calls of families whose templates and marks are their own: prompts, answers and streams.
#include "base/mapped_file.h"
#include "output/message_reader.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

const Json kTools = Json::parse(R"([{"type":"function","function":{"name":"weather","description":"Of today",
    "parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},
                  "required":["city"]}}}])");
const Json kAsked = {{"role", "user"}, {"content", "Rome?"}};
const Json kResult = {{"role", "tool"}, {"tool_call_id", "call00001"}, {"content", "21"}};

Json called(const std::string& reasoning) {
  Json message = {{"role", "assistant"},
                  {"content", nullptr},
                  {"tool_calls",
                   {{{"id", "call00001"},
                     {"type", "function"},
                     {"function", {{"name", "weather"}, {"arguments", R"({"city": "Rome", "days": 2})"}}}}}}};
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  return message;
}

// An answer, as its parts add up in a stream or stand in a whole one.
struct Told {
  std::string reasoning, content, finish;
  std::vector<std::pair<std::string, Json>> calls;
  bool operator==(const Told&) const = default;
};

void PrintTo(const Told& told, std::ostream* out) {
  *out << "reasoning \"" << told.reasoning << "\" content \"" << told.content << "\" " << told.finish;
  for (const auto& [name, arguments] : told.calls) *out << " " << name << arguments.dump();
}

class Family : public ServerTest {
 protected:
  void SetUp() override {}
  void become(const std::string& name, std::vector<std::string> tags) {
    const auto source = read_file(ANABRANCH_SOURCE_DIR "/tests/jinja/data/templates/" + name, 1 << 20);
    engine_.set_context(4000);  // real templates write more than the fake one
    engine_.become(ChatTemplate::parse(*source, "<s>", "</s>").value(), std::move(tags));
    start({});
  }
  // What the model writes next, byte by byte.
  void model_writes(std::string text) {
    engine_.script = [text](const Request&) {
      Script script;
      for (size_t i = 0; i < text.size();) {
        const size_t close = text[i] == '<' || text[i] == '[' ? text.find_first_of(">]", i) : i;
        script.parts.push_back(text.substr(i, close == text.npos ? 1 : close - i + 1));
        i += script.parts.back().size();
      }
      return script;
    };
  }
  Told ask(const Json& messages, Json more = Json::object()) {
    more["messages"] = messages;
    const HttpAnswer whole = post("/v1/chat/completions", more.dump());
    EXPECT_EQ(whole.status, 200) << whole.body;
    const Json choice = whole.json()["choices"][0];
    Told told{choice["message"].value("reasoning_content", ""), "", choice["finish_reason"], {}};
    if (choice["message"]["content"].is_string()) told.content = choice["message"]["content"];
    for (const Json& call : choice["message"].value("tool_calls", Json::array()))
      told.calls.emplace_back(call["function"]["name"],
                              Json::parse(call["function"]["arguments"].get<std::string>()));
    EXPECT_EQ(streamed(more), told);
    return told;
  }
  Told streamed(Json body) {
    body["stream"] = true;
    Told told;
    std::vector<std::string> arguments;
    for (const Json& event : events(post("/v1/chat/completions", body.dump()).body)) {
      if (event == "[DONE]" || event["choices"].empty()) continue;
      const Json& choice = event["choices"][0];
      const Json& delta = choice["delta"];
      told.reasoning += delta.value("reasoning_content", "");
      if (delta.contains("content") && delta["content"].is_string())
        told.content += delta["content"].get<std::string>();
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        const size_t index = call["index"];
        if (index == arguments.size()) {
          told.calls.emplace_back(call["function"]["name"], Json());
          arguments.emplace_back();
        }
        arguments[index] += call["function"].value("arguments", "");
      }
      if (choice["finish_reason"].is_string()) told.finish = choice["finish_reason"];
    }
    for (size_t i = 0; i < arguments.size(); i++) told.calls[i].second = Json::parse(arguments[i]);
    return told;
  }
  std::string prompt() const { return engine_.last_prompt(); }
};

#define EXPECT_PROMPT_HAS(part) EXPECT_NE(prompt().find(part), std::string::npos) << prompt()
#define EXPECT_PROMPT_LACKS(part) EXPECT_EQ(prompt().find(part), std::string::npos) << prompt()
#define EXPECT_PROMPT_ENDS(part) EXPECT_TRUE(prompt().ends_with(part)) << prompt()

// ---------------------------------------------------------------- Gemma 4

class Gemma4 : public Family {
 protected:
  void SetUp() override {
    become("gemma4.jinja",
           {"<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>", "<|tool>", "<tool|>",
            "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", "<|\"|>"});
  }
};

TEST_F(Gemma4, Thinks) {
  model_writes("<|channel>thought\nHm, <b>.\n<channel|>Yes.");
  EXPECT_EQ(ask(Json::array({kAsked}), {{"enable_thinking", true}}), (Told{"Hm, <b>.", "Yes.", "stop", {}}));
  EXPECT_PROMPT_HAS("<|turn>system\n<|think|>\n<turn|>\n<|turn>user\nRome?<turn|>\n");
  EXPECT_PROMPT_ENDS("<|turn>model\n");
  EXPECT_FALSE(engine_.last_request().output.thinking_open);
}

TEST_F(Gemma4, ThoughtsCanBeOff) {
  model_writes("Yes.");
  EXPECT_EQ(ask(Json::array({kAsked}), {{"enable_thinking", false}}), (Told{"", "Yes.", "stop", {}}));
  EXPECT_PROMPT_LACKS("<|think|>");
  EXPECT_PROMPT_ENDS("<|turn>model\n<|channel>thought\n<channel|>");
  EXPECT_FALSE(engine_.last_request().output.thinking_open);
}

TEST_F(Gemma4, CallsTools) {
  model_writes(
      "<|channel>thought\nBoth.\n<channel|><|tool_call>call:weather{city:<|\"|>Rome, "
      "{\"}<|\"|>,days:2}<tool_call|>"
      "<|tool_call>call:weather{city:<|\"|>Oslo<|\"|>}<tool_call|>");
  const Told told = ask(Json::array({kAsked}), {{"tools", kTools}, {"enable_thinking", true}});
  EXPECT_EQ(told,
            (Told{"Both.",
                  "",
                  "tool_calls",
                  {{"weather", {{"city", "Rome, {\"}"}, {"days", 2}}}, {"weather", {{"city", "Oslo"}}}}}));
  EXPECT_PROMPT_HAS(
      "<|tool>declaration:weather{description:<|\"|>Of today<|\"|>,parameters:{properties:{city:{");
}

TEST_F(Gemma4, ResultsContinueTheTurnOfTheirCall) {
  model_writes("It is 21.");
  EXPECT_EQ(ask({kAsked, called("Look."), kResult}, {{"tools", kTools}, {"enable_thinking", true}}),
            (Told{"", "It is 21.", "stop", {}}));
  EXPECT_PROMPT_ENDS(
      "<|turn>model\n<|channel>thought\nLook.\n<channel|><|tool_call>call:weather{city:<|\"|>Rome<|\"|>,days:"
      "2}"
      "<tool_call|><|tool_response>response:weather{value:<|\"|>21<|\"|>}<tool_response|>");
}

TEST_F(Gemma4, MarksWithoutToolsAreLeftOut) {
  model_writes("a<|tool_call>call:weather{}<tool_call|>");
  EXPECT_EQ(ask(Json::array({kAsked})).content, "acall:weather{}");
}

// ---------------------------------------------------------------- Ministral 3

class Ministral3 : public Family {
 protected:
  void SetUp() override {
    become("ministral3_reasoning.jinja",
           {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[INST]",
            "[/INST]", "[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[THINK]", "[/THINK]"});
  }
};

TEST_F(Ministral3, ThinksAndCallsTools) {
  model_writes(
      "[THINK]Hm [1].[/THINK]Ok.[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]weather[ARGS]{}");
  EXPECT_EQ(
      ask(Json::array({kAsked}), {{"tools", kTools}}),
      (Told{"Hm [1].", "Ok.", "tool_calls", {{"weather", {{"city", "Rome"}}}, {"weather", Json::object()}}}));
  EXPECT_PROMPT_HAS("[SYSTEM_PROMPT]# HOW YOU SHOULD THINK AND ANSWER");
  EXPECT_PROMPT_HAS("[AVAILABLE_TOOLS][{");
  EXPECT_PROMPT_ENDS("[INST]Rome?[/INST]");
}

TEST_F(Ministral3, ThoughtsAreKeptInTheConversation) {
  model_writes("It is 21.");
  const Json system = {{"role", "system"}, {"content", "Be brief."}};
  ask({system, kAsked, called("Look."), kResult}, {{"tools", kTools}});
  EXPECT_PROMPT_HAS("[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT]");
  EXPECT_PROMPT_ENDS(
      "[INST]Rome?[/INST][THINK]Look.[/THINK][TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\", \"days\": 2}</s>"
      "[TOOL_RESULTS]21[/TOOL_RESULTS]");
  ask({kAsked, {{"role", "assistant"}, {"content", "Warm."}, {"reasoning_content", "So."}}, kAsked});
  EXPECT_PROMPT_ENDS("[THINK]So.[/THINK]Warm.</s>[INST]Rome?[/INST]");
}

// The template has no switch: the model may not begin a thought.
TEST_F(Ministral3, ThoughtsCanBeOff) {
  model_writes("Yes.");
  ask(Json::array({kAsked}));
  EXPECT_FALSE(engine_.last_request().thinking.budget);
  ask(Json::array({kAsked}), {{"enable_thinking", false}});
  EXPECT_EQ(engine_.last_request().thinking.budget, 0);
}

// ---------------------------------------------------------------- Gemma 3

// Its template has neither tools nor thoughts: the prompt teaches the calls.
TEST_F(Family, Gemma3CallsAsThePromptSays) {
  become("gemma3_like.jinja", {"<start_of_turn>", "<end_of_turn>"});
  model_writes(
      "Let me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>");
  EXPECT_EQ(ask(Json::array({kAsked}), {{"tools", kTools}}),
            (Told{"", "Let me see.", "tool_calls", {{"weather", {{"city", "Rome"}}}}}));
  EXPECT_PROMPT_HAS("<start_of_turn>user\nYou can call the tools listed here");
  ask({kAsked, called(""), kResult}, {{"tools", kTools}});
  EXPECT_PROMPT_ENDS(
      "<start_of_turn>model\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
      "{\"city\":\"Rome\",\"days\":2}}\n"
      "</tool_call><end_of_turn>\n<start_of_turn>user\n<tool_response>\n21\n</tool_response><end_of_turn>\n"
      "<start_of_turn>model\n");
}

// ---------------------------------------------------------------- GLM-4.6

// The model writes a line end before its thought, and before its calls.
TEST_F(Family, Glm46Thinks) {
  become("glm4.6.jinja", {"<|assistant|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>",
                          "</arg_key>", "<arg_value>", "</arg_value>"});
  const std::string call =
      "\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>";
  model_writes("\n<think>Hm.</think>\nYes.");
  for (const Json& more : {Json::object(), Json({{"tools", kTools}})}) {
    EXPECT_EQ(ask(Json::array({kAsked}), more), (Told{"Hm.", "Yes.", "stop", {}}));
    EXPECT_PROMPT_ENDS("<|assistant|>");
  }
  model_writes("\n<think>Hm.</think>" + call);
  EXPECT_EQ(ask(Json::array({kAsked}), {{"tools", kTools}}),
            (Told{"Hm.", "", "tool_calls", {{"weather", {{"city", "Rome"}}}}}));
  model_writes("\nYes.");
  EXPECT_EQ(ask(Json::array({kAsked}), {{"enable_thinking", false}}), (Told{"", "Yes.", "stop", {}}));
  EXPECT_PROMPT_ENDS("<think></think>");
  // The line end stands once where the turn is sent back.
  const Json said = {{"role", "assistant"}, {"content", "Yes."}};
  ask(Json::array({kAsked, said, kAsked}), {{"enable_thinking", false}});
  EXPECT_PROMPT_HAS("<think></think>\nYes.");
}

// ---------------------------------------------------------------- Tools that must not be called

// The prompt shows them all the same if calls can be forbidden.
TEST_F(Family, ForbiddenToolsStayInThePrompt) {
  const Json may = {{"tools", kTools}}, must_not = {{"tools", kTools}, {"tool_choice", "none"}};
  model_writes("Yes.");
  become("qwen3_coder.jinja", {"<tool_call>", "</tool_call>"});
  ask(Json::array({kAsked}), may);
  const std::string qwen = prompt();
  EXPECT_PROMPT_HAS("weather");
  ask(Json::array({kAsked}), must_not);
  EXPECT_EQ(prompt(), qwen);
  // Behind an ignored end nothing is watched.
  ask(Json::array({kAsked}), {{"tools", kTools}, {"tool_choice", "none"}, {"ignore_eos", true}});
  EXPECT_EQ(prompt().find("weather"), std::string::npos);
  // In harmony, a thought comes first: behind it the answer's header is written for the model.
  become("gpt_oss.jinja", {std::begin(kMessageMarks), std::end(kMessageMarks)});
  model_writes("<|channel|>final<|message|>Yes.");
  ask(Json::array({kAsked}), may);
  const std::string gpt = prompt();
  EXPECT_PROMPT_HAS("weather");
  ask(Json::array({kAsked}), must_not);
  EXPECT_EQ(prompt(), gpt + std::string(kThoughtOpen));
  EXPECT_EQ(engine_.last_request().thinking.calls, CallPolicy::none);
  // Calls that ordinary tokens spell cannot be forbidden.
  model_writes("Yes.");
  become("llama3.2_like.jinja", {"<|python_tag|>"});
  ask(Json::array({kAsked}), must_not);
  EXPECT_PROMPT_LACKS("weather");
}

// ---------------------------------------------------------------- Calls that are written with slips

TEST_F(Family, XmlCallsWithSlipsAreCalls) {
  become("qwen3_coder.jinja", {"<tool_call>", "</tool_call>"});
  const std::string begin = "So.\n<tool_call>\n<function=weather>\n<parameter=city>\nRome\n";
  for (const char* rest :
       {"<parameter=days>\n2\n</function>\n</tool_call>", "</parameter1>\n<parameter=days>\n2\n</tool_call>",
        "</parameter>\n<parameter=days>\n2\n</parameter>\n"}) {
    model_writes(begin + rest);
    EXPECT_EQ(ask(Json::array({kAsked}), {{"tools", kTools}}),
              (Told{"", "So.", "tool_calls", {{"weather", {{"city", "Rome"}, {"days", 2}}}}}))
        << rest;
  }
}

TEST_F(Family, JsonCallsWithSlipsAreCalls) {
  become("gemma3_like.jinja", {"<start_of_turn>", "<end_of_turn>"});
  model_writes(
      "So.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {'city': \"Rome\n\\d\", \"days\": 2,}}}\n"
      "</tool_call>");
  EXPECT_EQ(ask(Json::array({kAsked}), {{"tools", kTools}}),
            (Told{"", "So.", "tool_calls", {{"weather", {{"city", "Rome\n\\d"}, {"days", 2}}}}}));
}

}  // namespace
}  // namespace anabranch::server
