// Forced and strict calls in the formats that are a row of call_marks.cc.
#include <gtest/gtest.h>

#include "output/forced_calls.h"
#include "output/output_parser.h"

namespace anabranch {
namespace {

// Formats with a block of calls, whose marks are tokens or spelled.
TEST(ToolGrammar, BlocksOfCalls) {
  using enum ToolFormat;
  const std::string json = "{\"n\": 3}", dsml_value = "\" string=\"false\">3</｜DSML｜parameter>\n";
  const struct {
    ToolFormat format;
    std::vector<std::string> marks;
    std::string before, between, after, call;  // of NAME with {"n": 3}
    bool offers = true;
  } forms[] = {
      {actions,
       {"<|START_ACTION|>", "<|END_ACTION|>"},
       "<|START_ACTION|>[\n    ",
       ",\n    ",
       "\n]<|END_ACTION|>",
       "{\"tool_call_id\": \"0\", \"tool_name\": \"NAME\", \"parameters\": " + json + "}"},
      {calls_tag,
       {"<tool_calls>"},
       "<tool_calls>[",
       ", ",
       "]</tool_calls>",
       "{\"name\": \"NAME\", \"arguments\": " + json + "}"},
      {toolcall,
       {},
       "<TOOLCALL>[",
       ", ",
       "]</TOOLCALL>",
       "{\"name\": \"NAME\", \"arguments\": " + json + "}"},
      {named_keys,
       {"<|tools_prefix|>", "<|tools_suffix|>"},
       "<|tools_prefix|>[",
       ", ",
       "]<|tools_suffix|>",
       "{\"NAME\": " + json + "}"},
      {gigachat,
       {"<|function_call|>"},
       "<|function_call|>",
       "",
       "",
       "{\"name\": \"NAME\", \"arguments\": " + json + "}",
       false},
      {lines,
       {"<function_calls>", "</function_calls>"},
       "<function_calls>",
       "\n",
       "</function_calls>",
       "NAME(n=3)"},
      {deepseek,
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       "<｜tool▁calls▁begin｜>",
       "",
       "<｜tool▁calls▁end｜>",
       "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>" + json + "<｜tool▁call▁end｜>"},
      {deepseek_json,
       {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>"},
       "<｜tool▁calls▁begin｜>",
       "\n",
       "<｜tool▁calls▁end｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n" + json + "\n```<｜tool▁call▁end｜>"},
      {kimi,
       {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
        "<|tool_call_end|>", "<|tool_calls_section_end|>"},
       "<|tool_calls_section_begin|>",
       "",
       "<|tool_calls_section_end|>",
       "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>" + json + "<|tool_call_end|>"},
      {solar,
       {"<|tool_calls|>", "<|tool_call:begin|>", "<|calls|>"},
       "<|tool_calls|>",
       "",
       "<|calls|>",
       "<|tool_call:begin|>a1<|tool_call:name|>NAME<|tool_call:args|>" + json + "<|tool_call:end|>"},
      {dsml,
       {"｜DSML｜"},
       "<｜DSML｜tool_calls>\n",
       "\n",
       "\n</｜DSML｜tool_calls>",
       "<｜DSML｜invoke name=\"NAME\">\n<｜DSML｜parameter name=\"n" + dsml_value + "</｜DSML｜invoke>"},
      {dsml_functions,
       {},
       "<｜DSML｜function_calls>\n",
       "\n",
       "\n</｜DSML｜function_calls>",
       "<｜DSML｜invoke name=\"NAME\">\n<｜DSML｜parameter name=\"n" + dsml_value + "</｜DSML｜invoke>"},
      {hunyuan_open,
       {"<tool_calls:opensource>", "<tool_call:opensource>", "<tool_sep:opensource>", "<arg_key:opensource>",
        "</arg_key:opensource>"},
       "<tool_calls:opensource>\n",
       "\n",
       "\n</tool_calls:opensource>",
       "<tool_call:opensource>NAME<tool_sep:opensource>\n<arg_key:opensource>n</arg_key:opensource>\n"
       "<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>"},
      {params,
       {"<function name=\""},
       "",
       "\n",
       "",
       "<function name=\"NAME\"><param name=\"n\">3</param></function>"},
  };
  for (const auto& form : forms)
    for (const auto& known : {form.marks, {}}) {
      Calls calls({.tools = form.format}, known);
      const auto call = [&](const std::string& name, const std::string& value = "3") {
        std::string out = form.call;
        out.replace(out.find("NAME"), 4, name);
        return out.replace(out.rfind('3'), 1, value);
      };
      const auto block = [&](const std::string& inside) { return form.before + inside + form.after; };
      calls.force({.forced = true});
      EXPECT_TRUE(calls.take(block(call("add")))) << form.before;
      EXPECT_FALSE(calls.take(block(call("add", "true"))) || calls.take(block(call("sub"))) ||
                   calls.take(block("")) || calls.take("So: " + block(call("add"))))
          << form.before;
      const std::string both = block(call("add") + form.between + call("add", "-4"));
      if (form.offers) {
        EXPECT_FALSE(calls.take(both)) << both;
        calls.force({.several = true, .forced = true});
        EXPECT_TRUE(calls.take(both)) << both;
        calls.offer();
        EXPECT_TRUE(calls.take("No call.") && calls.take("So: " + both + " Done.")) << both;
        EXPECT_FALSE(calls.take("So: " + block(call("add", "true")))) << both;
      }
      const auto tools = std::make_shared<const Json>(kTools);
      const ParsedOutput parsed = parse_output(block(call("add")), {{.tools = form.format}, tools});
      EXPECT_EQ(parsed.calls, (std::vector<ToolCall>{{"add", "{\"n\": 3}"}})) << block(call("add"));
    }
}

// A string says in its tag that it is one; other values that they are not.
TEST(ToolGrammar, DsmlTellsStrings) {
  for (const auto& known : {std::vector<std::string>{"｜DSML｜"}, {}}) {
    Calls calls({.tools = ToolFormat::dsml}, known);
    calls.force({.forced = true});
    const auto call = [](const std::string& name, const std::string& key, const char* text,
                         const char* value) {
      return "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"" + name + "\">\n<｜DSML｜parameter name=\"" +
             key + "\" string=\"" + text + "\">" + value +
             "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
    };
    EXPECT_TRUE(calls.take(call("note", "text", "true", "abc")) &&
                calls.take(call("add", "n", "false", "3")));
    EXPECT_FALSE(calls.take(call("note", "text", "false", "abc")) ||
                 calls.take(call("add", "n", "true", "3")));
  }
}

// What ends a tag is no mark of its own: it may stand in a text, whatever tokens it has.
TEST(ToolGrammar, EndsOfTagsAreNoMarks) {
  const MarkTokenizer tokenizer({"\">", ">", "</parameter>"});
  for (const ToolFormat form : {ToolFormat::minimax, ToolFormat::seed, ToolFormat::dsml}) {
    const auto marks = mark_tokens({.tools = form}, tokenizer);
    for (const char* end : {"\">", ">"}) EXPECT_EQ(std::ranges::count(marks, *tokenizer.find(end)), 0);
  }
  EXPECT_EQ(mark_tokens({.tools = ToolFormat::minimax}, tokenizer).size(), 1u);
}

}  // namespace
}  // namespace anabranch
