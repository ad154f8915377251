#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <regex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "decode/answer_grammar.h"
#include "grammar/schema_grammar.h"
#include "slow.h"

namespace anabranch {
namespace {

constexpr int kEnd = 0;

GrammarVocab vocab_of(std::vector<std::string> tokens) {
  tokens.insert(tokens.begin(), "");  // the end of a turn
  return {std::move(tokens), {kEnd}};
}

std::string schema_text(const char* schema) {
  GrammarRules rules;
  const auto element = add_schema(parse_json(schema).value(), rules);
  EXPECT_TRUE(element.ok()) << element.error().message;
  return rules.text(*element);
}

std::function<bool(const std::string&)> matches(const char* pattern) {
  return [regex = std::regex(pattern)](const std::string& text) { return std::regex_match(text, regex); };
}

// Every text of at most `longest` bytes from these characters that is whole by `valid`.
std::set<std::string> whole_texts(const std::string& letters, size_t longest,
                                  const std::function<bool(const std::string&)>& valid) {
  std::vector<std::string> all = {""};
  for (size_t i = 0; i < all.size(); i++)
    if (all[i].size() < longest)
      for (const char c : letters) all.push_back(all[i] + c);
  std::set<std::string> out;
  for (const auto& text : all)
    if (valid(text)) out.insert(text);
  return out;
}

// From each text that can be reached, exactly those tokens are allowed that some whole text goes on with.
void check_masks(GrammarMatcher matcher, const GrammarVocab& vocab, const std::set<std::string>& whole,
                 size_t longest, std::string text = "") {
  EXPECT_EQ(matcher.complete(), whole.count(text) > 0) << text;
  for (size_t id = 0; id < vocab.tokens.size(); id++) {
    const std::string next = text + vocab.tokens[id];
    if (next.size() > longest) continue;
    const auto it = whole.lower_bound(next);
    const bool expected =
        id == kEnd ? whole.count(text) > 0 : it != whole.end() && it->substr(0, next.size()) == next;
    ASSERT_EQ(matcher.allows(static_cast<int>(id)), expected) << text << " + " << vocab.tokens[id];
  }
}

TEST(Grammar, MasksAreWhatTextsGoOnWith) {
  const struct {
    std::string letters;
    size_t longest;
    std::function<bool(const std::string&)> valid;
    std::string grammar;
  } cases[] = {
      {"ab{}", 6, matches(R"(\{[ab]{0,2}\}|\{\{[ab]{0,2}\}\})"),
       "root ::= \"{\" (inner | \"{\" inner \"}\") \"}\"\ninner ::= [ab]{0,2}"},
      {"1-25", 4, matches("-?[125]|1[12]"), schema_text(R"({"type":"integer","minimum":-5,"maximum":12})")},
      {"\"ab\\n", 6, matches(R"re("([abn]|\\["\\bn]){1,2}")re"),
       schema_text(R"({"type":"string","minLength":1,"maxLength":2})")},
  };
  for (const auto& c : cases) {
    std::vector<std::string> tokens;
    for (const char a : c.letters) {
      tokens.emplace_back(1, a);
      for (const char b : c.letters) tokens.push_back(std::string{a, b});
    }
    const GrammarVocab vocab = vocab_of(tokens);
    GrammarCompiler compiler(vocab);
    const auto grammar = compiler.compile(c.grammar);
    ASSERT_TRUE(grammar.ok()) << grammar.error().message << c.grammar;
    const auto whole = whole_texts(c.letters, c.longest, c.valid);
    ASSERT_FALSE(whole.empty());
    // Every beginning of a whole text, reached letter by letter.
    std::set<std::string> beginnings;
    for (const auto& text : whole)
      for (size_t n = 0; n <= text.size(); n++) beginnings.insert(text.substr(0, n));
    for (const auto& text : beginnings) {
      GrammarMatcher matcher(*grammar);
      for (const char letter : text) {
        const auto at = std::find(vocab.tokens.begin(), vocab.tokens.end(), std::string(1, letter));
        ASSERT_TRUE(matcher.accept(static_cast<int>(at - vocab.tokens.begin()))) << text;
      }
      check_masks(std::move(matcher), vocab, whole, c.longest, text);
    }
  }
}

TEST(Grammar, DraftsAreCountedAndNothingChanges) {
  const GrammarVocab vocab = vocab_of({"a", "b", "ab", "\xff<mark>"});
  GrammarCompiler compiler(vocab);
  const auto grammar = compiler.compile("root ::= \"a\" \"b\" \"a\" Token(4)?");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  GrammarMatcher matcher(*grammar);
  EXPECT_EQ(matcher.count_accepted(std::vector{1, 2, 2}), 2u);
  EXPECT_EQ(matcher.count_accepted(std::vector{3, 1, kEnd, 1}), 3u);
  EXPECT_EQ(matcher.count_accepted(std::vector{2}), 0u);
  EXPECT_FALSE(matcher.accept(2));
  EXPECT_TRUE(matcher.allows(1) && matcher.allows(3) && !matcher.allows(2) && !matcher.allows(4) &&
              !matcher.allows(kEnd));
  ASSERT_TRUE(matcher.accept(3) && matcher.accept(1));
  EXPECT_TRUE(matcher.complete() && matcher.allows(4) && matcher.allows(kEnd));
  ASSERT_TRUE(matcher.accept(kEnd));
  EXPECT_FALSE(matcher.allows(1) || matcher.accept(1));
}

TEST(Grammar, CompilesOnceAndTellsWhatIsWrong) {
  GrammarCompiler compiler(vocab_of({"a", "b"}), {.text_bytes = 10000, .cache_entries = 2});
  const auto one = compiler.compile("root ::= \"a\""), again = compiler.compile("root ::= \"a\"");
  ASSERT_TRUE(one.ok() && again.ok());
  EXPECT_EQ(one->get(), again->get());
  EXPECT_EQ(compiler.stats().compiled, 1u);
  const auto bad = compiler.compile("root ::= missing");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().kind, ErrorKind::invalid);
  EXPECT_NE(bad.error().message.find("missing"), std::string::npos);
  EXPECT_EQ(bad.error().message.find(".cc"), std::string::npos) << bad.error().message;
  EXPECT_EQ(compiler.compile(std::string(20000, ' ')).error().kind, ErrorKind::exhausted);
  for (const char* letter : {"b", "ab", "ba"})
    ASSERT_TRUE(compiler.compile(fmt::format("root ::= \"{}\"", letter)).ok());
  ASSERT_TRUE(compiler.compile("root ::= \"a\"").ok());  // forgotten, and compiled anew
  EXPECT_EQ(compiler.stats().compiled, 6u);
}

TEST(Grammar, OneThatCanProduceNothingIsInvalid) {
  GrammarCompiler compiler(vocab_of({"a", "b"}));
  for (const char* nothing : {"root ::= root", "root ::= a\na ::= b\nb ::= a", "root ::= root \"a\""}) {
    const auto refused = compiler.compile(nothing);
    ASSERT_FALSE(refused.ok()) << nothing;
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  }
  EXPECT_TRUE(compiler.compile("root ::= \"\"").ok());  // the turn may end at once
}

// Takes about a second to compile for slow_vocab().
const char* const kSlow = "root ::= (((([a-z0-9]{1,300} \"x\"){1,300}) \"y\"){1,300} \"z\"){1,300}";
GrammarVocab slow_vocab(int size = 20000) {
  std::vector<std::string> tokens;
  for (int i = 0; i < size; i++) tokens.push_back("ab" + std::to_string(i * 7919));
  return vocab_of(tokens);
}

// As kSlow, and another text each time.
std::string slow_one(int i) {
  return std::string(kSlow) + fmt::format(" | \"q{}\"", i);
}

TEST(Grammar, GivesUpOnWhatTakesLong) {
  GrammarCompiler compiler(slow_vocab(120000), {.seconds = 0.2 * kSlowdown});
  const double start = now_seconds();
  const auto first = compiler.compile(kSlow);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.error().kind, ErrorKind::exhausted);
  EXPECT_LT(now_seconds() - start, 10.0 * kSlowdown);
  EXPECT_TRUE(compiler.compile("root ::= \"ab0\"").ok()) << "what comes after it";
}

TEST(Grammar, WhatTakesLongComesAgainBehindTheOthers) {
  GrammarCompiler compiler(slow_vocab(), {.seconds = 30.0 * kSlowdown, .first_seconds = 0.05});
  std::atomic<bool> slow_done = false;
  const auto client = std::make_shared<int>();
  compiler.compile(kSlow, {client, "slow"}, [&](auto grammar) { slow_done = grammar.ok(); });
  for (int i = 0; i < 3; i++) ASSERT_TRUE(compiler.compile(fmt::format("root ::= \"ab{}\"", i * 7919)).ok());
  EXPECT_FALSE(slow_done);
  for (int i = 0; i < 3000 && !slow_done; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(slow_done);
}

// Whether another has compiled a grammar shows in the time that it takes, so a client finds only its space's.
TEST(Grammar, ResultsAreFoundInTheirSpaceOnly) {
  GrammarCompiler compiler(slow_vocab(10));
  const auto waits = std::make_shared<int>();
  const auto compile = [&](const char* space) {
    std::promise<bool> done;
    compiler.compile("root ::= \"ab0\"", {waits, "", space},
                     [&](auto grammar) { done.set_value(grammar.ok()); });
    return done.get_future().get();
  };
  EXPECT_TRUE(compile("alice") && compile("bob") && compile(""));
  EXPECT_EQ(compiler.stats().compiled, 3u);
  EXPECT_TRUE(compile("alice"));
  EXPECT_EQ(compiler.stats().compiled, 3u);
  EXPECT_EQ(compiler.stats().cached, 1u);
  EXPECT_TRUE(compile("carol"));  // as long a name as alice
  EXPECT_EQ(compiler.stats().compiled, 4u);
}

// Many slow grammars of one client take neither the place nor the time of another's.
TEST(Grammar, OneClientsSlowGrammarsDoNotRefuseAnothers) {
  GrammarCompiler compiler(slow_vocab(120000), {.waiting_of_client = 8, .first_seconds = 0.1 * kSlowdown});
  const auto client = std::make_shared<int>();
  std::atomic<int> refused = 0, ended = 0;
  for (int i = 0; i < 20; i++)
    compiler.compile(slow_one(i), {client, "many"}, [&](auto grammar) {
      const bool busy = !grammar.ok() && grammar.error().kind == ErrorKind::busy;
      ++(busy ? refused : ended);
    });
  EXPECT_EQ(refused, 12);
  EXPECT_TRUE(compiler.compile("root ::= \"ab0\"").ok());
  EXPECT_EQ(ended, 0) << "the other client waited for them";
}

TEST(Grammar, WhatNobodyWaitsForIsStopped) {
  GrammarCompiler compiler(slow_vocab(120000), {.seconds = 60, .first_seconds = 30});
  auto client = std::make_shared<int>();
  std::atomic<bool> told = false;
  for (int i = 0; i < 6; i++) compiler.compile(slow_one(i), {client, ""}, [&](auto) { told = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  client.reset();
  const double start = now_seconds();
  EXPECT_TRUE(compiler.compile("root ::= \"ab0\"").ok());
  EXPECT_LT(now_seconds() - start, 2.0 * kSlowdown);
  EXPECT_FALSE(told);
  EXPECT_EQ(compiler.stats().compiled, 1u);
}

TEST(Grammar, ANewClientOfWhatIsBeingStoppedGetsIt) {
  GrammarCompiler compiler(slow_vocab(), {.seconds = 60.0 * kSlowdown, .first_seconds = 30.0 * kSlowdown});
  auto client = std::make_shared<int>();
  compiler.compile(kSlow, {client, ""}, [](auto) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  client.reset();
  EXPECT_TRUE(compiler.compile(kSlow).ok());
}

// xgrammar keeps the rest of a sequence for each rule in it: 60 GB of a MiB of them.
TEST(Grammar, GrammarsThatTakeMuchMemoryAreRefused) {
  GrammarCompiler compiler(slow_vocab(10), {.seconds = 60.0 * kSlowdown, .first_seconds = 30.0 * kSlowdown});
  std::string optional = "root ::= ", rules = "root ::=", defined;
  for (int i = 0; i < 40000; i++) optional += "\"a\"? ";
  for (int i = 0; i < 30000; i++) {
    rules += fmt::format(" r{}", i);
    defined += fmt::format("\nr{} ::= \"a\" | \"\"", i);
  }
  for (const std::string& text : {optional, rules + defined}) {
    const auto grammar = compiler.compile(text);
    ASSERT_FALSE(grammar.ok());
    EXPECT_EQ(grammar.error().kind, ErrorKind::exhausted);
    EXPECT_NE(grammar.error().message.find("MiB"), std::string::npos) << grammar.error().message;
  }
}

// All that a sequence asks of its grammar counts, so that a bad one does not stop others again and again.
TEST(Grammar, ASlowAnswerFails) {
  std::vector<std::string> tokens = {"a", "b"};
  for (uint32_t i = 1; i < 20000; i++) {
    std::string& token = tokens.emplace_back();
    for (uint32_t bits = i * 2654435761u; token.size() < 6 + i % 20; bits = bits * 5 + 1)
      token += bits >> 31 ? 'a' : 'b';
  }
  GrammarCompiler compiler(vocab_of(tokens));
  const auto compiled =
      compiler.compile("root ::= s\ns ::= \"a\" s \"a\" | \"b\" s \"b\" | \"a\" | \"b\" | \"\" | s s");
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  const ThinkTokens none;
  const ThinkControl control(none, {});
  AnswerGrammar answer(*compiled, none, control);
  const double start = thread_seconds();
  std::vector<float> logits(tokens.size() + 1);
  std::string error;
  for (int i = 0; i < 200 && error.empty(); i++) try {
      answer.mask(logits);
      answer.follow(1 + i % 2);
    } catch (const std::runtime_error& e) {
      error = e.what();
    }
  EXPECT_NE(error.find("too long"), std::string::npos) << error;
  EXPECT_LT(thread_seconds() - start, 10 * kSlowdown);
  EXPECT_GT(answer.masked(), 1);
}

TEST(Grammar, ACompilationDoesNotKeepItsCompiler) {
  double start = 0;
  {
    GrammarCompiler compiler(slow_vocab(120000), {.seconds = 60, .first_seconds = 30});
    const auto client = std::make_shared<int>();
    for (int i = 0; i < 4; i++) compiler.compile(slow_one(i), {client}, [](auto) { FAIL(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    start = now_seconds();
  }
  EXPECT_LT(now_seconds() - start, 2.0 * kSlowdown);
}

}  // namespace
}  // namespace anabranch
