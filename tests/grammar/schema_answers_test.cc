// Schemas with answers that satisfy them and answers that do not, down to the compiled grammar.
#include <gtest/gtest.h>

#include "grammar/grammar.h"
#include "grammar/schema_grammar.h"

namespace anabranch {
namespace {

using namespace std::string_literals;

// Tokens are bytes, behind the end of a turn.
GrammarVocab bytes_as_tokens() {
  std::vector<std::string> tokens = {""};
  for (int byte = 0; byte < 256; byte++) tokens.emplace_back(1, static_cast<char>(byte));
  return {std::move(tokens), {0}};
}

class Answers {
 public:
  explicit Answers(const char* schema, Keep keep = Keep::all) {
    static GrammarCompiler compiler(bytes_as_tokens());
    GrammarRules rules;
    const auto element = add_schema(parse_json(schema).value(), rules, "#", keep);
    EXPECT_TRUE(element.ok()) << schema << element.error().message;
    if (!element.ok()) return;
    const auto compiled = compiler.compile(rules.text(*element));
    EXPECT_TRUE(compiled.ok()) << schema << compiled.error().message;
    if (compiled.ok()) grammar_ = *compiled;
  }
  // Whether the answer may be exactly this.
  bool take(std::string_view text) const {
    if (!grammar_) return false;
    GrammarMatcher matcher(grammar_);
    for (const char byte : text)
      if (!matcher.accept(1 + static_cast<unsigned char>(byte))) return false;
    return matcher.complete();
  }

 private:
  std::shared_ptr<const CompiledGrammar> grammar_;
};

struct SchemaCase {
  const char* schema;
  std::vector<std::string> good, bad;
};

void check_answers(const std::vector<SchemaCase>& cases, Keep keep = Keep::all) {
  for (const SchemaCase& c : cases) {
    const Answers answers(c.schema, keep);
    for (const auto& text : c.good) EXPECT_TRUE(answers.take(text)) << c.schema << " refuses " << text;
    for (const auto& text : c.bad) EXPECT_FALSE(answers.take(text)) << c.schema << " takes " << text;
  }
}

TEST(SchemaAnswers, NumbersOfMembers) {
  check_answers({
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false,"maxProperties":1})",
       {"{}", R"({"a":1})", R"({"b":2})"},
       {R"({"a":1,"b":2})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"maxProperties":2})",
       {"{}", R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"},
       {R"({"a":1,"b":2,"c":3})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"maxProperties":2,"required":["c"]})",
       {R"({"c":3})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"},
       {"{}", R"({"a":1,"b":2})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"maxProperties":2})",
       {"{}", R"({"a":1,"b":2})"},
       {}},
      {R"({"properties":{"a":{"const":1}},"maxProperties":0})", {"{}"}, {R"({"a":1})"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"minProperties":1})",
       {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
       {"{}"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":2})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"},
       {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"properties":{"a":{"const":1}},"additionalProperties":{"const":2},"maxProperties":2})",
       {"{}", R"({"a":1,"b":2})", R"({"b":2,"c":2})"},
       {R"({"a":1,"b":2,"c":2})"}},
  });
}

// A further member has another name than the listed ones, and its own type.
TEST(SchemaAnswers, FurtherMembers) {
  check_answers({
      {R"({"properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       {R"({"a":1})", R"({"a":1,"b":"x"})", R"({"ab":"x"})", R"({"":"x"})", R"({"A":"x"})"},
       {R"({"a":"x"})", R"({"b":1})", R"({"a":1,"a":"x"})", R"({"b":"x","a":"x"})"}},
      {R"({"properties":{"a":{"const":1}},"additionalProperties":false})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"properties":{"a":{"const":1}}})", {R"({"a":1})"}, {R"({"a":1,"b":1})"}},
      {R"({"additionalProperties":{"const":1},"propertyNames":{"maxLength":2}})",
       {R"({"ab":1,"c":1})"},
       {R"({"abc":1})"}},
      {R"({"patternProperties":{"^x":{"const":1}},"additionalProperties":false})",
       {"{}", R"({"x":1,"xy":1})"},
       {R"({"y":1})", R"({"x":2})"}},
  });
}

TEST(SchemaAnswers, ListsOfItems) {
  check_answers({
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"maxItems":1})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"maxItems":2})",
       {"[]", "[1]", "[1,2]"},
       {"[1,2,3]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"maxItems":3})",
       {"[1,2,3]"},
       {"[1,2,3,3]", "[1,3]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":2})",
       {"[1,2]", "[1,2,3,3]"},
       {"[]", "[1]"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":3},"minItems":3,"maxItems":4})",
       {"[1,3,3]", "[1,3,3,3]"},
       {"[1]", "[1,3]", "[1,3,3,3,3]"}},
      {R"({"type":"array","items":{"const":1},"minItems":2,"maxItems":3})",
       {"[1,1]", "[1,1,1]"},
       {"[]", "[1]", "[1,1,1,1]"}},
      {R"({"type":"array","items":{"const":1},"maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","items":{"const":1},"maxItems":1})", {"[]", "[1]"}, {"[1,1]"}},
      {R"({"type":"array","items":[{"const":1}],"additionalItems":false})", {"[]", "[1]"}, {"[1,1]"}},
  });
}

TEST(SchemaAnswers, NumbersAtTheirBounds) {
  check_answers({
      {R"({"type":"integer","minimum":9})", {"9", "10", "99", "100"}, {"8", "0", "-9", "-10"}},
      {R"({"type":"integer","minimum":99,"maximum":1000})", {"99", "100", "999", "1000"}, {"98", "1001"}},
      {R"({"type":"integer","maximum":-10})", {"-10", "-11", "-100"}, {"-9", "0", "10"}},
      {R"({"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":7})", {"4", "6"}, {"3", "7"}},
      {R"({"type":"integer","exclusiveMinimum":2.5,"exclusiveMaximum":4.5})", {"3", "4"}, {"2", "5"}},
      {R"({"type":"integer","minimum":2.5,"maximum":4.5})", {"3", "4"}, {"2", "5"}},
      {R"({"type":"number","minimum":0,"exclusiveMaximum":10})", {"0", "9.99", "9"}, {"10", "10.0", "-1"}},
      {R"({"type":"number","exclusiveMinimum":1,"maximum":1.5})", {"1.01", "1.5"}, {"1", "1.0", "1.51", "2"}},
      {R"({"type":"integer","minimum":-4,"maximum":4,"multipleOf":3})",
       {"-3", "0", "3"},
       {"-4", "1", "4", "6"}},
      {R"({"type":"integer","multipleOf":5})", {"0", "5", "-15", "10"}, {"1", "51"}},
  });
}

TEST(SchemaAnswers, Strings) {
  check_answers({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("äöü")", R"("a\"b")", R"("\n\t")", R"("你好")"},
       {R"("")", R"("a")", R"("äöüß")", R"("\n")"}},
      {R"({"type":"string","minLength":2})", {R"("ab")", R"("abcdefgh")"}, {R"("")", R"("ä")"}},
      {R"({"type":"string","minLength":1,"maxLength":30})",
       {R"("a")", "\"" + std::string(30, 'x') + "\""},
       {R"("")", "\"" + std::string(31, 'x') + "\""}},
      {R"({"type":"string","pattern":"^[b-d]$"})",
       {R"("b")", R"("c")", R"("d")"},
       {R"("a")", R"("e")", R"("\u0061")", R"("\u0063")"}},
      {R"({"type":"string","pattern":"^[^\\s]$"})",
       {R"("a")", R"("é")"},
       {R"(" ")", "\"\u00a0\"", "\"\u2003\""}},
      {R"({"type":"string"})", {R"("\u0041")", R"("\\")"}, {"\"\n\"", R"("\x")", R"("\ud800")", "\"\0\""s}},
      {R"({"enum":["äöü","abcd"],"maxLength":3})", {R"("äöü")"}, {R"("abcd")"}},
      {R"({"enum":["a","bb",5],"minLength":2})", {R"("bb")", "5"}, {R"("a")"}},
      {R"({"type":"string","format":"date"})",
       {R"("2024-02-28")", R"("1999-12-31")", R"("2024-02-29")", R"("2000-02-29")"},
       {R"("2024-02-30")", R"("2024-13-01")", R"("2024-04-31")"}},
  });
}

TEST(SchemaAnswers, PatternsBesideFormats) {
  check_answers({
      {R"({"format":"uuid","pattern":"^[0-9a-f-]{14}[45][0-9a-f-]*$"})",
       {R"("123e4567-e89b-42d3-a456-426614174000")"},
       {R"("123e4567-e89b-12d3-a456-426614174000")", R"("x")"}},
      {R"({"format":"email","pattern":"@b\\.co$"})", {R"("a@b.co")"}, {R"("a@c.co")", R"("@b.co")"}},
      // Alone, this pattern would need too many states.
      {R"j({"format":"hostname","pattern":"^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$"})j",
       {R"("example.org")"},
       {R"("-a.org")", R"("a..b")"}},
      // In its usual form the time would have a zone; the pattern counts.
      {R"({"format":"time","pattern":"^[0-2][0-9]:[0-5][0-9]$"})", {R"("10:00")"}, {R"("10:00:00Z")"}},
      {R"({"format":"email","maxLength":254})", {R"("a@b.co")"}, {R"("a")"}},
      {R"({"format":"email","minLength":7,"maxLength":8})",
       {R"("a@bc.com")"},
       {R"("a@b.co")", R"("aa@bc.com")"}},
      {R"({"enum":["ab","b",3],"pattern":"^a","format":"date"})", {R"("ab")", "3"}, {R"("b")"}},
      {R"({"allOf":[{"pattern":"^a"},{"pattern":"b$"},{"minLength":3}]})",
       {R"("axb")"},
       {R"("ab")", R"("axc")"}},
  });
}

TEST(SchemaAnswers, PatternsWithAssertions) {
  check_answers({
      {R"j({"pattern":"^(?=.*[A-Z])(?=.*\\d)[A-Za-z\\d]{3,5}$"})j",
       {R"("aA1")", R"("1AAAA")"},
       {R"("aa1")", R"("AAA")", R"("A1")", R"("A1aaaa")"}},
      {R"j({"pattern":"^(?!\\.)(?!.*\\.\\.)[a-z.]+$"})j", {R"("a.b")", R"("a.")"}, {R"(".a")", R"("a..b")"}},
      {R"j({"pattern":"^(?:(?!ab)[a-c])+$"})j", {R"("acb")", R"("ba")"}, {R"("cab")"}},
      {R"j({"pattern":"^P(?=\\d|T\\d)(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?)?$"})j",
       {R"("P1D")", R"("PT1H")", R"("P1DT2M")"},
       {R"("P")", R"("PT")", R"("P1DT")"}},
      {R"j({"pattern":"^(?=.{1,3}$)[a-z]+(-[a-z]+)?$"})j", {R"("a-b")"}, {R"("ab-c")"}},
      {R"j({"pattern":"a(?=b|c)"})j", {R"("xab")", R"("acx")"}, {R"("ad")", R"("a")"}},
      // Some readers take other digits for \d as well; after an assertion none of them may follow.
      {R"j({"pattern":"^(?!\\d)."})j", {R"("a")"}, {R"("1")", R"("٣")"}},
      {R"j({"pattern":"^(?![^\\d])."})j", {R"("1")"}, {R"("a")", R"("٣")"}},
      {R"j({"pattern":"^(?!(?!a)).$"})j", {R"("a")"}, {R"("b")"}},
  });
}

TEST(SchemaAnswers, MultiplesOfAStep) {
  check_answers({
      {R"({"type":"number","multipleOf":0.01,"minimum":0})",
       {"1.25", "3", "0", "0.10", "12.3"},
       {"1.255", "-1", "1e2"}},
      {R"({"type":"number","multipleOf":0.25})", {"1.25", "-0.5", "3", "2.75"}, {"1.2", "0.1"}},
      {R"({"type":"number","multipleOf":2.5})", {"2.5", "5", "-7.5"}, {"2", "1.5"}},
      {R"({"type":"number","multipleOf":0.1,"exclusiveMinimum":1,"maximum":2})",
       {"1.1", "2"},
       {"1", "2.1", "1.15"}},
      {R"({"type":"integer","multipleOf":7,"minimum":10})", {"14", "700", "7007"}, {"7", "15", "701"}},
      {R"({"type":"integer","multipleOf":0.5})", {"3"}, {"2.5"}},
      {R"({"type":["number","string"],"multipleOf":5})", {"10", R"("a")"}, {"11"}},
      {R"({"type":"integer","minimum":0,"exclusiveMinimum":true})", {"1"}, {"0", "-1"}},
      {R"({"type":"number","maximum":5,"exclusiveMaximum":true,"minimum":2,"exclusiveMinimum":false})",
       {"2", "4.9"},
       {"5", "1.9"}},
  });
}

TEST(SchemaAnswers, SetsOfListedValues) {
  check_answers({
      {R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true})",
       {"[]", R"(["a"])", R"(["c","a","b"])", R"([ "b", "c" ])"},
       {R"(["a","a"])", R"(["a","b","a"])", R"(["d"])", R"(["a",])"}},
      {R"({"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"minItems":1,"maxItems":2})",
       {"[1]", "[3,1]"},
       {"[]", "[1,2,3]", "[1,1]"}},
      {R"({"type":"array","items":{"enum":["a","b","c","d","e","f","g"]},"uniqueItems":true,"minItems":2})",
       {R"(["a","g"])", R"(["a","b","c","d","e","f","g"])"},
       {R"(["a"])", R"(["a","a"])"}},
      {R"({"type":"array","items":{"type":"boolean"},"uniqueItems":true})",
       {"[true]", "[false,true]"},
       {"[true,true]"}},
      {R"({"type":"array","items":{"enum":["a","bb"],"maxLength":1},"uniqueItems":true})",
       {R"(["a"])"},
       {R"(["bb"])"}},
  });
}

TEST(SchemaAnswers, AlternativesWithTags) {
  check_answers({
      // A tag with a default is always written, also where the schema contains itself.
      {R"({"$ref":"#/$defs/U","$defs":{"U":{"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}]},
           "A":{"type":"object","properties":{"kind":{"const":"a","default":"a"},"next":{"$ref":"#/$defs/U"}}},
           "B":{"type":"object","properties":{"kind":{"const":"b","default":"b"},"n":{"type":"integer"}},"required":["n"]}}})",
       {R"({"kind":"a"})", R"({"kind":"b","n":1})", R"({"kind":"a","next":{"kind":"b","n":1}})"},
       {"{}", R"({"n":1})", R"({"kind":"b"})", R"({"kind":"c"})"}},
      // The tag is a reference.
      {R"({"oneOf":[{"type":"object","properties":{"k":{"$ref":"#/$defs/x"}}},
                    {"type":"object","properties":{"k":{"allOf":[{"$ref":"#/$defs/y"}]}}}],
           "$defs":{"x":{"const":1},"y":{"enum":[2,3]}}})",
       {R"({"k":1})", R"({"k":3})"},
       {"{}", R"({"k":4})"}},
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},
           "oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]})",
       {R"({"a":1})", R"({"b":2})", R"({"c":3})"},
       {"{}", R"({"a":1,"b":2})", R"({"b":2,"c":3})"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", {"1.5", "-0.25"}, {"1", "1.0", R"("x")"}},
      {R"({"oneOf":[{"type":"number"},{"type":"integer"},{"type":"null"}]})", {"1.5", "null"}, {"1"}},
  });
}

TEST(SchemaAnswers, NamesOfProperties) {
  check_answers({
      {R"({"propertyNames":{"type":"string","enum":["a","b"]},"additionalProperties":{"type":"integer"},"required":["a"]})",
       {R"({"a":1})", R"({"a":1,"b":2})"},
       {"{}", R"({"b":2})", R"({"a":1,"c":1})", R"({"a":"x"})"}},
      {R"({"propertyNames":{"enum":["a","b"]},"properties":{"a":{"const":1},"c":{"const":2}}})",
       {R"({"a":1})", R"({"b":[]})"},
       {R"({"a":2})", R"({"c":2})"}},
      {R"({"propertyNames":{"type":"string"},"properties":{"a":{"const":1}}})",
       {R"({"a":1})"},
       {R"({"a":2})"}},
      {R"({"properties":{"a":{"const":1},"x-a":{"type":"string"}},"patternProperties":{"^x-":{"maxLength":1}}})",
       {R"({"a":1,"x-a":"b"})", R"({"x-b":"c"})", R"({"a":1,"x-b":"c","x-c":"d"})"},
       {R"({"x-a":"bb"})", R"({"x-b":"cc"})", R"({"y":1})", R"({"a":2})"}},
      {R"({"properties":{"a":{"const":1}},"unevaluatedProperties":false})",
       {"{}", R"({"a":1})"},
       {R"({"b":1})"}},
      {R"({"properties":{"a":{"const":1}},"unevaluatedProperties":{"type":"null"}})",
       {R"({"a":1,"b":null})"},
       {R"({"b":1})"}},
      {R"({"allOf":[{"properties":{"a":{"const":1}}}],"properties":{"b":{"const":2}},"unevaluatedProperties":false})",
       {R"({"b":2,"a":1})"},
       {R"({"c":1})"}},
      {R"({"properties":{"a":{"const":1}},"anyOf":[{"properties":{"b":{"const":2}}},{"required":["a"]}],"unevaluatedProperties":false})",
       {R"({"a":1,"b":2})", R"({"a":1})"},
       {R"({"c":1})"}},
      {R"({"allOf":[{"anyOf":[{"const":1},{"const":2}]},{"anyOf":[{"const":2},{"const":3}]}]})",
       {"2"},
       {"1", "3"}},
  });
}

// What no grammar can keep is left out, and only that.
TEST(SchemaAnswers, WhatIsPossibleIsKept) {
  check_answers(
      {
          {R"({"type":"object","properties":{"a":{"not":{"type":"null"}},"b":{"const":1}},"required":["b"]})",
           {R"({"a":null,"b":1})"},
           {R"({"b":2})", "{}"}},
          {R"({"type":"array","items":{"type":"string","maxLength":1},"uniqueItems":true,"maxItems":3})",
           {R"(["a","a"])"},
           {R"(["ab"])", R"(["a","a","a","a"])"}},
          {R"({"properties":{"a":{"const":1}},"if":{"required":["a"]},"then":{"required":["b"]}})",
           {R"({"a":1})"},
           {R"({"a":2})"}},
          {R"j({"type":"string","pattern":"\\bx","maxLength":2})j", {R"("ab")"}, {R"("abc")", "1"}},
          {R"({"type":"any","maxLength":2})", {R"("ab")"}, {R"("abc")"}},
          {R"({"properties":{"a":{"type":"float"},"b":{"type":["int","string"]},"c":"text"}})",
           {R"({"a":1.5,"b":2,"c":[]})"},
           {"[]"}},
          {R"({"oneOf":[{"type":"string","maxLength":3},{"type":"string","minLength":2}]})",
           {R"("abc")"},
           {"1"}},
          {R"({"$ref":"https://example.com/a","type":"integer"})", {"1"}, {R"("a")"}},
          {R"({"properties":{"a":{"$ref":"#/$defs/none"}},"required":["a"]})", {R"({"a":1})"}, {"{}"}},
          {R"({"allOf":[{"format":"date","maxLength":10},{"format":"time","minLength":1},{"not":{}},{"not":{}}]})",
           {R"("2024-01-31")"},
           {R"("")", R"("12:00:00Z")"}},
          {R"({"properties":{"a":{"const":1},"x-b":{}},"patternProperties":{"^x":{"type":"null"},"^y":{}}})",
           {R"({"a":1,"x-b":null})"},
           {R"({"a":2})"}},
          {R"({"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{
               "next":{"$ref":"#/$defs/n"},"v":{"type":"integer","not":{"const":3}}}}}})",
           {R"({"a":{"next":{"v":3}}})"},
           {R"({"a":{"next":{"v":"x"}}})"}},
          {R"([])", {"[]", "1"}, {"]"}},
          {R"({"enum":5,"type":"string"})", {R"("a")"}, {"1"}},
          {R"({"minLength":-1,"type":"string"})", {R"("")"}, {"1"}},
      },
      Keep::possible);
}

// Every UTF-8 that the grammar lets through is well-formed.
TEST(SchemaAnswers, BytesThatAreNoUtf8AreNotAllowed) {
  const Answers text(R"({"type":"string"})");
  EXPECT_TRUE(text.take("\"\xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf\""));
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
                          "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xf0\x9f\x98"})
    EXPECT_FALSE(text.take("\"" + std::string(bad) + "\"")) << ::testing::PrintToString(bad);
}

TEST(SchemaAnswers, SchemasThatHoldTogether) {
  check_answers({
      {R"({"allOf":[{"properties":{"a":{"const":1},"b":{"const":2}}},{"properties":{"a":true},"additionalProperties":false}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":2})", R"({"a":1,"b":2})"}},
      {R"({"allOf":[{"properties":{"a":true},"additionalProperties":false},{"properties":{"a":{"const":1},"b":{"const":2}}}]})",
       {"{}", R"({"a":1})"},
       {R"({"b":2})", R"({"a":1,"b":2})"}},
      {R"({"type":"integer","allOf":[{"minimum":5},{"minimum":3}]})", {"5"}, {"4", "3"}},
      {R"({"type":"integer","allOf":[{"minimum":3},{"minimum":5}]})", {"5"}, {"4", "3"}},
      {R"({"type":"integer","allOf":[{"maximum":3},{"maximum":5}]})", {"3"}, {"4", "5"}},
      {R"({"type":"integer","allOf":[{"maximum":5},{"maximum":3}]})", {"3"}, {"4", "5"}},
      {R"({"properties":{"a":{"const":1},"b":{"const":2}},"allOf":[{"required":["a"]},{"required":["b"]}]})",
       {R"({"a":1,"b":2})"},
       {"{}", R"({"a":1})", R"({"b":2})"}},
      {R"({"allOf":[{"enum":[1,2,3]},{"enum":[2,3,4]}]})", {"2", "3"}, {"1", "4"}},
      {R"({"allOf":[{"type":["string","number"]},{"type":["integer","null"]}]})",
       {"1"},
       {"1.5", R"("a")", "null"}},
      {R"({"$ref":"#/$defs/a","maximum":3,"$defs":{"a":{"type":"integer","maximum":5}}})", {"3"}, {"4"}},
  });
}

// The second reference to a schema without values is one, too.
TEST(SchemaAnswers, ReferencesToSchemasWithoutValues) {
  check_answers({
      {R"({"type":"array","prefixItems":[{"anyOf":[{"$ref":"#/$defs/n"},{"const":1}]},
           {"anyOf":[{"$ref":"#/$defs/n"},{"const":2}]}],"$defs":{"n":{"type":"integer","minimum":3,"maximum":2}}})",
       {"[]", "[1]", "[1,2]"},
       {"[\0]"s, "[1,\0]"s, "[3]"}},
      {R"({"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},
           "$defs":{"n":{"type":"string","minLength":2,"maxLength":1}}})",
       {"{}"},
       {"{\"a\":\0}"s, "{\"b\":\0}"s}},
  });
}

// What is written once is not what another part with the same items or steps needs.
TEST(SchemaAnswers, LikePartsKeepTheirOwnLimits) {
  check_answers({
      {R"({"properties":{"a":{"type":"array","items":{"const":1},"minItems":1,"maxItems":2},
           "b":{"type":"array","items":{"const":1},"minItems":1,"maxItems":4}}})",
       {R"({"a":[1,1],"b":[1,1,1,1]})"},
       {R"({"a":[1,1,1]})", R"({"b":[1,1,1,1,1]})"}},
      {R"({"properties":{"a":{"type":"number","multipleOf":0.5},"b":{"type":"number","multipleOf":0.2}}})",
       {R"({"a":0.5,"b":0.4})"},
       {R"({"b":0.5})", R"({"a":0.2})"}},
  });
}

TEST(SchemaAnswers, ASetHasAValueThatIsListedTwiceOnce) {
  check_answers({
      {R"({"type":"array","items":{"enum":["a","a","b"]},"uniqueItems":true})",
       {R"(["a","b"])", R"(["b"])"},
       {R"(["a","a"])"}},
      {R"({"type":"array","allOf":[{"items":{"enum":[1,2]},"uniqueItems":true},{"uniqueItems":false}]})",
       {"[1,2]"},
       {"[1,1]"}},
  });
}

TEST(SchemaAnswers, WhatNeedsMoreThanItMayHaveIsLeftOut) {
  check_answers({
      {R"({"properties":{"a":{"type":"array","items":{"const":1},"minItems":3,"maxItems":2}}})",
       {"{}"},
       {R"({"a":[1,1]})", R"({"a":[1,1,1]})", R"({"a":[]})"}},
  });
}

TEST(SchemaAnswers, SchemasMayHaveAnyNames) {
  for (const char* name : {"root", "7up", "any-value", "a%20b", "-"}) {
    std::string key = name;
    if (const size_t escape = key.find("%20"); escape != key.npos) key.replace(escape, 3, " ");
    const std::string schema = fmt::format(
        R"({{"$ref":"#/$defs/{}","$defs":{{"{}":{{"properties":{{"next":{{"$ref":"#/$defs/{}"}}}}}}}}}})",
        name, key, name);
    check_answers(
        {{schema.c_str(), {"{}", R"({"next":{"next":{}}})"}, {R"({"next":1})", R"({"other":{}})"}}});
  }
}

TEST(SchemaAnswers, OfTwoBoundsTheNarrowerHolds) {
  check_answers({
      {R"({"type":"number","maximum":3,"exclusiveMaximum":5})", {"3", "2.5"}, {"4"}},
      {R"({"type":"number","maximum":3,"exclusiveMaximum":3})", {"2.5"}, {"3"}},
      {R"({"type":"number","minimum":3,"exclusiveMinimum":1})", {"3", "3.5"}, {"2"}},
      {R"({"type":"integer","multipleOf":7,"minimum":10,"maximum":30})", {"14", "28"}, {"7", "10", "35"}},
      {R"({"type":"integer","multipleOf":7,"minimum":-10,"maximum":10})", {"-7", "0", "7"}, {"-14", "14"}},
      {R"({"enum":[1,2],"const":2})", {"2"}, {"1"}},
      {R"({"type":"string","maxLength":1e300})", {R"("abc")", R"("")"}, {"abc"}},
  });
}

// A reader takes a text that begins like an object or a list for one.
TEST(SchemaAnswers, BareTextsBeginLikeNoOtherType) {
  const auto takes = [](const char* schema, const std::string& value) {
    static GrammarCompiler compiler(bytes_as_tokens());
    GrammarRules rules;
    const auto element = add_parameters(
        {{"type", "object"}, {"properties", {{"a", parse_json(schema).value()}}}, {"required", {"a"}}},
        function_tags(), rules);
    EXPECT_TRUE(element.ok()) << schema << element.error().message;
    GrammarMatcher matcher(*compiler.compile(rules.text(*element)));
    for (const char byte : "<parameter=a>\n" + value + "\n</parameter>\n")
      if (!matcher.accept(1 + static_cast<unsigned char>(byte))) return false;
    return matcher.complete();
  };
  for (const auto& [type, begin] : {std::pair("object", "{x"), {"array", "[x"}, {"number", "7x"}}) {
    const std::string schema = fmt::format(R"({{"type":["string","{}"]}})", type);
    EXPECT_TRUE(takes(schema.c_str(), "x" + std::string(begin))) << type;
    EXPECT_FALSE(takes(schema.c_str(), begin)) << type;
  }
  EXPECT_TRUE(takes(R"({"type":"string","pattern":"^[a<]*$"})", "aa"));
  EXPECT_FALSE(takes(R"({"type":"string","pattern":"^[a<]*$"})", "a<"))
      << "it may begin the tag that ends it";
}

}  // namespace
}  // namespace anabranch
