#include "grammar/schema_grammar.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "grammar/automaton_accepts.h"
#include "grammar/number_grammar.h"
#include "grammar/schema_merge.h"
#include "slow.h"

namespace anabranch {
namespace {

std::string error_of(const char* schema) {
  GrammarRules rules;
  const auto element = add_schema(parse_json(schema).value(), rules);
  return element.ok() ? "" : element.error().message;
}

TEST(SchemaGrammar, ManyMembersAreRefused) {
  Json names = Json::array();
  for (int i = 0; i < 500; i++) names.push_back(fmt::format("a{}", i));
  const auto schema = [&] { return Json{{"type", "object"}, {"required", names}}.dump(); };
  EXPECT_EQ(error_of(schema().c_str()), "");
  for (int i = 500; i < 19000; i++) names.push_back(fmt::format("a{}", i));
  EXPECT_NE(error_of(schema().c_str()).find("too large"), std::string::npos);
  const Json wide = {{"type", "object"},
                     {"properties", {{std::string(1 << 20, 'x'), true}, {"b", true}}},
                     {"additionalProperties", true},
                     {"maxProperties", 60}};
  EXPECT_NE(error_of(wide.dump().c_str()).find("too large"), std::string::npos);
}

TEST(SchemaGrammar, ManyListedValuesAreRefused) {
  const auto numbers = [](int count) {
    Json out = Json::array();
    for (int i = 0; i < count; i++) out.push_back(i);
    return out;
  };
  const auto error = [](const Json& schema) { return error_of(schema.dump().c_str()); };
  EXPECT_EQ(error({{"enum", numbers(5000)}}), "");
  EXPECT_NE(error({{"enum", numbers(5001)}}).find("'enum' at # has more than 5000 values"),
            std::string::npos);
  const auto set = [&](int count) {
    return error({{"type", "array"}, {"uniqueItems", true}, {"items", {{"enum", numbers(count)}}}});
  };
  EXPECT_EQ(set(400), "");
  EXPECT_NE(set(501).find("'uniqueItems' at #"), std::string::npos);
  const auto two = [&](int count) {
    return error({{"allOf", {{{"enum", numbers(count)}}, {{"enum", numbers(count + 1)}}}}});
  };
  EXPECT_EQ(two(400), "");
  EXPECT_NE(two(600).find("'enum'"), std::string::npos);
}

TEST(SchemaGrammar, ManyReferencesAreRefused) {
  const auto references = [](int count) {
    Json schema = {{"anyOf", Json::array()}, {"$defs", Json::object()}};
    for (int i = 0; i < count; i++) {
      schema["$defs"][fmt::format("d{}", i)] = {{"const", i}};
      schema["anyOf"].push_back({{"$ref", fmt::format("#/$defs/d{}", i)}});
    }
    return error_of(schema.dump().c_str());
  };
  EXPECT_EQ(references(100), "");
  EXPECT_NE(references(2001).find("has more than 2000 references"), std::string::npos);
}

// Each of the patterns is no trouble by itself, and all are written as any text.
TEST(SchemaGrammar, PatternsShareABudget) {
  Json schema = {{"type", "object"}};
  const auto error_with = [&](auto pattern) {
    for (int i = 0; i < 490; i++)
      schema["properties"][fmt::format("p{}", i)] = {{"type", "string"}, {"pattern", pattern(i)}};
    return error_of(schema.dump().c_str());
  };
  EXPECT_EQ(error_with([](int) { return "^(a|b)*a(a|b){9}$|"; }), "");  // made once
  const std::string error = error_with([](int i) { return fmt::format("^(a|b)*a(a|b){{9}}$|{}?", i); });
  EXPECT_NE(error.find("'pattern' at #/properties/p"), std::string::npos) << error;
  EXPECT_NE(error.find("too much work"), std::string::npos) << error;
}

// What copies itself again and again is made once, or refused before it takes long.
TEST(SchemaGrammar, LargePartsTakeLittleTime) {
  const auto within_seconds = [](const Json& schema) {
    const std::string text = schema.dump();
    const double start = now_seconds();
    const std::string error = error_of(text.c_str());
    EXPECT_LT(now_seconds() - start, 10 * kSlowdown) << error;
    return error;
  };
  Json notes = Json::array();
  for (int i = 0; i < 30000; i++) notes.push_back({{"note", i}});
  Json noted = {{"$defs", {{"a", {{"type", "null"}, {"examples", notes}}}}}, {"type", "object"}};
  for (int i = 0; i < 490; i++)
    noted["properties"][fmt::format("p{}", i)] = {{"allOf", Json::array({{{"$ref", "#/$defs/a"}}})}};
  EXPECT_EQ(within_seconds(noted), "");

  Json choices = Json::array();
  for (int i = 0; i < 300; i++) {
    Json one = {{"type", "object"}, {"required", {fmt::format("p{}", i)}}};
    for (int j = 0; j < 60; j++) one["properties"][fmt::format("p{}", i + 1000 * j)] = {{"type", "null"}};
    choices.push_back(one);
  }
  EXPECT_EQ(within_seconds({{"oneOf", choices}}), "");

  Json wide = {{"type", "object"}}, all = Json::array();
  for (int i = 0; i < 300; i++) wide["properties"][fmt::format("p{}", i)] = {{"type", "null"}};
  for (int i = 0; i < 3000; i++) all.push_back({{"$ref", "#/$defs/a"}});
  Json merged = {{"$defs", {{"a", wide}}}, {"type", "object"}};
  for (int i = 0; i < 50; i++) merged["properties"][fmt::format("p{}", i)] = {{"allOf", all}};
  EXPECT_NE(within_seconds(merged).find("too large"), std::string::npos);
}

// What is not kept is refused, by name and place.
TEST(SchemaGrammar, RefusesWhatItCannotKeep) {
  const struct {
    const char *schema, *words;
  } cases[] = {
      {R"({"properties":{"a":{"not":{"type":"null"}}}})", "'not' at #/properties/a"},
      {R"({"if":{},"then":{}})", "'if' at #"},
      {R"({"type":"array","uniqueItems":true})", "'uniqueItems' at #"},
      {R"({"type":"array","contains":{"const":1}})", "'contains' at #"},
      {R"({"type":"array","uniqueItems":true,"items":{"type":"string"}})", "'uniqueItems' at #"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2]},"prefixItems":[{"const":5}]})",
       "'uniqueItems' at #"},
      {R"({"type":"object","patternProperties":{"^a":{}},"additionalProperties":{"type":"string"}})",
       "'patternProperties' at #"},
      {R"({"allOf":[{"additionalProperties":false,"properties":{"a":true}},{"patternProperties":{"^x":true}}]})",
       "'patternProperties'"},
      {R"({"allOf":[{"patternProperties":{"^x":true}},{"additionalProperties":false,"properties":{"a":true}}]})",
       "'patternProperties'"},
      {R"({"allOf":[{"items":{"type":"string"}},{"prefixItems":[{"const":1}]}]})", "'prefixItems'"},
      {R"({"allOf":[{"prefixItems":[{"const":1}]},{"items":{"type":"string"}}]})", "'prefixItems'"},
      {R"({"enum":[1,2],"const":3})", "no value satisfies"},
      {R"({"type":"string","minLength":2.5})", "'minLength' at #"},
      {R"({"type":"number","multipleOf":12345})", "'multipleOf' at #"},
      {R"({"type":"number","multipleOf":0})", "'multipleOf' at #"},
      {R"j({"type":"string","pattern":"a(?<=b)"})j", "'pattern' at #"},
      {R"({"type":"string","pattern":["a",1]})", "'pattern' at #"},
      {R"({"oneOf":[{"type":"number","minimum":1},{"type":"integer"}]})", "'oneOf' at #"},
      {R"({"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]})",
       "'oneOf'"},
      {R"({"$ref":"other.json"})", "'$ref' at #"},
      {R"({"$ref":"#/$defs/none"})", "does not have"},
      {R"({"$ref":"#"})", "no value satisfies"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "no value satisfies"},
      {R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", "refers to itself"},
      {R"({"allOf":[{"type":"string"},{"type":"null"}]})", "no value satisfies"},
      {R"({"type":"array","uniqueItems":true,"items":{"enum":[1,2,3]},"minItems":3,"maxItems":2})",
       "no value satisfies"},
      {R"({"type":"string","pattern":"^(a{0,9}|a{30,})$","minLength":10,"maxLength":25})",
       "no value satisfies"},
      {R"({"allOf":[{"pattern":"^a$"},{"pattern":"^b$"}]})", "no value satisfies"},
      {R"({"allOf":[{"format":"date"},{"format":"time"}]})", "'format'"},
      {R"({"enum":[1,2],"type":"string"})", "no value satisfies"},
      {R"({"type":"integer","minimum":3,"maximum":2})", "no value satisfies"},
      {R"({"type":"text"})", "is no type"},
      {R"({"type":"string","minLength":-1})", "'minLength' at #"},
      {R"({"type":"string","minLength":3,"pattern":"^a$"})", "no value satisfies"},
      {R"({"type":"object","patternProperties":{"a":{},"b":{}}})", "'patternProperties' at #"},
      {R"({"type":"object","additionalProperties":{},"minProperties":2})", "'minProperties' at #"},
      {R"({"type":"object","properties":{"a":false},"required":["a"]})", "no value satisfies"},
      {R"({"type":"integer","minimum":0,"maximum":90000000,"multipleOf":1003})", "'multipleOf' at #"},
      {R"([])", "must be an object"},
      {R"({"type":"object","patternProperties":[{}]})", "'patternProperties' at #"},
      {R"({"type":"array","prefixItems":{"a":{}},"minItems":1})", "'prefixItems' at #"},
      // What one of two schemas says is not forgotten.
      {R"({"allOf":[{"anyOf":[{},{"minProperties":1}],"unevaluatedProperties":false},{"required":["a"]}]})",
       "'unevaluatedProperties'"},
      {R"({"allOf":[{"dependentRequired":{}},{"dependentRequired":{"a":["b"]}}]})", "'dependentRequired'"},
      {R"({"allOf":[{"items":[{}],"additionalItems":true},{"additionalItems":false}]})", "'additionalItems'"},
      {R"({"allOf":[{"patternProperties":{"^a":{}}},{"additionalProperties":false}]})",
       "'patternProperties'"},
      // The first may have "a", too.
      {R"({"oneOf":[{"type":"object"},{"type":"object","properties":{"a":{}},"required":["a"]}]})",
       "'oneOf' at #"},
      {R"({"oneOf":[{"type":"object","required":["a"]},{"type":"object","required":["a","b"]}]})",
       "'oneOf' at #"},
      // A name that must be there is, though the first says nothing else of it; and "y" by the first's anyOf.
      {R"({"oneOf":[{"type":"object","properties":{"x":{}},"required":["id"]},{"type":"object","properties":{"z":{}},"required":["id"]}]})",
       "'oneOf' at #"},
      {R"({"oneOf":[{"type":"object","properties":{"x":{}},"required":["x"],"anyOf":[{"properties":{"y":{}},"required":["y"]}]},{"type":"object","properties":{"y":{}},"required":["y"]}]})",
       "'oneOf' at #"},
      {R"({"type":"array","prefixItems":[{}],"items":[{}]})", "'prefixItems' at #"},
      {R"({"type":"object","additionalProperties":{},"propertyNames":{"type":"integer"},"minProperties":1})",
       "no value satisfies"},
      // Endless by what must be in them.
      {R"({"type":["object"],"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no value satisfies"},
      {R"({"type":"array","prefixItems":[{"type":"null"},{"$ref":"#"}],"minItems":2})", "no value satisfies"},
      {R"({"type":"array","items":[{"$ref":"#"}],"minItems":1})", "no value satisfies"},
      {R"({"type":"array","items":[{}],"additionalItems":{"$ref":"#"},"minItems":2})", "no value satisfies"},
      {R"({"type":"object","additionalProperties":{"$ref":"#"},"required":["a"]})", "no value satisfies"},
      {R"({"type":"object","additionalProperties":{"$ref":"#"},"minProperties":1})", "no value satisfies"},
      {R"({"type":"object","patternProperties":{"^a":{"$ref":"#"}},"minProperties":1})",
       "no value satisfies"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"minProperties":1})", "no value satisfies"},
  };
  for (const auto& c : cases)
    EXPECT_NE(error_of(c.schema).find(c.words), std::string::npos) << c.schema << ": " << error_of(c.schema);
  for (
      const char* good :
      {R"({})", R"({"type":"array","uniqueItems":true,"maxItems":1})",
       R"({"type":"integer","minimum":0,"maximum":6000,"multipleOf":3})",
       R"({"type":"string","format":"unknown"})", R"({"oneOf":[{"type":"string"},{"type":"integer"}]})",
       R"({"not_a_keyword":1,"type":"null"})",
       R"({"anyOf":[{"type":"string"},{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":1,"multipleOf":2}]})",
       R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{}},"required":["b"]}]})",
       R"({"type":"array","prefixItems":[{"type":"null"},{"$ref":"#"}],"minItems":1})",
       R"({"allOf":[{"type":"object","patternProperties":{"^a":{}},"additionalProperties":false},{"maxProperties":3}]})",
       R"({"type":"object","properties":{"a":{"$ref":"#"},"b":{"type":"null"}},"minProperties":1})",
       R"({"type":"object","additionalProperties":{"$ref":"#"}})",
       R"({"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["a"]})"})
    EXPECT_EQ(error_of(good), "") << good;
}

// Between tags a string that spells another value would be read as that.
TEST(SchemaGrammar, BareConstantsAreReadAsTheyAre) {
  const auto error = [](const char* parameter) {
    GrammarRules rules;
    const auto element = add_parameters(
        {{"type", "object"}, {"properties", {{"a", parse_json(parameter).value()}}}}, function_tags(), rules);
    return element.ok() ? "" : element.error().message;
  };
  for (const char* good : {R"({"enum":["1","2"]})", R"({"enum":["a",2]})", R"({"enum":["None",2]})",
                           R"({"type":"string","enum":["true"]})"})
    EXPECT_EQ(error(good), "") << good;
  for (const char* bad :
       {R"({"enum":["1",2]})", R"({"enum":["None",null]})", R"({"enum":["[]",[1]]})",
        R"({"anyOf":[{"const":"1"},{"type":"integer"}]})", R"({"enum":["a "]})", R"({"enum":["\na"]})"})
    EXPECT_NE(error(bad).find("'enum' at #/properties/a"), std::string::npos) << bad << error(bad);
}

TEST(SchemaGrammar, IntegersWithinBounds) {
  for (int low = -25; low <= 112; low += 7)
    for (int high = low; high <= 130; high += 9) {
      const Automaton pattern = *compiled(integer_regex({low, high}), true);
      for (int n = -130; n <= 140; n++)
        ASSERT_EQ(accepts(pattern, std::to_string(n)), n >= low && n <= high)
            << low << " " << n << " " << high;
    }
  const Automaton above = *compiled(integer_regex({7, std::nullopt}), true);
  EXPECT_TRUE(accepts(above, "123456789012345678") && !accepts(above, "6") && !accepts(above, "-8"));
  EXPECT_EQ(integer_regex({5, 4}), "");
}

TEST(SchemaGrammar, OneNumberOrNone) {
  const Automaton one = *compiled(*number_regex({2.5, 2.5}), true);
  EXPECT_TRUE(accepts(one, "2.5") && !accepts(one, "2.51") && !accepts(one, "2"));
  EXPECT_FALSE(number_regex({2.5, 2.5, true}).ok());
  EXPECT_FALSE(number_regex({1.0, 0.5}).ok());
}

TEST(SchemaGrammar, DecimalsWithinBounds) {
  std::vector<std::string> numbers;
  for (int i = -340; i <= 340; i++) {
    const std::string sign = i < 0 ? "-" : "", whole = std::to_string(std::abs(i) / 100),
                      rest = std::to_string(std::abs(i) % 100 + 100).substr(1);
    numbers.push_back(sign + whole + "." + rest);
    if (rest[1] == '0') numbers.push_back(sign + whole + "." + rest[0]);
    if (rest == "00") numbers.push_back(sign + whole);
  }
  for (const double low : {-3.0, -2.25, -1.0, -0.5, 0.0, 0.07, 1.0, 1.25, 2.9})
    for (const double width : {0.01, 0.5, 1.0, 2.33})
      for (const int open : {0, 1, 2, 3}) {
        const double high = std::round((low + width) * 100) / 100;
        const auto regex = number_regex({low, high, (open & 1) != 0, (open & 2) != 0});
        ASSERT_TRUE(regex.ok()) << low << " " << high;
        const Automaton pattern = *compiled(*regex, true);
        for (const auto& text : numbers) {
          const double n = std::stod(text);
          const bool inside = (open & 1 ? n > low : n >= low) && (open & 2 ? n < high : n <= high);
          if (n == 0 && text[0] == '-') continue;  // another way to write 0
          ASSERT_EQ(accepts(pattern, text), inside)
              << low << " " << text << " " << high << " " << open << " " << *regex;
        }
        for (const char* wrong : {"", "-", ".", "1.", "-.5", "01", "1e5"})
          EXPECT_FALSE(accepts(pattern, wrong)) << wrong;
      }
}

}  // namespace
}  // namespace anabranch
