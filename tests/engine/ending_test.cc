// Where a request ends because of what it wrote: at the token with which OutputText stops, however its
// tokens were decoded, and without anybody cancelling it.
#include <gtest/gtest.h>

#include "engine/scripted_model.h"
#include "output/output_text.h"

namespace anabranch::testing {
namespace {

using Tokens = std::vector<int>;

// "{C", "}C" and so on stand for the tokens of calls and thoughts.
Tokens tokens_of(const std::string& text) {
  Tokens tokens;
  for (size_t i = 0; i < text.size(); i++) {
    const std::string two = text.substr(i, 2);
    const std::map<std::string, int> marks = {
        {"{C", kToolCall}, {"}C", kToolCallEnd}, {"{T", kThink}, {"}T", kThinkEnd}};
    if (const auto mark = marks.find(two); mark != marks.end()) {
      tokens.push_back(mark->second);
      i++;
    } else {
      tokens.push_back(static_cast<unsigned char>(text[i]) - 33);  // of the byte tokenizer, printable ASCII
    }
  }
  return tokens;
}

struct Case {
  std::string name, writes;
  std::vector<std::string> stop;
  bool open = false;
  int max_tokens = 200;
  std::string keeps;  // what of it is sampled; empty: all of it, and the end of the turn
  FinishReason finish = FinishReason::stop;
  int max_calls = 1;
  std::string stop_tokens = "";  // each of its tokens
  TokenBound bound = TokenBound::answer;
  bool ignore_eos = false;
};

const std::string kCall = "{C{\"name\":\"now\",\"arguments\":{}}}C";
const std::string kBroken = "{C{\"name\":\"now\",nonsense}C";

std::vector<Case> cases() {
  return {
      {"after the last allowed call", kCall + "{C{\"name\":\"now\"", {}, false, 200, kCall},
      {"after two", kCall + kCall + "more", {}, false, 200, kCall + kCall, FinishReason::stop, 2},
      {"broken calls are text", kBroken + kCall + "x", {}, false, 200, kBroken + kCall},
      {"calls in a thought that is closed do not count", "hm" + kCall + "}Tyes", {}, true},
      {"a stop string", "one,two,three", {"two"}, false, 200, "one,two"},
      {"the longer one is completed", "abcabd", {"abd", "c"}, false, 200, "abc"},
      {"one that waits for a longer one counts at the end", "xabc", {"abcd", "c"}, false, 4, "xabc"},
      {"one that only begins does not", "xab", {"abc"}, false, 3, "xab", FinishReason::length},
      {"not in thoughts", "two}Tone,two,three", {"two"}, true, 200, "two}Tone,two"},
      {"markers are text", "a" + kCall, {"<tool_call>"}, false, 200, "a{C"},
      {"a stop token", "one,two", {}, false, 200, "one,tw", FinishReason::stop, 2, "wx"},
      {"a stop token in a thought", "one}Tone,two", {}, true, 200, "on", FinishReason::stop, 2, "n"},
      {"a stop token and no end of the turn",
       "one",
       {},
       false,
       200,
       "one",
       FinishReason::stop,
       2,
       "e",
       TokenBound::all,
       true},
      {"thoughts count",
       "one}Tone,two",
       {},
       true,
       6,
       "one}Ton",
       FinishReason::length,
       2,
       "",
       TokenBound::all},
      {"a thought may be all",
       "one}Tone,two",
       {},
       true,
       2,
       "on",
       FinishReason::length,
       2,
       "",
       TokenBound::all},
      {"in the arguments of a call", kCall, {"arg"}, false, 200, "{C{\"name\":\"now\",\"arg"},
  };
}

TEST(Ending, IsTheEnginesAloneHoweverItDecodes) {
  const auto all = cases();
  std::vector<Script> scripts;
  for (const Case& c : all) {
    Tokens writes = tokens_of(c.writes);
    writes.push_back(kEos);
    // The prompt has it all once more, so that drafts run on past the end.
    const size_t prompt = 2 + writes.size();
    scripts.push_back([=](const Tokens& tokens) {
      const size_t at = tokens.size() - prompt;
      return at < writes.size() ? writes[at] : kEos;
    });
  }
  const auto engine = scripted_engine(scripts);
  OutputRules rules;
  rules.format = find_output_format(nullptr, engine->tokenizer());
  rules.tools = std::make_shared<const Json>(
      *parse_json(R"([{"type":"function","function":{"name":"now","parameters":{"type":"object"}}}])"));
  for (size_t i = 0; i < all.size(); i++) {
    const Case& c = all[i];
    SCOPED_TRACE(c.name);
    Request request;
    request.prompt = tokens_of(c.writes);
    request.prompt.push_back(kEos);
    request.prompt.insert(request.prompt.begin(), static_cast<int>(i));
    request.prompt.push_back(4);
    request.stop = c.stop;
    request.max_tokens = c.max_tokens;
    request.bound = c.bound;
    request.ignore_eos = c.ignore_eos;
    request.thinking.calls = CallPolicy::text;
    request.output = rules;
    request.output.thinking_open = c.open;
    request.output.max_calls = c.max_calls;
    request.output.stop_tokens = tokens_of(c.stop_tokens);
    Tokens expected = tokens_of(c.keeps.empty() ? c.writes : c.keeps);
    if (c.keeps.empty()) expected.push_back(kEos);
    for (const int depth : {0, 1, 4, 15}) {
      const DraftSource source = depth ? DraftSource::ngram : DraftSource::none;
      request.speculation = SpecMode{.automatic = false, .source = source, .depth = depth};
      const auto got = run_to_end(*engine, request);
      EXPECT_EQ(got.tokens, expected) << "drafts of " << depth;
      EXPECT_EQ(got.last.finish, c.finish);
      EXPECT_EQ(got.last.usage.completion_tokens, static_cast<int>(expected.size()));
      OutputText text(engine->tokenizer(), c.stop, request.output);
      text.push(got.tokens);
      text.finish();
      EXPECT_EQ(text.stopped(), c.finish == FinishReason::stop && !c.keeps.empty() && c.stop_tokens.empty());
    }
  }
  EXPECT_EQ(engine->stats().cancelled, 0u);
}

}  // namespace
}  // namespace anabranch::testing
