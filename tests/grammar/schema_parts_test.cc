// The parts that the writer of schemas is made of, each by itself.
#include <gtest/gtest.h>

#include "grammar/schema_document.h"
#include "grammar/schema_finite.h"
#include "grammar/schema_members.h"
#include "grammar/schema_scalars.h"

namespace anabranch {
namespace {

TEST(SchemaDocument, FlattensReferencesAndAllOf) {
  const Json root = {
      {"$defs", {{"a/b", {{"minLength", 2}, {"title", "note"}}}, {"loop", {{"$ref", "#/$defs/loop"}}}}}};
  WorkBudget work;
  const SchemaDocument document(root, work);
  const Json schema = {{"$ref", "#/$defs/a~1b"},
                       {"allOf", {{{"type", "string"}}, {{"minLength", 5}}}},
                       {"description", "note"}};
  EXPECT_EQ(*document.flatten(schema, "#"), Json({{"minLength", 5}, {"type", "string"}}));
  EXPECT_EQ(*document.flatten({{"allOf", {true, false}}}, "#"), Json(false));
  EXPECT_EQ(document.flatten({{"$ref", "#/$defs/loop"}}, "#/x").error().message,
            "'$ref' at #/x or 'allOf' leads back to itself");
  EXPECT_EQ(document.target("#/$defs/none", "#/x").error().message,
            "'$ref' at #/x is \"#/$defs/none\", which the schema does not have");
  EXPECT_EQ(document.target("other.json", "#/x").error().kind, ErrorKind::unsupported);
}

TEST(SchemaDocument, NamesTheTypesOfAllAlternatives) {
  const Json root = {{"$defs", {{"number", {{"type", "number"}}}}}};
  WorkBudget work;
  const SchemaDocument document(root, work);
  const Json flat = {
      {"anyOf", {{{"$ref", "#/$defs/number"}}, {{"const", "x"}}, {{"oneOf", {{{"items", true}}}}}}}};
  TypeSet expected{};
  expected[kNumber] = expected[kString] = expected[kArray] = true;
  EXPECT_EQ(*document.named_types(flat, "#"), expected);
}

TEST(SchemaDocument, StopsWhenTheBudgetIsUsedUp) {
  const Json root = {{"type", "string"}, {"minLength", 1}};
  WorkBudget work(50);
  const SchemaDocument document(root, work);
  EXPECT_EQ(document.flatten(root, "#").error().kind, ErrorKind::exhausted);
}

TEST(FiniteSchemas, ASchemaThatNeedsItselfHasNoFiniteValue) {
  const auto node = [](const char* ref) {
    return Json{{"type", "object"}, {"properties", {{"next", {{"$ref", ref}}}}}, {"required", {"next"}}};
  };
  const Json root = {
      {"$defs",
       {{"endless", node("#/$defs/endless")},
        {"list", {{"anyOf", {{{"type", "null"}}, node("#/$defs/list")}}}},
        {"items", {{"type", "array"}, {"items", {{"$ref", "#/$defs/items"}}}}},
        {"some", {{"type", "array"}, {"items", {{"$ref", "#/$defs/some"}}}, {"minItems", 1}}}}}};
  WorkBudget work;
  const SchemaDocument document(root, work);
  FiniteSchemas finite(document);
  ASSERT_TRUE(finite.find("#").ok());
  const auto reference = [&](const char* name) {
    return finite.has_finite_value({{"$ref", std::string("#/$defs/") + name}});
  };
  EXPECT_FALSE(reference("endless"));
  EXPECT_FALSE(reference("some"));
  EXPECT_TRUE(reference("list"));
  EXPECT_TRUE(reference("items"));
  EXPECT_FALSE(finite.has_finite_value(node("#/$defs/endless")));
}

TEST(MembersWriter, ObjectsWithoutAValidNumberOfMembersHaveNoElement) {
  const auto element = [](std::vector<Member> named, std::string other, int64_t least,
                          std::optional<int64_t> most) {
    GrammarRules rules;
    const Members members{std::move(named), std::move(other), least, most};
    return MembersWriter(members, rules).add();
  };
  const Member a{"\"a\"", false}, b{"\"b\"", true};
  EXPECT_NE(element({}, "", 0, {}), "");
  EXPECT_EQ(element({}, "", 1, {}), "");
  EXPECT_NE(element({}, "\"x\"", 1, {}), "");
  EXPECT_NE(element({a, b}, "", 2, 2), "");
  EXPECT_EQ(element({a, b}, "", 3, {}), "");
  EXPECT_EQ(element({b}, "", 0, 0), "");
  EXPECT_NE(element({a}, "", 0, 0), "");
}

TEST(SchemaConstants, OnlyThoseThatSatisfyTheOtherKeywordsAreWritten) {
  const Json flat = {{"type", {"string", "integer"}}, {"minLength", 2}, {"maximum", 7}};
  GrammarRules rules;
  const auto element = add_constants(flat, {"a", "bc", 7, 8, 1.5, nullptr}, "#", nullptr, rules);
  ASSERT_TRUE(element.ok());
  EXPECT_NE(rules.text(*element).find("constant ::= \"\\\"bc\\\"\" | \"7\"\n"), std::string::npos)
      << rules.text(*element);
  EXPECT_EQ(*add_constants(flat, {"a"}, "#", nullptr, rules), "");
  TypeSet numbers{};
  numbers[kString] = numbers[kNumber] = true;
  const BareText bare{numbers, "</value>"};
  EXPECT_TRUE(add_constants({}, {"true", "</parameter>"}, "#", &bare, rules).ok());
  for (const char* text : {"12", "a</value>b"})  // would be read as a number, or end there
    EXPECT_FALSE(add_constants({}, {text}, "#", &bare, rules).ok()) << text;
}

}  // namespace
}  // namespace anabranch
