// What a request's form of the answer and its choice of tools become as a grammar.
#include "chat/constraints.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

const Json kOneTool = parse_json(R"([{"type": "function", "function": {"name": "f",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}}])")
                          .value();

const Tokenizer& any_tokenizer() {
  static const auto made = Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json");
  CHECK(made.ok(), "{}", made.error().message);
  return **made;
}

Result<ConstraintGrammar> grammar_of(const ResponseFormat& format, const ToolChoice& choice,
                                     const Json& tools, bool several) {
  static const OutputFormat tagged{.tools = ToolFormat::tagged};
  std::string field;
  return constraint_grammar(format, choice, {tagged, any_tokenizer(), tools, several}, field);
}

std::string text_of_grammar(const ToolChoice& choice, bool several) {
  const auto grammar = grammar_of({}, choice, kOneTool, several);
  EXPECT_TRUE(grammar.ok());
  return grammar.ok() ? grammar->text : "";
}

TEST(Constraints, ANamedToolIsCalledOnce) {
  const ToolChoice named{ToolChoice::Kind::named, "f"}, required{ToolChoice::Kind::required, ""};
  EXPECT_EQ(text_of_grammar(named, true), text_of_grammar(named, false));
  EXPECT_NE(text_of_grammar(required, true), text_of_grammar(required, false));
  EXPECT_EQ(text_of_grammar({}, true), "") << "nothing is forced";
}

// Macros that take patterns are refused wherever they stand, and nothing that only looks like one.
TEST(Constraints, GrammarsWithPatternMacrosAreRefused) {
  const auto refused = [](const std::string& grammar) {
    ResponseFormat format;
    format.kind = ResponseFormat::Kind::grammar;
    format.grammar = grammar;
    return !grammar_of(format, {}, nullptr, true).ok();
  };
  for (const char* bad :
       {R"g(root ::= Regex("a"))g", R"g(root ::= Regex ("a"))g", "root ::= Regex\n(\"a\")",
        R"g(root ::= "x" Substring("a"))g", R"g(root[capture="#0 1 2 3 4"] ::= "x")g",
        R"g(root[capture = " #0"] ::= "x")g", "root ::= a\na ::= (\"b\" | Regex(\"a\"))",
        R"g(root ::= "\"" Regex("a"))g", R"g(root ::= ["] Regex("a"))g", "root::=Regex(\"a\")",
        "root ::= Regex # text\n(\"a\")", R"g(root ::= "\\" Regex("a"))g", R"g(root ::= [\]"] Regex("a"))g"})
    EXPECT_TRUE(refused(bad)) << bad;
  for (const char* good : {R"g(root ::= "Regex(")g", R"g(root ::= [Regex(])g", "root ::= \"a\" # Regex(",
                           R"g(root ::= MyRegex ("a"))g", R"g(root ::= Regex2 ("a"))g",
                           R"g(root ::= "\"Regex(")g", R"g(root ::= Regex "a" ("b"))g", "root ::= \"a\""})
    EXPECT_FALSE(refused(good)) << good;
}

}  // namespace
}  // namespace anabranch
