// Thoughts that end and answers that arrive, told by a model that plays scripts: the same tokens without
// speculation, with it, and beside other requests.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <numeric>

#include "decode/think_control.h"
#include "engine/scripted_model.h"
#include "slow.h"

namespace anabranch::testing {
namespace {

using Tokens = std::vector<int>;

Tokens bytes(const std::string& text) {
  // The byte tokenizer's ids are in the order of GPT-2's stand-ins.
  static const auto tokenizer = [] {
    const TempDir folder;
    folder.write("tokenizer.json", scripted_tokenizer());
    return *Tokenizer::from_file(folder.file("tokenizer.json"));
  }();
  return tokenizer->encode(text, true);
}

Tokens joined(std::initializer_list<Tokens> parts) {
  Tokens out;
  for (const auto& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

// Prose without repetition, `n` tokens of it: numbers written out change from word to word.
Tokens prose(int n, int seed = 0) {
  Tokens out;
  for (int i = 0; static_cast<int>(out.size()) < n; i++) {
    const Tokens word = bytes("w" + std::to_string((i * 7919 + seed * 104729) % 99991) + " ");
    out.insert(out.end(), word.begin(), word.end());
  }
  out.resize(static_cast<size_t>(n));
  return out;
}

// A piece of `period` tokens without repetition inside.
Tokens piece(int period) {
  return period == 1 ? bytes("a") : prose(period, 3);
}

struct Scenario {
  std::string name;
  Tokens thought;  // played from the start when the prompt opens a thought
  int loop = 0;    // the last so many tokens of the thought go on and on; 0: it ends with them
  Tokens answer;   // played after the first closing tag, and what was forced behind it
  int answer_loop = 0;
  bool open = true;
  int max_tokens = 400;
  TokenBound bound = TokenBound::answer;
  ThinkingOptions thinking = {};
  int context = 0;
  // What must come out.
  std::string cut;
  FinishReason finish = FinishReason::stop;
  int thought_at_least = 0, thought_at_most = 1 << 20;
  std::string answer_begins;
  int answer_tokens = -1;
};

int at(const Tokens& tokens, int loop, size_t i, int end) {
  if (i < tokens.size()) return tokens[i];
  if (loop == 0) return end;
  const size_t from = tokens.size() - static_cast<size_t>(loop);
  return tokens[from + (i - tokens.size()) % static_cast<size_t>(loop)];
}

constexpr int kPrompt = 5;  // tokens; the first is the script's number

Script play(const Scenario& s, int forced_newlines) {
  return [s, forced_newlines](const Tokens& tokens) {
    const auto first = tokens.begin() + kPrompt;
    const auto close = std::find(first, tokens.end(), kThinkEnd);
    if (s.open && close == tokens.end())
      return at(s.thought, s.loop, static_cast<size_t>(tokens.end() - first), kThinkEnd);
    size_t i = static_cast<size_t>(tokens.end() - (s.open ? close + 1 : first));
    // A thought that was closed by force is followed by white space and the answer's first words.
    const bool forced = s.open && !s.cut.empty() && s.cut != "answer_loop" && s.cut != "tool_call_in_thought";
    const size_t skipped =
        forced ? static_cast<size_t>(forced_newlines) + bytes(s.thinking.answer_start).size() : 0;
    i = i < skipped ? 0 : i - skipped;
    return at(s.answer, s.answer_loop, i, kEos);
  };
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> out;
  const Tokens answer = bytes("The answer is 42.");
  const auto add = [&](std::string name) -> Scenario& {
    out.push_back({});
    out.back().name = std::move(name);
    out.back().answer = answer;
    return out.back();
  };
  for (const int n : {0, 1, 5, 40, 300, 1500}) {
    auto& s = add("thought of " + std::to_string(n) + " ends by itself");
    s.thought = prose(n);
    s.thought_at_least = s.thought_at_most = n + 1;
  }
  for (const int budget : {0, 1, 2, 7, 64, 200, 500}) {
    auto& s = add("budget of " + std::to_string(budget));
    s.thought = prose(2000);
    s.thinking.budget = budget;
    s.cut = "thinking_budget";
    s.thought_at_least = budget;
    s.thought_at_most = budget + 80;
  }
  for (const int period : {1, 2, 6, 30, 64, 200, 500})
    for (const int before : {0, 37}) {
      auto& s =
          add("thought loops with period " + std::to_string(period) + " after " + std::to_string(before));
      s.thought = joined({prose(before, 1), piece(period)});
      s.loop = period;
      s.cut = "thinking_loop";
      // Three whole copies, or 120 recurring tokens of the third (decode/loop_detector.h).
      s.thought_at_least = before + std::min(3 * period, 2 * period + 120);
      s.thought_at_most = before + std::max(4 * period, 18) + 80;
    }
  for (const int rows : {60, 200}) {
    auto& s = add("thought of " + std::to_string(rows) + " rows that advance");
    for (int i = 0; i < rows; i++)
      s.thought = joined({s.thought, bytes("step " + std::to_string(i) + ": try next\n")});
    s.thought_at_least = s.thought_at_most = static_cast<int>(s.thought.size()) + 1;
  }
  for (const int n : {0, 1, 30}) {
    auto& s = add("end of turn after a thought of " + std::to_string(n));
    s.thought = joined({prose(n), {kEos}});
    s.cut = "end_of_turn_in_thought";
    s.answer_begins = "The answer";
    s.thought_at_least = n;
  }
  {
    auto& s = add("tool call in a thought");
    s.thought = joined({prose(25), {kToolCall}, bytes("{}"), {kToolCallEnd}});
    s.thinking.calls = CallPolicy::offered;
    s.answer = {kToolCallEnd};
    s.cut = "tool_call_in_thought";
  }
  {
    auto& s = add("what looks like a call where there are no tools");
    s.thought = joined({prose(25), {kToolCall}, bytes("{}"), {kToolCallEnd}});
    s.thought_at_least = 30;
  }
  for (const std::string start : {"{", "```python\n", "| ", "1. ", "```sql\nSELECT ", "Bonjour"}) {
    for (const bool loops : {false, true}) {
      auto& s = add("answer is made to begin with " + start + (loops ? ", loop" : ", budget"));
      s.thought = joined({prose(20), piece(12)});
      s.loop = 12;
      s.thinking.answer_start = start;
      if (!loops) s.thinking.budget = 10;
      s.cut = loops ? "thinking_loop" : "thinking_budget";
      s.answer_begins = start + "The answer";
    }
    auto& s = add("no beginning is forced on a thought that ended: " + start);
    s.thought = prose(20);
    s.thinking.answer_start = start;
    s.answer_begins = "The answer";
  }
  {
    auto& s = add("own closing text");
    s.thought = prose(100);
    s.thinking.budget = 20;
    s.thinking.closing = " So, in short:";
    s.cut = "thinking_budget";
  }
  const auto rows = [&](const char* name, auto row) {
    auto& s = add(name);
    s.open = false;
    s.answer.clear();
    for (int i = 0; i < 200; i++) s.answer = joined({s.answer, bytes(row(i))});
    s.max_tokens = 20000;
    s.answer_tokens = static_cast<int>(s.answer.size()) + 1;
  };
  rows("table of 200 rows",
       [](int i) { return "| " + std::to_string(i) + " | name | " + std::to_string(i * i) + " |\n"; });
  rows("JSON array of 200 objects",
       [](int i) { return "{\"id\": " + std::to_string(i) + ", \"ok\": true},\n"; });
  rows("list of 200 items", [](int i) { return std::to_string(i + 1) + ". item\n"; });
  rows("200 equal cells", [](int) { return "0, "; });
  rows("200 equal rows", [](int) { return "| 0 | 0 |\n"; });
  for (const int period : {30, 64, 200, 500}) {
    auto& s = add("answer loops with period " + std::to_string(period));
    s.open = false;
    s.answer = joined({prose(20, 1), piece(period)});
    s.answer_loop = period;
    s.max_tokens = 20000;
    s.cut = "answer_loop";
  }
  {
    auto& s = add("max_tokens counts the answer only");
    s.thought = prose(300);
    s.max_tokens = 5;
    s.finish = FinishReason::length;
    s.answer_tokens = 5;
    s.thought_at_least = 301;
  }
  {
    auto& s = add("max_tokens after a thought that was cut");
    s.thought = prose(300);
    s.thinking.budget = 50;
    s.max_tokens = 4;
    s.finish = FinishReason::length;
    s.cut = "thinking_budget";
    s.answer_tokens = 4;
  }
  const auto shared = [&](const std::string& name, int bound, int thought, int answer_tokens) -> Scenario& {
    auto& s = add("a bound of " + std::to_string(bound) + " on all tokens, " + name);
    s.thought = prose(thought);
    s.answer = prose(500, 9);
    s.max_tokens = bound;
    s.bound = TokenBound::shared;
    s.finish = FinishReason::length;
    s.answer_tokens = answer_tokens;
    return s;
  };
  // The closing text has 57 tokens, its tag and white space alone 3.
  const std::vector<std::pair<int, int>> answers = {{1, 0},   {2, 1},    {3, 1},     {8, 5},
                                                    {40, 37}, {75, 72},  {76, 19},   {77, 20},
                                                    {78, 20}, {100, 25}, {401, 101}, {1000, 250}};
  for (const auto& [bound, tokens] : answers) shared("cut", bound, 3000, tokens).cut = "thinking_budget";
  shared("and a budget", 400, 3000, 400 - 10 - 57).thinking.budget = 10;
  out.back().cut = "thinking_budget";
  shared("and a short thought", 100, 10, 100 - 11);
  shared("and a thought of all its tokens", 100, 17, 100 - 18);
  {
    auto& s = shared("and the answer's beginning", 120, 3000, 30 + 10);
    s.thinking.answer_start = "```python\n";
    s.cut = "thinking_budget";
  }
  {
    auto& s = shared("and white space behind the thought", 100, 3000, 25);
    s.answer = joined({bytes("\n \n"), s.answer});
    s.cut = "thinking_budget";
  }
  {
    auto& s = shared("and a second thought", 100, 5, 25);
    Tokens second = prose(500, 2);
    std::erase(second, bytes(" ")[0]);  // white space behind a thought would be part of it
    s.answer = joined({bytes("So:"), {kThink}, second});
    s.cut = "thinking_budget";
    s.thought_at_most = 75;
  }
  for (const int context : {200, 400}) {
    auto& s = add("a context of " + std::to_string(context) + " leaves room for the answer");
    s.thought = prose(3000);
    s.context = context;
    s.cut = "thinking_budget";
    s.answer_begins = "The answer is 42.";
  }
  {
    auto& s = add("a bound on all tokens beyond the context leaves room for the answer");
    s.thought = prose(3000);
    s.context = 200;
    s.max_tokens = 100000;
    s.bound = TokenBound::shared;
    s.cut = "thinking_budget";
    s.answer_begins = "The answer is 42.";
  }
  {
    auto& s = add("loops may be left alone");
    s.thought = joined({prose(5), piece(4)});
    s.loop = 4;
    s.thinking.loops = LoopRule::none;
    s.thinking.budget = 700;
    s.cut = "thinking_budget";
    s.thought_at_least = 700;
  }
  for (const bool near : {false, true}) {
    auto& s = add(near ? "steps that only count, cut when asked" : "steps that only count");
    for (int i = 0; i < 200; i++)
      s.thought = joined({s.thought, bytes("step " + std::to_string(i) + ": one more\n")});
    s.thought_at_least = s.thought_at_most = static_cast<int>(s.thought.size()) + 1;
    if (!near) continue;
    s.thinking.loops = LoopRule::near;
    s.cut = "thinking_loop";
    s.thought_at_least = 256;
    s.thought_at_most = 512 + 80;
  }
  {
    auto& s = add("the model opens a thought itself");
    s.open = false;
    s.answer = joined({{kThink}, prose(30), {kThinkEnd}, answer});
    s.thought_at_least = s.thought_at_most = 32;
    s.answer_tokens = static_cast<int>(answer.size()) + 1;
  }
  {
    auto& s = add("white space behind a thought is not yet answer");
    s.thought = prose(20);
    s.answer = joined({bytes("\n \n"), answer});
    s.max_tokens = 3;
    s.finish = FinishReason::length;
    s.thought_at_least = s.thought_at_most = 24;
    s.answer_tokens = 3;
  }
  {
    auto& s = add("a second thought shares the budget");
    s.answer = joined({{kThink}, prose(100, 2), {kThinkEnd}, answer});
    s.thought = prose(40);
    s.thinking.budget = 60;
    s.cut = "thinking_budget";
    s.thought_at_least = 60;
    s.thought_at_most = 160;
  }
  return out;
}

Request request_for(const Scenario& s, int script) {
  Request request;
  request.prompt = {script, 1, 2, 3, s.open ? kThink : 4};
  request.output.format.reasoning = ReasoningTags{"<think>", "</think>"};
  request.output.thinking_open = s.open;
  request.thinking = s.thinking;
  request.max_tokens = s.max_tokens;
  request.bound = s.bound;
  return request;
}

std::string text_after_thought(const Tokens& tokens, const Tokenizer& tokenizer) {
  const auto close = std::find(tokens.rbegin(), tokens.rend(), kThinkEnd);
  const Tokens rest(close.base(), tokens.end());
  std::string text = tokenizer.decode(close == tokens.rend() ? tokens : rest, true);
  return text.substr(std::min(text.size(), text.find_first_not_of("\n")));
}

void check(const Scenario& s, const Collector::Record& got, const Tokenizer& tokenizer) {
  const Usage& usage = got.last.usage;
  EXPECT_EQ(got.terminal, 1);
  EXPECT_EQ(usage.cut, s.cut);
  EXPECT_EQ(got.last.finish, s.finish);
  EXPECT_EQ(usage.completion_tokens, static_cast<int>(got.tokens.size()));
  EXPECT_GE(usage.thinking_tokens, s.thought_at_least);
  EXPECT_LE(usage.thinking_tokens, s.thought_at_most);
  if (s.answer_tokens >= 0) {
    EXPECT_EQ(usage.completion_tokens - usage.thinking_tokens, s.answer_tokens);
  }
  const std::string text = text_after_thought(got.tokens, tokenizer);
  if (s.finish == FinishReason::stop && s.cut != "tool_call_in_thought") {
    EXPECT_NE(text, "");
    EXPECT_EQ(text.substr(0, s.answer_begins.size()), s.answer_begins);
  }
}

// Budget and loops at every place, under every way of decoding: the same tokens.
TEST(Thinking, EveryScenarioEndsTheSameWayHoweverItIsDecoded) {
  const auto all = scenarios();
  EXPECT_GE(all.size(), 60u);
  const int newlines = static_cast<int>(bytes("\n\n").size());
  std::vector<Script> scripts;
  for (const auto& s : all) scripts.push_back(play(s, newlines));
  std::map<int, std::unique_ptr<Engine>> engines;
  const auto engine_of = [&](const Scenario& s) -> Engine& {
    auto& engine = engines[s.context];
    EngineOptions options;
    options.context_length = s.context;
    if (!engine) engine = scripted_engine(scripts, options);
    return *engine;
  };
  std::vector<Tokens> plain;
  for (size_t i = 0; i < all.size(); i++) {
    SCOPED_TRACE(all[i].name);
    Request request = request_for(all[i], static_cast<int>(i));
    request.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
    Engine& engine = engine_of(all[i]);
    const auto got = run_to_end(engine, request);
    check(all[i], got, engine.tokenizer());
    plain.push_back(got.tokens);
    for (const int depth : {1, 4, 15}) {
      request.speculation = SpecMode{.automatic = false, .source = DraftSource::ngram, .depth = depth};
      const auto drafted = run_to_end(engine, request);
      EXPECT_EQ(drafted.tokens, plain.back()) << "drafts of " << depth;
      EXPECT_EQ(drafted.last.usage.cut, all[i].cut);
    }
  }
  // Four at a time.
  for (size_t i = 0; i + 4 <= all.size(); i += 4) {
    Collector collector;
    for (size_t j = i; j < i + 4; j++) {
      const auto id = engine_of(all[j]).submit(request_for(all[j], static_cast<int>(j)),
                                               collector.sink(static_cast<int>(j)));
      ASSERT_TRUE(id.ok());
    }
    for (size_t j = i; j < i + 4; j++)
      EXPECT_EQ(collector.wait(static_cast<int>(j)).tokens, plain[j]) << all[j].name;
  }
}

// Neither in the thought nor in what closes it.
TEST(Thinking, StopStringsCountInAnswersOnly) {
  Scenario s;
  s.thought = joined({bytes("a STOP b\n\n"), prose(40)});
  s.thinking.budget = 30;
  s.cut = "thinking_budget";
  s.answer = bytes("first.\n\nsecond STOP third");
  const auto engine = scripted_engine({play(s, static_cast<int>(bytes("\n\n").size()))});
  for (const bool cut : {true, false}) {
    Request request = request_for(s, 0);
    request.stop = {cut ? "\n\n" : "STOP"};
    const auto got = run_to_end(*engine, request);
    EXPECT_EQ(got.last.finish, FinishReason::stop);
    EXPECT_EQ(text_after_thought(got.tokens, engine->tokenizer()),
              cut ? "first.\n\n" : "first.\n\nsecond STOP");
  }
}

// Below 20 microseconds a token, by a wide margin.
TEST(Thinking, TheControlCostsLittle) {
  ThinkTokens tokens;
  tokens.open = kThink;
  tokens.close = kThinkEnd;
  ThinkRules rules;
  rules.open = true;
  rules.budget = 1 << 30;
  rules.closing = {kThinkEnd};
  ThinkControl control(tokens, rules);
  const Tokens text = prose(100000);
  const std::clock_t start = std::clock();  // other programs take time, but none of this
  for (const int token : text) control.accept(control.decide(token));
  const double us = 1e6 / CLOCKS_PER_SEC * static_cast<double>(std::clock() - start) / 100000;
  std::cout << "control: " << us << " us a token\n";
  RecordProperty("us_per_token", std::to_string(us));
  EXPECT_LT(us, 20 * kSlowdown);
  EXPECT_TRUE(control.thinking());
}

}  // namespace
}  // namespace anabranch::testing
