// Lengths of strings and numbers of items: counted by the grammar, not written out.
#include <gtest/gtest.h>
#include <array>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "base/json_text.h"
#include "grammar/automaton.h"
#include "grammar/grammar.h"
#include "grammar/schema_grammar.h"
#include "slow.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

// Behind the end of a turn: all bytes, and tokens that cross the bounds of characters, strings and items.
GrammarVocab mixed_vocabulary() {
  GrammarVocab out{{""}, {0}};
  for (int byte = 0; byte < 256; byte++) out.tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text :
       {"ab",     "abc",   "aaaaaaaa", "\",",  "a\"",      "\"a",     "\"a\"", "\":\"",    "\\n",
        "\\n\\n", "a\\",   "\\u00",    "e9\"", "\xc3\xa9", "a\xc3",   "\xa9x", "\xe4\xbd", "\xa0\xe5\xa5\xbd",
        ", ",     "1,",    ",1",       "1]",   ",1,1",     ", 1, 1]", "[1",    "[1,1,",    "]}",
        "\"]",    "\",\"", "],[",      "[[1",  "%4",       "1%",      "/a",    "://",      "http",
        "\"\"",   "  "})
    out.tokens.emplace_back(text);
  return out;
}

class Counted {
 public:
  // schema: a schema, or the text of a grammar.
  explicit Counted(const Json& schema) {
    GrammarRules rules;
    const auto element = schema.is_string() ? Result<std::string>("") : add_schema(schema, rules);
    EXPECT_TRUE(element.ok()) << schema << element.error().message;
    compile(schema.is_string() ? schema.get<std::string>() : rules.text(*element));
  }
  void compile(const std::string& text) {
    static GrammarCompiler compiler(mixed_vocabulary());
    const auto compiled = compiler.compile(text);
    EXPECT_TRUE(compiled.ok()) << compiled.error().message << text;
    if (compiled.ok()) grammar = *compiled;
  }
  bool take(std::string_view text) const {
    GrammarMatcher matcher(grammar);
    for (const char byte : text)
      if (!matcher.accept(1 + static_cast<unsigned char>(byte))) return false;
    return matcher.complete();
  }
  std::shared_ptr<const CompiledGrammar> grammar;
};

std::string times(const std::string& text, size_t n, const std::string& between = "") {
  std::string out;
  for (size_t i = 0; i < n; i++) out += (i > 0 ? between : "") + text;
  return out;
}

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

TEST(Counts, LengthsOfStrings) {
  for (const auto& [least, most] :
       {std::pair{0, 3}, {3, 3}, {2, 5}, {1, 40}, {30, 40}, {40, 40}, {300, 2000}}) {
    const Counted string({{"type", "string"}, {"minLength", least}, {"maxLength", most}});
    for (const std::string one : {"a", "é", "你", "\\n", "\\u00e9", "\\\\"})
      for (const int n : {least - 1, least, (least + most) / 2, most, most + 1}) {
        if (n < 0) continue;
        EXPECT_EQ(string.take(quoted(times(one, static_cast<size_t>(n)))), n >= least && n <= most)
            << least << " " << most << " " << n << " " << one;
      }
  }
  const Counted open({{"type", "string"}, {"minLength", 10000}});
  EXPECT_FALSE(open.take(quoted(std::string(9999, 'a'))));
  EXPECT_TRUE(open.take(quoted(std::string(10000, 'a'))));
  EXPECT_TRUE(open.take(quoted(std::string(20000, 'a'))));
}

TEST(Counts, NumbersOfItems) {
  const auto array = [](const std::string& item, int n) {
    return "[" + times(item, static_cast<size_t>(n), ", ") + "]";
  };
  for (const auto& [least, most] : {std::pair{0, 2}, {1, 1}, {2, 3}, {3, 3}, {5, 300}, {300, 1000}}) {
    const Counted list(
        {{"type", "array"}, {"items", {{"const", 1}}}, {"minItems", least}, {"maxItems", most}});
    for (const int n : {0, least - 1, least, most, most + 1}) {
      if (n < 0) continue;
      EXPECT_EQ(list.take(array("1", n)), n >= least && n <= most) << least << " " << most << " " << n;
    }
  }
  const Counted open({{"type", "array"}, {"items", {{"const", 1}}}, {"minItems", 500}});
  EXPECT_FALSE(open.take(array("1", 499)));
  EXPECT_TRUE(open.take(array("1", 500)));
  EXPECT_TRUE(open.take(array("1", 1500)));
  // Each list has a count of its own, and so has each string in it.
  const Counted nested(
      parse_json(R"({"$ref":"#/$defs/l","$defs":{"l":{"type":"array","minItems":2,"maxItems":3,
    "items":{"anyOf":[{"$ref":"#/$defs/l"},{"type":"string","minLength":3,"maxLength":4}]}}}})")
          .value());
  EXPECT_TRUE(nested.take(R"([["abc","abcd"],["abc","abc","abc"],"abcd"])"));
  EXPECT_FALSE(nested.take(R"([["abc"],"abc"])"));
  EXPECT_FALSE(nested.take(R"([["abc","abc"]])"));
  EXPECT_FALSE(nested.take(R"([["abc","abc","abc","abc"],"abc"])"));
  EXPECT_FALSE(nested.take(R"(["ab","abc"])"));
  EXPECT_FALSE(nested.take(R"(["abc","abcde"])"));
}

TEST(Counts, PatternsWithLengths) {
  const struct {
    const char *pattern, *word;
  } cases[] = {{"^[a-c]*$", "abcabcabcabc"}, {"^(ab)+$", "ababababab"}, {"^a(bc?)*$", "abcbcbcbcb"},
               {"^(ab|c+)$", "cccccccccc"},  {"c$", "aaaaaaaaac"},      {"^(abc)*$", "abcabcabcabc"}};
  for (const auto& c : cases)
    for (const auto& [least, most] : {std::pair{0, 7}, {3, 3}, {4, 9}, {6, 50}, {5, -1}}) {
      Json schema = {{"type", "string"}, {"pattern", c.pattern}, {"minLength", least}};
      if (most >= 0) schema["maxLength"] = most;
      const Json free = {{"type", "string"}, {"pattern", c.pattern}};
      GrammarRules rules;
      const auto element = add_schema(schema, rules);
      if (!element.ok()) {
        EXPECT_NE(element.error().message.find("no value"), std::string::npos) << element.error().message;
        continue;
      }
      const Counted limited(schema), all(free);
      const std::string word = c.word;
      for (size_t n = 0; n <= word.size(); n++) {
        const std::string text = word.substr(word[0] == 'a' && c.pattern[0] == 'c' ? word.size() - n : 0, n);
        const bool fits = static_cast<int>(n) >= least && (most < 0 || static_cast<int>(n) <= most);
        EXPECT_EQ(limited.take(quoted(text)), fits && all.take(quoted(text))) << schema << text;
      }
    }
}

// Texts of a few characters, most of them alike.
std::string random_text(std::mt19937& random) {
  std::string out;
  for (size_t n = random() % 8; n > 0; n--) {
    const char c = "aabbcx,"[random() % 7];
    for (size_t i = 1 + random() % 9; i > 0; i--) out += random() % 6 ? c : "abc,"[random() % 4];
  }
  return out;
}

const char* const kCountedPatterns[] = {"^[a-c]{20}$",
                                        "^[a-c]{5,30}$",
                                        "^[a-c]{6,}$",
                                        "^(ab|c){5,9}$",
                                        "^a{5}(,b{5,8})*$",
                                        "[a-c]{6}",
                                        "^[a-c]{6}",
                                        "[a-c]{6}$",
                                        "^b{1,9},{5,7}$",
                                        "^a*(b{6}|c{7,8})$",
                                        "^([a-c]{1,9},){1,7}$",
                                        "^([ab]{2,9}){5}$",
                                        "^[ab]{1,9}b{6}$",
                                        "^(a{0,9}){5}b*$",
                                        "^([a-c]{5,}x?)+$",
                                        "^(a{5,9}|[ab]{7}c)+$",
                                        "^[a-c]{5,9}(abc)?",
                                        "^a{0,9}(b{5}|c{0,6})$",
                                        "^(?=a)[a-c]{5,}",
                                        "^[^a]{5,9}a{5,9}$",
                                        "^([ab]{5,6}){6}$",
                                        "^([ab]?[ab]{5}){6}$",
                                        "^([a-c]{5,6} ?){6}$",
                                        "^(a{5}|a{7}){6}$",
                                        "^(a{5}b|a{5}c){6}$",
                                        "^(b|[a-c]x){6}$",
                                        "^([ab]{1,2}){9}c{5}$"};

// Compared with automata, in which all repetitions are written out.
TEST(Counts, RepetitionsOfPatterns) {
  std::mt19937 random(11);
  for (const std::string pattern : kCountedPatterns) {
    const Counted counted(Json{{"type", "string"}, {"pattern", pattern}});
    WorkBudget work;
    const auto automaton = compile_regex(pattern, work);
    ASSERT_TRUE(automaton.ok()) << pattern;
    int accepted = 0;
    for (int round = 0; round < 1500; round++) {
      std::string text = random_text(random);
      if (round % 7 == 1) {  // units of the patterns, as often as they may be needed
        const std::string unit = std::array{"aaaaab", "aaaaac", "ab", "b", "b,"}[random() % 5];
        text = times(unit, 4 + random() % 9) + (random() % 2 ? "ccccc" : "");
      }
      if (round % 3 == 0) text = std::string(static_cast<size_t>(round / 3) % 90, "aabc"[random() % 4]);
      const bool fits = accepts_text(*automaton, text);
      accepted += fits;
      ASSERT_EQ(counted.take(json_string(text)), fits) << pattern << " " << text;
    }
    EXPECT_GT(accepted, 0) << pattern;
  }
  // At the end of an answer, without quotes.
  for (const std::string pattern : {"([ab]+,){5,9}", "([a-c]{1,9}x){5,7}", "(ab|c){6}", "[a-c]{5,}"}) {
    GrammarRules rules;
    WorkBudget work;
    const std::string element = *add_regex(pattern, true, {}, StringSyntax::plain, "regex", rules);
    const Counted plain(rules.text(element));
    const auto automaton = compile_regex(pattern, work, true);
    for (int round = 0; round < 1000; round++) {
      std::string text;
      for (size_t n = random() % 10; n > 0; n--)
        text += pattern[1] == '[' ? pattern[3] == 'b' ? "ab," : "abcx" : "ab";
      text += round % 5 == 0 ? random_text(random) : "";
      ASSERT_EQ(plain.take(text), accepts_text(*automaton, text)) << pattern << " " << text;
    }
  }
  const Counted escapes(Json{{"type", "string"}, {"pattern", "^[\"\\n\\\\é]{5,6}$"}});
  EXPECT_TRUE(escapes.take(R"("\n\\\"é\n")"));
  EXPECT_FALSE(escapes.take(R"("\n\\\"é")"));
  EXPECT_FALSE(escapes.take(R"("\n\n\n\n\n\n\n")"));
  // Lengths beside the pattern.
  const Counted both(
      Json{{"type", "string"}, {"pattern", "^[a-c]{5,30}$"}, {"minLength", 7}, {"maxLength", 9}});
  for (size_t n = 4; n < 12; n++) EXPECT_EQ(both.take(quoted(std::string(n, 'a'))), n >= 7 && n <= 9) << n;
}

TEST(Counts, RepetitionsInGrammars) {
  const auto expect = [](const std::string& grammar, const std::function<std::string(size_t)>& text,
                         size_t least, size_t most) {
    const Counted counted(grammar);
    for (const size_t n : {size_t{0}, least - 1, least, (least + most) / 2, most, most + 1})
      EXPECT_EQ(counted.take(text(n)), n >= least && n <= most) << grammar << " " << n;
  };
  const auto of = [](const std::string& unit, const std::string& end = "", const std::string& begin = "") {
    return [=](size_t n) { return begin + times(unit, n) + end; };
  };
  expect("root ::= [a-c]{5,30}", of("b"), 5, 30);
  expect("root ::= [a-c]{7} \".\"", of("c", "."), 7, 7);
  expect("root ::= \"<\" (\"ab\" | \"c\"){6,9} \"abc\"", of("ab", "abc", "<"), 6, 9);
  expect("root ::= \"ab\"{300,400}", of("ab"), 300, 400);
  expect("root ::= ([a-c]+ \",\"){5,9}", of("abc,"), 5, 9);
  expect("root ::= x{5,9} \".\"\nx ::= [a-c] \"-\"?", of("b-", "."), 5, 9);
  expect("root ::= [a-c]{5,9} \",\" [a-c]{5,9}", of("a", ",bbbbb"), 5, 9);
  expect("root ::= [a-c]{5,9} \",\" [a-c]{5,9}", of("a", "", "bbbbb,"), 5, 9);
  expect("root ::= ([a-c]{5,6} \",\"){7,8}", of("aaaaa,"), 7, 8);
  expect("root ::= ([a-c]{5,6} \",\"){7,8}", of("a", ",", times("aaaaaa,", 6)), 5, 6);
  expect("root ::= \"[\" root{5,6} \"]\" | [a-c]", of("a", "]", "["), 5, 6);
  expect("root ::= ([a-c]{5,9}){5,7}", of("a"), 25, 63);
  expect("root ::= ([ab]{5,6}){6}", of("b"), 30, 36);
  const Counted two("root ::= [a-c]{5} \"x\" | \"a\" [a-c]{5} \"y\"");
  EXPECT_TRUE(two.take("aaaaax") && two.take("aaaaaay"));
  EXPECT_FALSE(two.take("aaaaay") || two.take("aaaaaax"));
  const Counted open("root ::= [a-c]{6,}"), empty("root ::= ([a-c]?){6} \".\"");
  for (size_t n = 0; n < 12; n++) {
    EXPECT_EQ(open.take(std::string(n, 'a')), n >= 6) << n;
    EXPECT_EQ(empty.take(std::string(n, 'a') + "."), n <= 6) << n;
  }
}

// Whatever the mask allows can be completed, and what comes of it satisfies the schema.
void walk(const Json& schema, const std::function<bool(const Json&)>& satisfies) {
  const Counted counted(schema);
  const GrammarVocab vocab = mixed_vocabulary();
  std::mt19937 random(7);
  for (int round = 0; round < 60; round++) {
    GrammarMatcher matcher(counted.grammar);
    std::string text;
    for (int step = 0; step < 200; step++) {
      const auto mask = matcher.mask();
      std::vector<int> allowed;
      for (int token = 0; token < static_cast<int>(vocab.tokens.size()); token++) {
        const bool may = mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1;
        if (may) allowed.push_back(token);
        if (token > 0) {
          ASSERT_EQ(may, matcher.count_accepted(std::vector<int>{token}) == 1)
              << schema << text << "<" << vocab.tokens[static_cast<size_t>(token)];
        }
      }
      ASSERT_FALSE(allowed.empty()) << schema << text;
      const int token = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.accept(token)) << schema << text;
      if (token == 0) {
        const auto value = parse_json(text);
        ASSERT_TRUE(value.ok()) << schema << text;
        EXPECT_TRUE(satisfies(*value)) << schema << text;
        break;
      }
      text += vocab.tokens[static_cast<size_t>(token)];
    }
  }
}

size_t length_of(const Json& string) {
  size_t count = 0;
  const auto& text = string.get_ref<const std::string&>();
  for (size_t i = 0; i < text.size(); count++) i += static_cast<size_t>(decode_utf8(text, i).length);
  return count;
}

TEST(Counts, MasksAllowWhatCanBeCompleted) {
  walk({{"type", "string"}, {"minLength", 5}, {"maxLength", 12}},
       [](const Json& v) { return length_of(v) >= 5 && length_of(v) <= 12; });
  walk({{"type", "string"}, {"minLength", 9}}, [](const Json& v) { return length_of(v) >= 9; });
  walk({{"type", "string"}, {"maxLength", 4}}, [](const Json& v) { return length_of(v) <= 4; });
  walk({{"type", "string"}, {"pattern", "^(a|%[0-9a-f]{2})*$"}, {"minLength", 4}, {"maxLength", 9}},
       [](const Json& v) { return length_of(v) >= 4 && length_of(v) <= 9; });
  walk({{"type", "string"}, {"format", "uri"}, {"maxLength", 30}},
       [](const Json& v) { return length_of(v) <= 30; });
  walk({{"type", "array"}, {"items", {{"const", 1}}}, {"minItems", 3}, {"maxItems", 6}},
       [](const Json& v) { return v.size() >= 3 && v.size() <= 6; });
  walk({{"type", "array"},
        {"items", {{"type", "string"}, {"minLength", 2}, {"maxLength", 3}}},
        {"minItems", 2},
        {"maxItems", 4}},
       [](const Json& v) {
         bool good = v.size() >= 2 && v.size() <= 4;
         for (const Json& one : v) good = good && length_of(one) >= 2 && length_of(one) <= 3;
         return good;
       });
  walk(parse_json(
           R"({"anyOf":[{"type":"string","minLength":4,"pattern":"^a*$"},{"type":"string","maxLength":3}]})")
           .value(),
       [](const Json& v) {
         return length_of(v) <= 3 || v.get<std::string>().find_first_not_of('a') == std::string::npos;
       });
  walk(
      parse_json(
          R"({"type":"object","properties":{"a":{"type":"string","minLength":3},"b":{"type":"array","minItems":2,"items":{"const":1}}},"required":["a","b"]})")
          .value(),
      [](const Json& v) { return length_of(v["a"]) >= 3 && v["b"].size() >= 2; });
  for (const std::string pattern : kCountedPatterns) {
    WorkBudget work;
    const Automaton automaton = *compile_regex(pattern, work);
    walk({{"type", "string"}, {"pattern", pattern}},
         [&](const Json& v) { return accepts_text(automaton, v.get<std::string>()); });
  }
  for (const auto& [text, least, most] : {std::tuple{"root ::= \"\\\"\" [a-c]{5,9} \"abc\" \"\\\"\"", 8, 12},
                                          {"root ::= \"\\\"\" (\"ab\" | \"c\"){5,7} \"\\\"\"", 5, 14}})
    walk(text, [=](const Json& v) {
      const auto length = static_cast<int>(length_of(v));
      return length >= least && length <= most;
    });
}

// Between tags, the end of a string is no character of its own.
TEST(Counts, StringsWithoutQuotes) {
  GrammarRules rules;
  const auto element = add_parameters(
      parse_json(R"({"type":"object","properties":{"a":{"type":"string","minLength":3,"maxLength":5},
    "b":{"type":["string","null"],"minLength":30}},"required":["a"]})")
          .value(),
      function_tags(), rules);
  ASSERT_TRUE(element.ok());
  GrammarCompiler compiler(mixed_vocabulary());
  const auto grammar = compiler.compile(rules.text(*element));
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  const auto take = [&](const std::string& text) {
    GrammarMatcher matcher(*grammar);
    for (const char byte : text)
      if (!matcher.accept(1 + static_cast<unsigned char>(byte))) return false;
    return matcher.complete();
  };
  const auto a = [](const std::string& text) { return "<parameter=a>\n" + text + "\n</parameter>\n"; };
  const auto b = [](const std::string& text) { return "<parameter=b>\n" + text + "\n</parameter>\n"; };
  for (size_t n = 0; n <= 7; n++) EXPECT_EQ(take(a(std::string(n, 'x'))), n >= 3 && n <= 5) << n;
  EXPECT_TRUE(take(a("xyz") + b(std::string(30, 'x'))));
  EXPECT_TRUE(take(a("xyz") + b(std::string(60, 'x'))));
  EXPECT_TRUE(take(a("xyz") + b("null")));
  EXPECT_FALSE(take(a("xyz") + b("")));
  EXPECT_FALSE(take(a("xyz") + b(std::string(29, 'x'))));
}

// With the largest vocabularies of models.
TEST(Counts, TakeNoTimeForTheirSize) {
  std::mt19937 random(5);
  GrammarVocab vocab{{""}, {0}};
  for (int byte = 0; byte < 256; byte++) vocab.tokens.emplace_back(1, static_cast<char>(byte));
  while (vocab.tokens.size() < 248'000) {
    std::string text = random() % 3 ? " " : "";
    for (size_t n = 1 + random() % 10; n > 0; n--)
      text += random() % 40 == 0 ? "\",:{}[]\\"[random() % 8] : static_cast<char>('a' + random() % 26);
    vocab.tokens.push_back(text);
  }
  GrammarCompiler compiler(std::move(vocab));
  ASSERT_TRUE(compiler.compile("root ::= \"a\"").ok());  // makes the vocabulary's tables
  const auto seconds_of = [&](const Json& schema) {
    GrammarRules rules;
    const auto element = add_schema(schema, rules);
    EXPECT_TRUE(element.ok()) << element.error().message;
    const std::clock_t start = std::clock();
    EXPECT_TRUE(compiler.compile(rules.text(*element)).ok());
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const auto array = [](int least) {
    return Json{{"type", "array"}, {"items", {{"const", 1}}}, {"minItems", least}, {"maxItems", 2 * least}};
  };
  const auto string = [](int least) { return Json{{"type", "string"}, {"minLength", least}}; };
  const auto bounded = [](int least) {
    return Json{{"type", "string"}, {"minLength", least}, {"maxLength", 2 * least}};
  };
  const auto pattern = [](int n) {
    return Json{{"type", "string"}, {"pattern", "^[a-z ]{" + std::to_string(n) + "}$"}};
  };
  const auto groups = [](int n) {
    return Json{{"type", "string"}, {"pattern", "^([a-z]{1,300}, ?){10," + std::to_string(n) + "}$"}};
  };
  for (const auto& schema :
       {std::function<Json(int)>(array), std::function<Json(int)>(string), std::function<Json(int)>(bounded),
        std::function<Json(int)>(pattern), std::function<Json(int)>(groups)}) {
    double least = 1e9;  // processor time of three, since other programs run as well
    for (const int n : {9998, 9999, 10000}) least = std::min(least, seconds_of(schema(n)));
    EXPECT_LT(least, 0.2 * kSlowdown) << schema(10000);
  }
}

}  // namespace
}  // namespace anabranch
