// Calls that a model opens by itself name one of the request's tools.
#include "decode/call_names.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <set>

#include "fake_tokenizer.h"
#include "output/message_reader.h"
#include "output/output_text.h"
#include "tools_named.h"

namespace anabranch {
namespace {

// A model of a form, its request's tools, and the answer so far.
struct Answer {
  Answer(ToolFormat form, std::vector<std::string> marks, std::vector<std::string> names) {
    tokenizer.tags.texts = std::move(marks);
    rules.format.tools = form;
    rules.tools = std::make_shared<const Json>(tools_named(names));
    if (form == ToolFormat::messages) rules.format.reasoning = find_reasoning_tags(tokenizer);
    by_byte = TokensByByte(tokenizer, kFakeVocab);
    restart();
  }
  void restart() {
    control.emplace(think, ThinkRules{});
    calls.emplace(tokenizer, by_byte, rules, *control);
    written.clear();
  }
  void take(int token) {
    ASSERT_TRUE(calls->allows(token))
        << tokenizer.decode(written, false) << " + " << tokenizer.token_bytes(token);
    EXPECT_EQ(calls->accept(token, control->accept(token)), Ending::none);
    written.push_back(token);
  }
  // Takes the text's tokens up to the first that is refused.
  bool write(std::string_view text) {
    for (const int token : tokenizer.tokens_of(text)) {
      if (!calls->allows(token)) return false;
      take(token);
    }
    return true;
  }
  // Takes random tokens until the call's name is complete. Returns false if it never is.
  bool finish_name(std::mt19937& random) {
    for (int i = 0; i < 200; i++) {
      if (!calls->masks()) return true;
      std::vector<float> logits(kFakeVocab, 0);
      calls->mask(logits);
      std::vector<int> allowed;
      for (int token = 0; token < kFakeVocab; token++) {
        const bool kept = logits[static_cast<size_t>(token)] > -std::numeric_limits<float>::infinity();
        EXPECT_EQ(kept, calls->allows(token)) << token;
        if (kept) allowed.push_back(token);
      }
      if (allowed.empty()) return false;
      take(allowed[random() % allowed.size()]);
    }
    return false;
  }
  ParsedOutput parsed() const {
    OutputText text(tokenizer, {}, rules);
    ParsedOutput out;
    for (const OutputEvent& event : text.push(written)) out.add(event);
    for (const OutputEvent& event : text.finish()) out.add(event);
    return out;
  }

  FakeTokenizer tokenizer;
  TokensByByte by_byte;
  OutputRules rules;
  ThinkTokens think;
  std::optional<ThinkControl> control;
  std::optional<CallNames> calls;
  std::vector<int> written;
};

const std::vector<std::string> kNames = {"get", "get_time", "get-weather", "zip"};

const std::vector<std::string> kMarks(std::begin(kMessageMarks), std::end(kMessageMarks));

struct Form {
  ToolFormat form;
  std::vector<std::string> marks;
  std::string begin, wrong, right,
      closer;  // the opener, a call of an unknown function, one of `get`, what ends both
};

std::vector<Form> forms() {
  return {
      {ToolFormat::tagged,
       {"<tool_call>", "</tool_call>"},
       "<tool_call>",
       "\n{\"name\": \"gets\"",
       "\n{\"name\": \"get\"",
       "</tool_call>"},
      {ToolFormat::tagged,
       {"<tool_call>", "</tool_call>", "=get", "<function"},
       "<tool_call>",
       "\n<function=gets>",
       "\n<function=get>",
       "</tool_call>"},
      {ToolFormat::tagged, {"=get", "=sum", "<function"}, "Let me see.\n<function=", "sum>", "get>", ""},
      {ToolFormat::tagged,
       {},
       "<tool_call>",
       "\n{\"name\" : \"time\"",
       "\n{\"name\" : \"get\"",
       "</tool_call>"},
      {ToolFormat::plain,
       {"<|python_tag|>"},
       "<|python_tag|>",
       "{\"name\": \"ge\"",
       "{\"type\": \"function\", \"name\": \"get\"",
       ""},
      {ToolFormat::mistral,
       {"[TOOL_CALLS]"},
       "[TOOL_CALLS]",
       "[{\"name\": \"got\"",
       "[{\"name\": \"get\"",
       ""},
      {ToolFormat::mistral,
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
       "[TOOL_CALLS]",
       "get_tim[ARGS]",
       "get[ARGS]",
       ""},
      {ToolFormat::gemma4,
       {"<|tool_call>", "<tool_call|>", "<|\"|>"},
       "<|tool_call>",
       "call:gett{",
       "call:get{",
       "<tool_call|>"},
      {ToolFormat::function_gemma,
       {"<start_function_call>", "<end_function_call>"},
       "<start_function_call>",
       "call:x{",
       "call:get{",
       "<end_function_call>"},
      {ToolFormat::key_tags,
       {"<tool_call>", "<arg_key>"},
       "<tool_call>",
       "get_tim<arg_key>",
       "get<arg_key>",
       "</tool_call>"},
      {ToolFormat::messages, kMarks, "<|channel|>commentary to=", "functions.gets<|message|>",
       "functions.get<|message|>", "<|call|>"},
      {ToolFormat::messages, kMarks, "<|channel|>analysis to=", "time <|constrain|>",
       "get <|constrain|>json<|message|>", "<|call|>"},
      {ToolFormat::messages, kMarks, " to=", "functions.zipper<|channel|>", "functions.get<|channel|>",
       "<|call|>"},
      {ToolFormat::minimax,
       {"<minimax:tool_call>", "</minimax:tool_call>"},
       "<minimax:tool_call>",
       "\n<invoke name=\"gets\">",
       "\n<invoke name=\"get\">",
       "</minimax:tool_call>"},
      {ToolFormat::python,
       {"<|tool_call_start|>", "<|tool_call_end|>"},
       "<|tool_call_start|>",
       "[gets(",
       "[get(",
       "<|tool_call_end|>"},
      {ToolFormat::actions,
       {"<|START_ACTION|>", "<|END_ACTION|>"},
       "<|START_ACTION|>",
       "[\n {\"tool_call_id\": \"0\", \"tool_name\": \"gets\"",
       "[\n {\"tool_call_id\": \"0\", \"tool_name\": \"get\"",
       "<|END_ACTION|>"},
      {ToolFormat::kimi,
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
        "<|tool_call_end|>", "<|tool_calls_section_end|>"},
       "<|tool_calls_section_begin|>",
       "<|tool_call_begin|>functions.gets:",
       "<|tool_call_begin|>functions.get:",
       "<|tool_call_end|><|tool_calls_section_end|>"},
      {ToolFormat::deepseek,
       {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"},
       "<｜tool▁calls▁begin｜>",
       "<｜tool▁call▁begin｜>gets<｜tool▁sep｜>",
       "<｜tool▁call▁begin｜>get<｜tool▁sep｜>",
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolFormat::solar,
       {"<|tool_calls|>", "<|calls|>"},
       "<|tool_calls|>",
       "<|tool_call:begin|>x9<|tool_call:name|>gets<|tool_call:args|>",
       "<|tool_call:begin|>x9<|tool_call:name|>get<|tool_call:args|>",
       "<|tool_call:end|><|calls|>"},
      {ToolFormat::dsml,
       {"｜DSML｜"},
       "<｜DSML｜tool_calls>",
       "\n<｜DSML｜invoke name=\"gets\">",
       "\n<｜DSML｜invoke name=\"get\">",
       "</｜DSML｜tool_calls>"},
      {ToolFormat::dsml_functions,
       {},
       "<｜DSML｜function_calls>",
       "\n<｜DSML｜invoke name=\"gets\">",
       "\n<｜DSML｜invoke name=\"get\">",
       "</｜DSML｜function_calls>"},
  };
}

// The arguments {"x": 1} behind a call's beginning, as its last byte demands them, and the end of the call.
std::string arguments_behind(const Form& form, const std::string& text) {
  if (form.form == ToolFormat::messages)
    return (text.ends_with("<|message|>") ? "" : "<|message|>") + std::string("{\"x\": 1}") + form.closer;
  const std::string list = text.find('[', text.find(form.begin) + form.begin.size()) != text.npos ? "]" : "";
  if (name_tags(form.form))
    return (form.form == ToolFormat::kimi ? "0<|tool_call_argument_begin|>" : "") +
           std::string("{\"x\": 1}") + form.closer;
  if (form.form == ToolFormat::dsml || form.form == ToolFormat::dsml_functions)
    return "\n<｜DSML｜parameter name=\"x\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n" +
           form.closer;
  if (form.form == ToolFormat::minimax)
    return "\n<parameter name=\"x\">1</parameter>\n</invoke>\n" + form.closer;
  if (form.form == ToolFormat::key_tags)
    return (text.ends_with('\n') ? "<arg_key>" : "") + ("x</arg_key><arg_value>1</arg_value>" + form.closer);
  if (text.ends_with('(')) return "x=1)" + list + form.closer;
  if (text.ends_with('>')) return "\n<parameter=x>\n1\n</parameter>\n</function>\n" + form.closer;
  if (text.ends_with('"'))
    return std::string(form.form == ToolFormat::plain ? ", \"parameters\"" : ", \"arguments\"") +
           ": {\"x\": 1}}" + list + form.closer;
  if (text.ends_with("[CALL_ID]")) return "a1[ARGS]{\"x\": 1}";
  if (text.ends_with(']')) return "{\"x\": 1}";
  return (form.form == ToolFormat::mistral ? "\"x\": 1}" : "x:1}") + form.closer;
}

TEST(CallNames, ACallNamesAToolOfTheRequest) {
  const std::set<std::string> known(kNames.begin(), kNames.end());
  std::mt19937 random(1);
  for (const Form& form : forms()) {
    Answer answer(form.form, form.marks, kNames);
    EXPECT_FALSE(answer.write(form.begin + form.wrong)) << form.wrong << " is no tool";
    std::set<std::string> called;
    for (int i = 0; i < 300; i++) {
      answer.restart();
      if (i == 0) {
        EXPECT_TRUE(answer.write(form.begin + form.right)) << form.right << " is a tool";
      } else {  // the model breaks off at any place of the name that it wants
        answer.write(form.begin);
        const auto wish = answer.tokenizer.tokens_of(form.wrong);
        for (const int token : std::span(wish).first(random() % (wish.size() + 1)))
          if (answer.calls->allows(token)) answer.take(token);
        if (!answer.calls->masks()) continue;  // text, not a call
      }
      ASSERT_TRUE(answer.finish_name(random)) << answer.tokenizer.decode(answer.written, false);
      const std::string text = answer.tokenizer.decode(answer.written, false);
      const bool ended = form.form == ToolFormat::key_tags && text.ends_with(form.closer);
      ASSERT_TRUE(ended || answer.write(arguments_behind(form, text))) << text;
      const auto calls = answer.parsed().calls;
      ASSERT_EQ(calls.size(), 1u) << answer.tokenizer.decode(answer.written, false);
      EXPECT_EQ(parse_json(calls[0].arguments).value(), ended ? Json::object() : Json({{"x", 1}}))
          << answer.tokenizer.decode(answer.written, false);
      EXPECT_TRUE(i > 0 || calls[0].name == "get") << calls[0].name;
      called.insert(calls[0].name);
    }
    EXPECT_EQ(called, known) << form.begin << form.right;
  }
}

// A block may have several calls.
TEST(CallNames, FurtherCallsOfABlockNameToolsToo) {
  const struct {
    ToolFormat form;
    std::vector<std::string> marks;
    std::string before;  // the opener, a call, and what separates it from the next one
    std::string name, behind;
    std::string arguments = "x";  // a text in the first call that looks like another one
  } cases[] = {
      {ToolFormat::minimax,
       {"<minimax:tool_call>", "</minimax:tool_call>"},
       "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"x\">ARG</parameter>\n</invoke>\n",
       "<invoke name=\"N\">",
       "</invoke>\n</minimax:tool_call>",
       "</invoke>\n<invoke name=\"nothing\">"},
      {ToolFormat::minimax,
       {},
       "<minimax:tool_call><invoke name=\"get\">\n</invoke>",
       "<invoke name=\"N\">",
       "</invoke></minimax:tool_call>"},
      {ToolFormat::seed,
       {"<seed:tool_call>", "</seed:tool_call>"},
       "<seed:tool_call>\n<function=get>\n<parameter=x>ARG</parameter>\n</function>\n",
       "<function=N>",
       "\n</function>\n</seed:tool_call>"},
      {ToolFormat::python,
       {"<|tool_call_start|>", "<|tool_call_end|>"},
       "<|tool_call_start|>[get(x=\"ARG\"), ",
       "N(",
       ")]<|tool_call_end|>",
       "b), nothing(c=1"},
      {ToolFormat::python,
       {"<|tool_call_start|>"},
       "<|tool_call_start|>[{\"name\": \"get\", \"arguments\": {\"x\": \"ARG\"}}, ",
       "{\"name\": \"N\"",
       ", \"arguments\": {}}]",
       "}, {\\\"name\\\": \\\"nothing\\\""},
      {ToolFormat::lines,
       {"<function_calls>"},
       "<function_calls>get(x=\"ARG\")\n",
       "N(",
       ")</function_calls>",
       "b) nothing(c"},
      {ToolFormat::kimi,
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"},
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>"
       "{\"x\": \"ARG\"}<|tool_call_end|>",
       "<|tool_call_begin|>functions.N:",
       "1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
       "<|tool_call_begin|>functions.nothing:1"},
      {ToolFormat::deepseek_json,
       {"<｜tool▁calls▁begin｜>"},
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{}\n```<"
       "｜tool▁call▁end｜>\n",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>N\n```json\n",
       "{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolFormat::actions,
       {"<|START_ACTION|>"},
       "<|START_ACTION|>[{\"tool_name\": \"get\", \"parameters\": {\"x\": \"ARG\"}},\n",
       "{\"tool_call_id\": \"1\", \"tool_name\": \"N\"",
       ", \"parameters\": {}}]<|END_ACTION|>",
       "}}, {"},
      {ToolFormat::listed,
       {"<|tool_call|>"},
       "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"x\": \"ARG\"}},",
       "{\"name\": \"N\"",
       ", \"arguments\": {}}]",
       "}}, {"},
      {ToolFormat::mistral,
       {"[TOOL_CALLS]"},
       "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"x\": [{}, {}]}}, ",
       "{\"name\": \"N\"",
       ", \"arguments\": {}}]"},
      {ToolFormat::tagged,
       {"<tool_call>", "</tool_call>"},
       "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"x\": \"ARG\"}}\n",
       "{\"name\": \"N\"",
       ", \"arguments\": {}}\n</tool_call>",
       "}\n{"},
      {ToolFormat::tagged,
       {"<tool_call>", "</tool_call>"},
       "<tool_call>\n<function=get>\n<parameter=x>\nARG\n</parameter>\n</function>\n",
       "<function=N>",
       "\n</function>\n</tool_call>",
       "<function=nothing>\n</function>"},
  };
  for (const auto& c : cases) {
    const auto with = [](std::string text, const std::string& sign, const std::string& by) {
      if (const size_t at = text.find(sign); at != text.npos) text.replace(at, sign.size(), by);
      return text;
    };
    Answer answer(c.form, c.marks, kNames);
    const std::string before = with(c.before, "ARG", c.arguments);
    for (const char* wrong : {"gets", "nothing"}) {
      answer.restart();
      ASSERT_TRUE(answer.write(before)) << before;
      EXPECT_FALSE(answer.write(with(c.name, "N", wrong))) << before << wrong;
      EXPECT_TRUE(answer.calls->masks()) << before;
    }
    answer.restart();
    const std::string whole = before + with(c.name, "N", "zip") + c.behind;
    EXPECT_EQ(answer.calls->fitting(answer.tokenizer.tokens_of(whole)),
              answer.tokenizer.tokens_of(whole).size());
    ASSERT_TRUE(answer.write(whole)) << whole;
    const auto calls = answer.parsed().calls;
    ASSERT_EQ(calls.size(), 2u) << whole;
    EXPECT_EQ(calls[1].name, "zip") << whole;
    answer.restart();
    const std::string bad = before + with(c.name, "N", "nothing") + c.behind;
    EXPECT_LT(answer.calls->fitting(answer.tokenizer.tokens_of(bad)), answer.tokenizer.tokens_of(bad).size());
    // The model breaks off where it pleases, and gets one of the names.
    std::mt19937 random(2);
    answer.restart();
    ASSERT_TRUE(answer.write(before + c.name.substr(0, c.name.find('N'))));
    ASSERT_TRUE(answer.finish_name(random));
  }
}

// Behind the longest call that is read, the rest of it is text, and another call may begin.
TEST(CallNames, ACallThatIsTooLongIsText) {
  Answer answer(ToolFormat::minimax, {}, kNames);
  const std::string opener = "<minimax:tool_call>\n<invoke name=\"";
  ASSERT_TRUE(answer.write(opener + "get\">\n<parameter name=\"x\">"));
  const auto another = answer.tokenizer.tokens_of("</minimax:tool_call>" + opener);
  const auto names_a_call = [&] {
    for (const int token : another) answer.calls->follow(token);
    return answer.calls->masks();
  };
  EXPECT_FALSE(names_a_call()) << "a text in an argument";
  for (size_t i = 0; i <= kMaxCallBytes; i++) answer.calls->follow('x');
  EXPECT_TRUE(names_a_call());
}

TEST(CallNames, TextAndArgumentsAreFree) {
  Answer answer(ToolFormat::tagged, {"<tool_call>", "</tool_call>"}, kNames);
  EXPECT_TRUE(answer.write("A call begins with <tool_cal or {\"name\": \"nothing\"}. <functio"));
  EXPECT_FALSE(answer.calls->masks());
  for (const char byte : std::string("<tool_call>"))
    EXPECT_TRUE(answer.write({&byte, 1})) << "spelled, it is text";
  EXPECT_TRUE(answer.write("\n{\"name\": \"nothing\"}"));
  EXPECT_TRUE(answer.write(
      "<tool_call>\n<function=get>\n<parameter=x>\n<function=nothing>\n</parameter>\n</function>"));
  EXPECT_FALSE(answer.write("\n<function=nothing>")) << "the call before it has ended";
  EXPECT_TRUE(answer.write("get>\n</function>\n</tool_call>\n"));
  EXPECT_FALSE(answer.write("<function=nothing>")) << "a call without the mark around it";
}

TEST(CallNames, OnlyHeadersOfMessagesNameCalls) {
  Answer answer(ToolFormat::messages, kMarks, kNames);
  const std::string next = "<|end|><|start|>assistant";
  const auto writes = [&](const std::string& text) {
    answer.restart();
    return answer.write(text);
  };
  EXPECT_TRUE(writes("<|channel|>final<|message|>I write to=functions.nothing, and assistant to=no."));
  EXPECT_TRUE(writes("<|channel|>final<|message|>to=functions.nothing")) << "a text may begin so";
  EXPECT_TRUE(writes("Set to=functions.nothing")) << "no header";
  EXPECT_TRUE(writes("<|channel|>commentaryto=nothing<|message|>")) << "one word";
  EXPECT_TRUE(writes("<|channel|>commentary to=get<|message|>{\"to\": \" to=no\"}<|call|>"));
  const std::vector<std::string> headers = {
      " to=",
      "<|start|>assistant to=",
      "<|channel|>commentary to=",
      "<|channel|>final<|message|>A" + next + " to=",
      "<|channel|>final<|message|>A" + next + "<|channel|>commentary to=",
      "<|channel|>final<|message|>A<|channel|>commentary json to="};
  for (const std::string& header : headers) {
    EXPECT_TRUE(writes(header + "functions.get_time<|channel|>")) << header;
    EXPECT_TRUE(writes(header + "zip ")) << header;
    for (const char* wrong : {"functions.get_tim<|message|>", "functions.nothing", "Get", "get<|end|>",
                              "get<|call|>", "get<|start|>", "<|message|>", " get", "functions.get\n"})
      EXPECT_FALSE(writes(header + wrong)) << header << wrong;
    ASSERT_TRUE(writes(header + "get"));
    EXPECT_FALSE(answer.calls->allows('<')) << "spelled, it is no mark";
  }
  // An answer that the prompt begins.
  answer.rules.goes_on = true;
  EXPECT_TRUE(writes(" to=functions.nothing"));
  EXPECT_FALSE(writes("A" + next + " to=functions.nothing"));
}

// With the tokens of thoughts, whose headers do not count as answer.
TEST(CallNames, HeadersBehindThoughtsNameCalls) {
  Answer answer(ToolFormat::messages, kMarks, kNames);
  const auto find = [&](const char* mark) { return *answer.tokenizer.find(mark); };
  answer.think.close = find("<|end|>");
  answer.think.messages = message_tokens(*answer.rules.format.reasoning, answer.tokenizer);
  ASSERT_TRUE(answer.think.messages);
  answer.think.messages->turn = answer.tokenizer.tokens_of("<|start|>assistant");
  const std::string thought = "<|channel|>analysis<|message|>I could do to=functions.nothing.<|end|>";
  for (const char* header : {"<|start|>assistant to=", "<|start|>assistant<|channel|>commentary to="})
    for (const bool open : {false, true}) {
      const auto writes = [&](const std::string& name) {
        answer.rules.thinking_open = open;
        answer.control.emplace(answer.think, ThinkRules{.open = open, .closing = {*answer.think.close}});
        answer.calls.emplace(answer.tokenizer, answer.by_byte, answer.rules, *answer.control);
        EXPECT_TRUE(answer.write((open ? "to=no<|end|>" : thought) + header)) << header;
        return answer.write(name);
      };
      EXPECT_TRUE(writes("functions.get<|message|>")) << header;
      EXPECT_FALSE(writes("functions.nothing")) << header;
    }
}

TEST(CallNames, WhiteSpaceBeforeANameEnds) {
  Answer answer(ToolFormat::tagged, {"<tool_call>"}, kNames);
  EXPECT_TRUE(answer.write("<tool_call> \n "));
  EXPECT_FALSE(answer.write(std::string(20, '\n')));
  EXPECT_TRUE(answer.write("{\"name\":\t\"get_time\""));
  EXPECT_FALSE(answer.calls->masks());
}

TEST(CallNames, DraftsAreKeptAsFarAsTheyFit) {
  Answer answer(ToolFormat::tagged, {"<tool_call>", "</tool_call>"}, kNames);
  const auto fits = [&](std::string_view text) {
    return answer.calls->fitting(answer.tokenizer.tokens_of(text));
  };
  const std::string_view free = "Now: ", call = "<tool_call>\n{\"name\": \"get";
  const std::string all = std::string(free) + std::string(call);
  EXPECT_EQ(fits(all + "\", "), answer.tokenizer.tokens_of(all + "\", ").size());
  EXPECT_EQ(fits(all + "s\", "), answer.tokenizer.tokens_of(all).size());
  EXPECT_TRUE(answer.write(all));
  EXPECT_EQ(fits("_time\", \"a"), 10u);
  EXPECT_EQ(fits("_date"), 1u) << "the draft changes nothing";
  EXPECT_EQ(fits("_time\""), 6u);
}

// What is asked for is read ahead; drafts and other tokens that do not come leave nothing behind.
TEST(CallNames, WhatIsAskedAheadChangesNothing) {
  std::mt19937 random(7);
  for (const Form& form : forms()) {
    if (form.form == ToolFormat::messages || form.closer.empty()) continue;
    Answer asked(form.form, form.marks, kNames), plain(form.form, form.marks, kNames);
    const std::string call = form.begin + form.right;
    const auto text = asked.tokenizer.tokens_of(call + arguments_behind(form, call) + "\n" + call);
    const auto wrong = asked.tokenizer.tokens_of(form.begin + form.wrong);
    for (size_t at = 0; at < text.size(); at++) {
      for (int i = 0; i < 4; i++) {
        std::vector<int> draft(text.begin() + static_cast<long>(at), text.end());
        draft.resize(random() % (draft.size() + 1));
        draft.insert(draft.end(), wrong.begin(), wrong.end());
        Answer fresh(form.form, form.marks, kNames);
        for (size_t k = 0; k < at; k++) fresh.calls->follow(text[k]);
        EXPECT_EQ(asked.calls->fitting(draft), fresh.calls->fitting(draft)) << call << " at " << at;
        const int token = draft[random() % draft.size()];
        EXPECT_EQ(asked.calls->allows(token), plain.calls->allows(token)) << call << " at " << at;
      }
      ASSERT_TRUE(asked.calls->allows(text[at])) << call << " at " << at;
      asked.calls->follow(text[at]);
      plain.calls->follow(text[at]);
    }
  }
}

TEST(CallNames, ThoughtsAreNotLookedAt) {
  Answer answer(ToolFormat::tagged, {"<think>", "</think>", "<tool_call>"}, kNames);
  answer.think.open = answer.tokenizer.find("<think>");
  answer.think.close = answer.tokenizer.find("</think>");
  answer.control.emplace(answer.think, ThinkRules{.open = true, .closing = {*answer.think.close}});
  answer.calls.emplace(answer.tokenizer, answer.by_byte, answer.rules, *answer.control);
  EXPECT_TRUE(answer.write("I could <tool_call>\n{\"name\": \"nothing\"</think>"));
  EXPECT_FALSE(answer.write("<tool_call>\n{\"name\": \"nothing\""));
}

// A token may hold an opener and the beginning of another name.
TEST(CallNames, ThoughtsMayNameFunctionsThatNobodyHas) {
  Answer answer(ToolFormat::tagged, {"<think>", "</think>", "<function=no"}, kNames);
  answer.think.open = answer.tokenizer.find("<think>");
  answer.think.close = answer.tokenizer.find("</think>");
  answer.control.emplace(answer.think, ThinkRules{.open = true, .closing = {*answer.think.close}});
  answer.calls.emplace(answer.tokenizer, answer.by_byte, answer.rules, *answer.control);
  EXPECT_TRUE(answer.write("I could <function=nothing></think>"));
  EXPECT_FALSE(answer.write("<function=no"));
}

TEST(CallNames, WhatTheClientBeganGoesOn) {
  Answer answer(ToolFormat::tagged, {"<tool_call>"}, kNames);
  const auto begin = [&](std::string_view text) {
    answer.restart();
    for (const int token : answer.tokenizer.tokens_of(text)) answer.calls->follow(token);
  };
  begin("<tool_call>\n{\"name\": \"get_");
  EXPECT_FALSE(answer.write("date"));
  begin("<tool_call>\n{\"name\": \"nothing");
  EXPECT_TRUE(answer.write(" at all\"")) << "the client's own name is not ours to mend";
}

TEST(CallNames, NamesThatCannotBeWrittenDemandNothing) {
  Answer nothing(ToolFormat::gemma4, {"<|tool_call>"}, {"a{b"});
  EXPECT_TRUE(nothing.write("<|tool_call>call:any{"));
  Answer quoted(ToolFormat::tagged, {"<tool_call>"}, {"say \"hi\""});
  EXPECT_TRUE(quoted.write("<tool_call>{\"name\": \"say \\\"hi\\\"\""));
  EXPECT_FALSE(quoted.calls->masks());
  // A vocabulary without the bytes of the name.
  Answer poor(ToolFormat::tagged, {"<tool_call>"}, {"\xc3\xa4"});
  poor.by_byte = TokensByByte(poor.tokenizer, 128);
  EXPECT_TRUE(poor.write("<tool_call>{\"name\": \"any\""));
}

}  // namespace
}  // namespace anabranch
