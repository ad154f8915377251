#include "chat/history_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "base/mapped_file.h"
#include "chat/tool_prompt.h"

namespace anabranch {
namespace {

std::shared_ptr<const ChatTemplate> parsed(const std::string& source) {
  auto chat = ChatTemplate::parse(source, "<s>", "</s>");
  CHECK(chat.ok(), "{}", chat.error().message);
  return *chat;
}

// A template as the server uses it: with a tool prompt if it needs one, and for any history.
struct Model {
  explicit Model(const std::string& source) : chat(parsed(source)) {
    if (!shows_tools(*chat)) tool_prompt = with_tool_prompt(*chat);
    fitted = with_fitted_history(raw());
  }
  const ChatTemplate& raw() const { return tool_prompt ? *tool_prompt : *chat; }

  std::shared_ptr<const ChatTemplate> chat;
  std::unique_ptr<const ChatTemplate> tool_prompt, fitted;
};

std::map<std::string, Model>& models() {
  static std::map<std::string, Model> all = [] {
    std::map<std::string, Model> found;
    for (const auto& file :
         std::filesystem::directory_iterator(ANABRANCH_SOURCE_DIR "/tests/jinja/data/templates")) {
      const std::string name = file.path().stem();
      if (file.path().extension() != ".jinja" || name == "constructs") continue;  // the latter is no model's
      found.emplace(name, *read_file(file.path().string(), 1u << 20));
    }
    return found;
  }();
  return all;
}

const Json kTools = parse_json(R"([{"type": "function", "function": {"name": "look", "description": "Looks",
    "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}}])")
                        .value();

Json message(const char* role, Json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

Json call(const std::string& id, Json arguments) {
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", "look"}, {"arguments", std::move(arguments)}}}};
}

Json result(const std::string& id, Json content) {
  Json out = message("tool", std::move(content));
  out["tool_call_id"] = id;
  return out;
}

// A history, and the words in it that a prompt must have, in order.
struct Talk {
  Json messages = Json::array();
  std::vector<std::string> words;
};

// Each letter is a message: S system, U user, A assistant, a assistant without a text, C D B messages with a
// call, two calls, a text and a call, c a call with cut arguments, T a result of the oldest call without one,
// t a result whose call nobody knows. Words are W0W, W1W, ...; ids have OpenAI's form.
Talk talk(const std::string& letters) {
  Talk out;
  int ids = 0, open = 0;
  const auto word = [&] { return out.words.emplace_back(fmt::format("W{}W", out.words.size())); };
  const auto id = [](int number) { return fmt::format("call_{}Qk3v0aXw9TnB27LmYzRc", number); };
  const auto add_calls = [&](std::vector<Json> arguments, std::string text) {
    Json& answer = out.messages.emplace_back(message("assistant", std::move(text)));
    open = ids;
    for (Json& one : arguments) answer["tool_calls"].push_back(call(id(ids++), std::move(one)));
  };
  const auto object = [&] { return Json{{"key", word()}}; };
  for (const char letter : letters) switch (letter) {
      case 'S':
        out.messages.push_back(message("system", word()));
        break;
      case 'U':
        out.messages.push_back(message("user", word()));
        break;
      case 'A':
        out.messages.push_back(message("assistant", word()));
        break;
      case 'a':
        out.messages.push_back(message("assistant", ""));
        break;
      case 'C':
        add_calls({object()}, "");
        break;
      case 'D': {
        const Json first = object();
        add_calls({first, object()}, "");
        break;
      }
      case 'B': {
        const std::string text = word();
        add_calls({object()}, text);
        break;
      }
      case 'c':
        add_calls({"{\"key\": \"" + word()}, "");
        break;
      case 'T':
        out.messages.push_back(result(id(open++), word()));
        break;
      default:
        out.messages.push_back(result("toolu_unknown", word()));
    }
  return out;
}

std::string rendered(const ChatTemplate& chat, const Json& messages, const Json& tools = nullptr) {
  TemplateOptions options;
  options.now = 0;
  const auto pieces = chat.render(messages, tools, options);
  return pieces.ok() ? join(*pieces) : "error: " + pieces.error().message;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) found++;
  return found;
}

bool in_order(const std::string& text, const std::vector<std::string>& words) {
  return std::ranges::is_sorted(words, {}, [&](const std::string& word) { return text.find(word); });
}

// What is wrong with a prompt; empty: nothing.
std::string fault(const std::string& prompt, const Talk& talk, bool ordered) {
  if (prompt.starts_with("error: ")) return prompt;
  for (const std::string& word : talk.words)
    if (count(prompt, word) != 1) return fmt::format("{} is there {} times", word, count(prompt, word));
  return ordered && !in_order(prompt, talk.words) ? "not in order" : "";
}

// Histories that agents send: of each kind, and in their normal form.
const std::vector<std::string> kTalks = {
    "U",     "SU",     "SUAU",   "UCT",     "SUCTAU",  "UDTT", "UBTAU",  // normal
    "SUASU", "SSU",    "SSSUAU", "SUAS",    "SUS",     "US",   "SUSAU", "SUCTS",  "SUCTSAU", "SUASSU",
    "SUCST", "USASA",  "S",      "SS",      "A",       "SA",   "AU",    "SAU",    "CT",      "SCT",
    "SCTCT", "SCTA",   "CTU",    "SSCT",    "a",       "Sa",   "",      "UcTU",   "SUcT",    "UcTAUcT",
    "UCTU",  "UCTUAU", "UU",     "UUU",     "UAAU",    "UAA",  "UDTTU", "UDTTAU", "UDTDTAU", "UCU",
    "UCUAU", "UACTAU", "UACT",   "UBTBTAU", "UCCTTAU", "UaU",  "UAUU",  "UBT",    "UAaAU",   "UCAU",
    "Ut",    "UtAU",   "UAtAU",  "UCTtAU",  "tU",      "t",    "UCTUt", "StAU"};

TEST(HistoryFit, EveryTemplateTakesEveryHistory) {
  ASSERT_GE(models().size(), 18u);
  for (const auto& [name, model] : models())
    for (const std::string& letters : kTalks)
      for (const bool tools : {false, true}) {
        const Talk given = talk(letters);
        // Gemma 4 writes an answer's text behind the results of its calls, Llama each call before its result,
        // and Mistral the system prompt before the last question.
        const bool ordered = letters.find_first_of("BD") == letters.npos &&
                             (letters[0] != 'S' || !name.starts_with("mistral"));
        const std::string prompt = rendered(*model.fitted, given.messages, tools ? kTools : Json());
        EXPECT_EQ(fault(prompt, given, ordered), "") << name << " " << letters << "\n" << prompt;
      }
}

TEST(HistoryFit, LosesNothingOfRandomHistories) {
  const std::string letters = "SUUAaCDBcTTTt";
  std::mt19937 random(1);
  for (const auto& [name, model] : models())
    for (int i = 0; i < 60; i++) {
      std::string shape;
      for (size_t n = 1 + random() % 8; n > 0; n--) shape += letters[random() % letters.size()];
      const Talk given = talk(shape);
      const std::string prompt = rendered(*model.fitted, given.messages, random() % 2 ? kTools : Json());
      EXPECT_EQ(fault(prompt, given, false), "") << name << " " << shape << "\n" << prompt;
    }
}

TEST(HistoryFit, ChangesNothingThatATemplateTakes) {
  int same = 0;
  for (const auto& [name, model] : models())
    for (const std::string& letters : kTalks) {
      const Talk given = talk(letters);
      const std::string raw = rendered(model.raw(), given.messages, kTools);
      if (fault(raw, given, true) != "") continue;
      EXPECT_EQ(rendered(*model.fitted, given.messages, kTools), raw) << name << " " << letters;
      same++;
    }
  EXPECT_GT(same, 400);
  // Some take late system messages, where they stand.
  for (const char* name : {"anabranch_hybrid", "qwen3_coder", "llama3_like", "qwen3", "smollm2_like"})
    for (const char* letters : {"SUASU", "SSU", "SUAS", "SUSAU", "SUCTSAU"}) {
      const Json messages = talk(letters).messages;
      const std::string raw = rendered(models().at(name).raw(), messages);
      EXPECT_EQ(rendered(*models().at(name).fitted, messages), raw) << name << " " << letters;
      EXPECT_FALSE(raw.starts_with("error")) << raw;
    }
}

TEST(HistoryFit, LateInstructionsBeginTheNextUserMessage) {
  const ChatTemplate& chat = *models().at("qwen3.5").fitted;
  EXPECT_TRUE(
      rendered(chat, talk("SUASU").messages)
          .starts_with("<|im_start|>system\nW0W<|im_end|>\n<|im_start|>user\nW1W<|im_end|>\n"
                       "<|im_start|>assistant\nW2W<|im_end|>\n<|im_start|>user\nW3W\n\nW4W<|im_end|>\n"));
  EXPECT_TRUE(
      rendered(chat, talk("SSSU").messages).starts_with("<|im_start|>system\nW0W\n\nW1W\n\nW2W<|im_end|>"));
  const std::string behind = rendered(chat, talk("SUCTS").messages);
  EXPECT_NE(behind.find("W3W\n</tool_response><|im_end|>\n<|im_start|>user\nW4W<|im_end|>"), behind.npos)
      << behind;
  // Never between a call and its result.
  const std::string between = rendered(chat, talk("UCST").messages);
  EXPECT_NE(between.find("<tool_response>\nW2W\n\nW3W\n</tool_response>"), between.npos) << between;
}

// The prompt up to a late message stays as it was, so that cached states still match.
TEST(HistoryFit, KeepsTheBeginningOfThePrompt) {
  for (const char* name : {"qwen3.5", "ministral3_reasoning", "smollm3", "gemma3_like", "gemma2_like"}) {
    const ChatTemplate& chat = *models().at(name).fitted;
    TemplateOptions options;
    options.now = 0;
    options.add_generation_prompt = false;
    const auto text = [&](const char* letters) {
      return join(*chat.render(talk(letters).messages, Json(), options));
    };
    EXPECT_TRUE(text("SUAUASU").starts_with(text("SUAU"))) << name;
  }
}

TEST(HistoryFit, AnEmptyQuestionStandsBeforeWhatNobodyAsked) {
  const ChatTemplate& chat = *models().at("qwen3.5").fitted;
  for (const char* letters : {"SCT", "SA"})
    EXPECT_TRUE(rendered(chat, talk(letters).messages)
                    .starts_with("<|im_start|>system\nW0W<|im_end|>\n<|im_start|>user\n<|im_end|>\n"
                                 "<|im_start|>assistant\n"))
        << letters;
  EXPECT_TRUE(rendered(chat, talk("CT").messages).starts_with("<|im_start|>user\n<|im_end|>\n"));
}

TEST(HistoryFit, TemplatesWithoutASystemRole) {
  const std::string prompt = rendered(*models().at("gemma2_like").fitted, talk("SSUASU").messages);
  EXPECT_EQ(prompt,
            "<s><start_of_turn>user\nW0W\n\nW1W\n\nW2W<end_of_turn>\n<start_of_turn>model\nW3W<end_of_turn>\n"
            "<start_of_turn>user\nW4W\n\nW5W<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(rendered(*models().at("gemma2_like").fitted, talk("S").messages),
            "<s><start_of_turn>user\nW0W<end_of_turn>\n<start_of_turn>model\n");
}

TEST(HistoryFit, NeighboursOfOneRoleBecomeOneMessage) {
  const std::string prompt = rendered(*models().at("ministral3_reasoning").fitted, talk("UUAAU").messages);
  EXPECT_TRUE(prompt.ends_with("[INST]W0W\n\nW1W[/INST]W2W\n\nW3W</s>[INST]W4W[/INST]")) << prompt;
  const std::string after = rendered(*models().at("ministral3_reasoning").fitted, talk("UCTU").messages);
  EXPECT_TRUE(after.ends_with("[TOOL_RESULTS]W2W[/TOOL_RESULTS]</s>[INST]W3W[/INST]")) << after;
}

TEST(HistoryFit, ThoughtsOfJoinedAnswersStay) {
  TemplateTraits traits;
  Json first = message("assistant", "one"), second = message("assistant", "two"),
       third = message("assistant", "");
  first["reasoning_content"] = "hm";
  second["reasoning_content"] = "oh";
  third["tool_calls"] = Json::array({call("c", Json::object())});
  traits.calls = traits.object_arguments = traits.text_with_calls = true;
  const Json out = fit_history(Json::array({message("user", "q"), first, second, third}), traits);
  ASSERT_EQ(out.size(), 2u) << out;
  EXPECT_EQ(out[1]["content"], "one\n\ntwo");
  EXPECT_EQ(out[1]["reasoning_content"], "hm\n\noh");
  EXPECT_EQ(out[1]["tool_calls"].size(), 1u);
}

// Templates leave out what stands before a thought's closing tag.
TEST(HistoryFit, ThoughtsWithinJoinedTextsTakeNothingWithThem) {
  const Model model(
      "{% for m in messages %}{% if m.role == 'assistant' and loop.index0 > 0 and messages[loop.index0 - "
      "1].role"
      " == 'assistant' %}{{ raise_exception('two answers') }}{% endif %}<{{ m.role }}>"
      "{{ m.content.split('</think>')[-1] }}{% endfor %}");
  for (const Json& second : {Json("<think>\nTHOUGHT\n</think>\n\nSECOND"), Json("THOUGHT</think>SECOND"),
                             Json::array({{{"type", "text"}, {"text", "THOUGHT\n</think>\nSECOND"}}})}) {
    const Json messages =
        Json::array({message("user", "ASKED"), message("assistant", "FIRST"), message("assistant", second),
                     message("assistant", "THIRD"), message("user", "AGAIN")});
    EXPECT_EQ(rendered(*model.fitted, messages), "<user>ASKED<assistant>FIRST\n\nSECOND\n\nTHIRD<user>AGAIN");
  }
}

TEST(HistoryFit, AMentionOfAThoughtsEndIsNoThought) {
  TemplateTraits traits;
  traits.two_answers = false;
  for (const char* second : {"Close it with `</think>`, then go on.", "Behind \"</think>\" it ends."}) {
    const Json out = fit_history(
        Json::array({message("user", "q"), message("assistant", "one"), message("assistant", second)}),
        traits);
    EXPECT_EQ(out.back()["content"], std::string("one\n\n") + second);
    EXPECT_FALSE(out.back().contains("reasoning_content"));
  }
}

TEST(HistoryFit, ImagesKeepTheirPlaces) {
  const Json image = {{"type", "image"}};
  const auto text = [](const char* words) { return Json{{"type", "text"}, {"text", words}}; };
  const Json out = fit_history(
      Json::array({message("user", Json::array({text("a"), image, text("b")})), message("user", "c"),
                   message("system", "d"), message("user", Json::array({image, text("e")}))}),
      {});
  ASSERT_EQ(out.size(), 1u) << out;
  EXPECT_EQ(out[0]["content"], Json::array({text("a"), image, text("b\n\nc\n\nd\n\n"), image, text("e")}));
}

TEST(HistoryFit, BrokenArgumentsAreShown) {
  struct Case {
    Json arguments;
    const char* shown;  // as Qwen3.5 writes parameters
  };
  const Case cases[] = {
      {R"({"key": "cut)", "<parameter=arguments>\n{\"key\": \"cut\n</parameter>"},
      {R"(["x"])", "<parameter=arguments>\n[\"x\"]\n</parameter>"},
      {"5", "<parameter=arguments>\n5\n</parameter>"},
      {"no JSON", "<parameter=arguments>\nno JSON\n</parameter>"},
      {R"({"key": 1}{"key": 2})", "<parameter=arguments>\n{\"key\": 1}{\"key\": 2}\n</parameter>"},
      {"{\"key\": \"a\nb\"}", "<parameter=key>\na\nb\n</parameter>"},
      {R"("{\"key\": \"twice\"}")", "<parameter=key>\ntwice\n</parameter>"},
      {Json::array({1, 2}), "<parameter=arguments>\n[1,2]\n</parameter>"},
      {nullptr, "<function=look>\n</function>"},
      {" ", "<function=look>\n</function>"},
      {"{}", "<function=look>\n</function>"},
  };
  for (const char* name : {"qwen3.5", "qwen3_coder", "anabranch_hybrid"})
    for (const Case& one : cases) {
      Json messages = talk("UCTU").messages;
      messages[1]["tool_calls"][0]["function"]["arguments"] = one.arguments;
      const std::string prompt = rendered(*models().at(name).fitted, messages, kTools);
      EXPECT_NE(prompt.find(one.shown), prompt.npos) << name << " " << one.arguments << "\n" << prompt;
    }
  // A template that writes any text keeps it.
  Json messages = talk("UCTU").messages;
  messages[1]["tool_calls"][0]["function"]["arguments"] = R"({"key": "cut)";
  const std::string prompt = rendered(*models().at("qwen3").fitted, messages, kTools);
  EXPECT_NE(prompt.find(R"("arguments": {"key": "cut})"), prompt.npos) << prompt;
}

// The texts between two others, in order.
std::vector<std::string> between(const std::string& text, const std::string& begin, const std::string& end) {
  std::vector<std::string> found;
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    found.push_back(text.substr(at, text.find(end, at) - at));
  }
  return found;
}

TEST(HistoryFit, IdsOfMistralHaveNineLettersAndDigits) {
  const Json messages = Json::array(
      {message("user", "q"),
       {{"role", "assistant"},
        {"content", ""},
        {"tool_calls", Json::array({call("toolu_01A", {{"key", "a"}}), call("", {{"key", "b"}}),
                                    call("call_0", {{"key", "c"}}), call("abcDEF123", {{"key", "d"}})})}},
       result("toolu_01A", "1"),
       result("", "2"),
       result("call_0", "3"),
       result("abcDEF123", "4"),
       message("assistant", "A"),
       message("user", "q"),
       {{"role", "assistant"},
        {"content", ""},
        {"tool_calls", Json::array({call("call_0", {{"key", "e"}})})}},
       result("call_0", "5")});
  const std::string prompt = rendered(*models().at("mistral_nemo").fitted, messages);
  const auto calls = between(prompt, "\"id\": \"", "\""), results = between(prompt, "\"call_id\": \"", "\"");
  ASSERT_EQ(calls.size(), 5u) << prompt;
  EXPECT_EQ(calls, results);
  EXPECT_EQ(calls[3], "abcDEF123");
  for (const std::string& id : calls) {
    EXPECT_EQ(id.size(), 9u);
    EXPECT_TRUE(std::ranges::all_of(id, [](unsigned char c) { return std::isalnum(c); })) << id;
    EXPECT_EQ(std::ranges::count(calls, id), 1) << id;
  }
  // Later messages change no earlier id.
  Json fewer = messages;
  fewer.erase(fewer.begin() + 6, fewer.end());
  EXPECT_EQ(between(rendered(*models().at("mistral_nemo").fitted, fewer), "\"id\": \"", "\""),
            std::vector<std::string>(calls.begin(), calls.begin() + 4));
}

TEST(HistoryFit, SeveralCallsBecomeTurnsOfOne) {
  Json messages = talk("UDTTU").messages;
  std::swap(messages[2], messages[3]);  // the results in the other order
  const std::string prompt = rendered(*models().at("llama3.2_like").fitted, messages);
  const auto turns = between(prompt, "<|end_header_id|>\n\n", "<|eot_id|>");
  ASSERT_EQ(turns.size(), 8u) << prompt;
  EXPECT_EQ(turns[2], R"({"name": "look", "parameters": {"key": "W1W"}})");
  EXPECT_EQ(turns[3], "\"W3W\"");
  EXPECT_EQ(turns[4], R"({"name": "look", "parameters": {"key": "W2W"}})");
  EXPECT_EQ(turns[5], "\"W4W\"");
}

// gpt-oss' template leaves out the text beside a call when an answer follows. Such a text becomes an answer
// of its own; beside the calls of the last turn it stays part of the thought.
TEST(HistoryFit, ThoughtsOfTheLastCallsStay) {
  Json messages = talk("UBTAUBTBT").messages;
  for (const size_t at : {1, 5, 7}) messages[at]["reasoning_content"] = fmt::format("Thought {}.", at);
  const std::string prompt = rendered(*models().at("gpt_oss").fitted, messages, kTools);
  const std::string thought = "<|start|>assistant<|channel|>analysis<|message|>";
  EXPECT_EQ(count(prompt, "<|channel|>final<|message|>W1W<|end|><|start|>assistant to=functions.look"), 1)
      << prompt;
  EXPECT_EQ(count(prompt, thought + "Thought 5.\n\nW6W<|end|><|start|>assistant to=functions.look"), 1)
      << prompt;
  EXPECT_EQ(count(prompt, thought + "Thought 7.\n\nW9W<|end|><|start|>assistant to=functions.look"), 1)
      << prompt;
  EXPECT_EQ(count(prompt, "Thought 1."), 0) << "an answer followed";
}

// A template that writes neither calls nor arguments as objects.
TEST(HistoryFit, CallsAsTheTemplateTakesThem) {
  const std::string plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}";
  const Model text(plain +
                   "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments }}{% endfor %}"
                   "{% endfor %}{{ tools }}");
  EXPECT_TRUE(rendered(*text.fitted, talk("UCTU").messages)
                  .starts_with("<user>W0W<assistant>look{\"key\":\"W1W\"}<tool>W2W<user>W3W"));
  const Model silent(plain + "{% endfor %}{{ tools }}");
  EXPECT_TRUE(rendered(*silent.fitted, talk("UCTU").messages)
                  .starts_with("<user>W0W<assistant><tool_call>\n{\"name\": \"look\", \"arguments\": "
                               "{\"key\":\"W1W\"}}\n</tool_call><tool>W2W<user>W3W"));
}

TEST(HistoryFit, FindsTextsThatATemplateLeavesOut) {
  // A short text may stand in a prompt by chance, as "user" does in every prompt of this template.
  const Model late(
      "{% for m in messages %}{% if m.role != 'system' or loop.first %}<{{ m.role }}>{{ m.content }}"
      "{% endif %}{% endfor %}");
  const Json messages = Json::array({message("user", "first"), message("assistant", "second"),
                                     message("system", "user"), message("user", "third")});
  EXPECT_EQ(rendered(*late.fitted, messages), "<user>first<assistant>second<user>user\n\nthird");
}

TEST(HistoryFit, ErrorsOfATemplateStay) {
  const Model broken("{{ raise_exception('never') }}");
  EXPECT_EQ(rendered(*broken.fitted, talk("SUAU").messages), "error: never");
  const Model picky(
      "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this') }}{% endif %}"
      "{{ m.content }}{% endfor %}");
  EXPECT_EQ(rendered(*picky.fitted, Json::array({message("user", "no")})), "error: not this");
  EXPECT_EQ(rendered(*picky.fitted, Json::array({message("user", "yes")})), "yes");
  EXPECT_TRUE(rendered(*picky.fitted, "text").starts_with("error: "));
  EXPECT_TRUE(rendered(*picky.fitted, Json::array({3})).starts_with("error: "));
}

}  // namespace
}  // namespace anabranch
